"""The Helm chart: the objects of `manifests` as templates, whose values are what `carico deploy` offers as options.

Objects are made with marks where a value goes, written as YAML, and the marks become Helm's actions. So chart and
`carico deploy` cannot differ in what nobody chooses; a test renders both, and compares them for every option.

The chart has neither the namespace, which must exist before Helm installs anything in it, nor the certificates:
``carico deploy --only-certificates`` makes both.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, get_args

import yaml

from carico import __version__
from carico.demand.settings import DEMAND, DemandVariant
from carico.deployment.manifests import (
    API_PORT,
    CONFIGURATION,
    IMAGE,
    KUBE_SCHEDULER_IMAGE,
    OBSERVES,
    SCHEDULING,
    Choices,
    Telemetry,
    component,
    control_plane_only,
    manifests,
)
from carico.deployment.monitoring import FOLDER as MONITORING
from carico.deployment.monitoring import operator_objects
from carico.model.variants import DEFAULT_VARIANT
from carico.podevents.source import PLATFORM_NAMESPACES
from carico.variants import VARIANTS

_NAMESPACE, _IMAGE, _KUBE_SCHEDULER, _TELEMETRY = "x-namespace", "x-image", "x-kube-scheduler", "x-telemetry"
_LEARN_DEMAND = [name for name, each in VARIANTS.items() if isinstance(each, DemandVariant)]
_OF_DEMAND = f"has .Values.variant (list {' '.join(map(json.dumps, _LEARN_DEMAND))})"
_DEFAULT = f'eq .Values.variant "{DEFAULT_VARIANT.name}"'
_OF_PLATFORM = f"has .Release.Namespace (list {' '.join(map(json.dumps, PLATFORM_NAMESPACES))})"
_VALUES = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    _IMAGE: "{{ .Values.image | quote }}",
    _KUBE_SCHEDULER: "{{ .Values.kubeSchedulerImage | quote }}",
    _TELEMETRY: "{{ .Values.telemetry }}",
}
_MARKED = Choices(_NAMESPACE, _IMAGE, _KUBE_SCHEDULER, _TELEMETRY, DEFAULT_VARIANT.name)  # type: ignore[arg-type]
_OTHER = next(name for name in VARIANTS if name not in {DEFAULT_VARIANT.name, *_LEARN_DEMAND})
"""A variant of the thesis whose configuration names it; all others look the same but for the name."""


def chart() -> dict[str, str]:
    """Return the files of the chart, by their paths in its folder."""
    files = {
        "Chart.yaml": _yaml(
            {
                "apiVersion": "v2",
                "name": "carico",
                "description": "CARICO, a Kubernetes scheduler that needs no resource requests.",
                "type": "application",
                "version": __version__,
                "appVersion": __version__,
                "kubeVersion": ">=1.30.0-0",
            }
        ),
        "values.yaml": _DEFAULTS,
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        "templates/_checks.tpl": _CHECKS,
        "templates/_configuration.tpl": _configuration(),
        "templates/monitoring.yaml": _monitoring(),
        "monitoring/alerts.yaml": (MONITORING / "alerts.yaml").read_text(encoding="utf-8"),
        "monitoring/dashboard.json": (MONITORING / "dashboard.json").read_text(encoding="utf-8"),
    }
    for thing in manifests(_MARKED):
        if thing["kind"] != "Namespace":
            file = f"templates/{component(thing) or 'cluster'}.yaml"
            files[file] = files.get(file, '{{- include "carico.checks" . -}}\n') + f"---\n{_template(thing)}"
    for part, left_out in (("aggregator", f"({_OF_DEMAND})"), (SCHEDULING, ".Values.observe")):
        file = f"templates/{part}.yaml"
        files[file] = f"{{{{- if not {left_out} }}}}\n{files[file]}{{{{- end }}}}\n"
    return files


def _template(thing: dict[str, Any]) -> str:
    name = thing["metadata"]["name"]
    if thing["kind"] == "ConfigMap" and "data" in thing:
        lines = [
            f'  {file}: |\n    {{{{- include "carico.{file}" . | trim | nindent 4 }}}}\n' for file in thing.pop("data")
        ]
        return _with_actions(_yaml(thing)) + "data:\n" + "".join(lines)
    template = thing.get("spec", {}).get("template")
    if template is not None:
        template["metadata"]["annotations"][CONFIGURATION] = f"x-digest-{name}"
        spec = template["spec"]
        if thing["kind"] == "StatefulSet":
            thing["metadata"] |= _if(".Values.observe", {"annotations": {OBSERVES: "true"}})
            spec |= _if(".Values.onControlPlane", control_plane_only())
            at = [each["image"] for each in spec["containers"]]
            if _KUBE_SCHEDULER in at:
                index = at.index(_KUBE_SCHEDULER)
                marked = ["x-if not .Values.observe", spec["containers"][index], "x-end"]
                spec["containers"][index : index + 1] = marked
    if thing["kind"] == "NetworkPolicy":
        for rule in thing["spec"].get("egress", ()):
            if any(each["port"] == API_PORT for each in rule["ports"]):
                rule["ports"] += ["x-range .Values.apiServerPorts", {"port": "x-each"}, "x-end"]
    return _with_actions(_yaml(thing))


def _if(condition: str, content: dict[str, Any]) -> dict[str, Any]:
    return {f"x-if {condition}": None} | content | {f"x-end of {condition}": None}


def _with_actions(text: str) -> str:
    """Return YAML with Helm's actions in place of marks."""
    text = re.sub(r"^ *(?:- )?x-((?:if|range) [^:\n]+)(?:: null)?$", r"{{- \1 }}", text, flags=re.MULTILINE)
    text = re.sub(r"^ *(?:- )?x-end(?: of [^:\n]+: null)?$", "{{- end }}", text, flags=re.MULTILINE)
    text = re.sub(r"x-digest-(\S+)", r'{{ include "carico.digest-\1" . }}', text)
    for mark, value in (_VALUES | {"x-each": "{{ . }}"}).items():
        text = text.replace(mark, value)
    return text


def _configuration() -> str:
    """Return the text of every configuration file, and the digest of every ConfigMap, as named templates."""
    kinds = {
        name: {
            thing["metadata"]["name"]: thing["data"]
            for thing in manifests(replace(_MARKED, variant=name))
            if thing["kind"] == "ConfigMap" and "data" in thing
        }
        for name in (DEFAULT_VARIANT.name, _OTHER, DEMAND.name)
    }
    # Without any choice, files are as they are in the package, with their comments.
    unchanged = {
        file: text
        for thing in manifests(Choices(variant=DEFAULT_VARIANT.name))
        if thing["kind"] == "ConfigMap" and "data" in thing
        for file, text in thing["data"].items()
    }
    defined = []
    for name, data in kinds[DEFAULT_VARIANT.name].items():
        digested = " ".join(f'"{file}" (printf "%s\\n" (include "carico.{file}" . | trim))' for file in data)
        defined.append(_define(f"digest-{name}", f"{{{{ dict {digested} | toRawJson | sha256sum | trunc 16 }}}}"))
        for file in data:
            of_thesis, of_demand = kinds[_OTHER][name][file], kinds[DEMAND.name].get(name, data)[file]
            if of_thesis == unchanged[file]:
                text = of_thesis
            else:
                chosen = {_TELEMETRY: 'eq .Values.telemetry "procfs"', "excluded_namespaces": _OF_PLATFORM}
                others = [f"({is_default})" for word, is_default in chosen.items() if word in of_thesis]
                is_unchanged = f"and ({_DEFAULT}) {' '.join(others)}" if others else _DEFAULT
                text = (
                    f"{{{{- if {is_unchanged} }}}}\n{unchanged[file]}"
                    f"{{{{- else if {_OF_DEMAND} }}}}\n{_chosen(of_demand)}"
                    f"{{{{- else }}}}\n{_chosen(of_thesis)}{{{{- end }}}}"
                )
            defined.append(_define(file, text))
    return "\n".join(defined)


def _chosen(text: str) -> str:
    """Return a configuration with Helm's actions for what the user chooses."""
    text = re.sub(
        r"^( *excluded_namespaces:\n(?: *- .*\n)+)",
        f"{{{{- if not ({_OF_PLATFORM}) }}}}\n\\1{{{{- end }}}}\n",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(
        r"^variant: .*\n",
        f"{{{{- if not ({_DEFAULT}) }}}}\nvariant: {{{{ .Values.variant }}}}\n{{{{- end }}}}\n",
        text,
        flags=re.MULTILINE,
    )
    return _with_actions(text)


def _define(name: str, text: str) -> str:
    return f'{{{{- define "carico.{name}" -}}}}\n{text.strip()}\n{{{{- end }}}}\n'


def _monitoring() -> str:
    monitor, rule, grafana = operator_objects(_NAMESPACE)
    del rule["spec"], grafana["data"]
    return (
        f"{{{{- if .Values.monitoring }}}}\n---\n{_with_actions(_yaml(monitor))}"
        f'---\n{_with_actions(_yaml(rule))}spec:\n  {{{{- .Files.Get "monitoring/alerts.yaml" | nindent 2 }}}}\n'
        f"---\n{_with_actions(_yaml(grafana))}data:\n  carico.json: |\n"
        f'    {{{{- .Files.Get "monitoring/dashboard.json" | nindent 4 }}}}\n{{{{- end }}}}\n'
    )


def _schema() -> dict[str, Any]:
    text, truth = {"type": "string", "minLength": 1}, {"type": "boolean"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "image": text,
            "kubeSchedulerImage": text,
            "variant": {"enum": list(VARIANTS)},
            "telemetry": {"enum": list(get_args(Telemetry))},
            "observe": truth,
            "onControlPlane": truth,
            "apiServerPorts": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65_535}},
            "monitoring": truth,
            "global": {"type": "object"},
        },
    }


def _yaml(thing: Any) -> str:
    return str(yaml.safe_dump(thing, sort_keys=False, width=1000, allow_unicode=True))


_DEFAULTS = f"""\
# CARICO's image, and kube-scheduler's in your cluster's version: REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST.
image: {IMAGE}
kubeSchedulerImage: {KUBE_SCHEDULER_IMAGE}
# CARICO's parameters: {", ".join(VARIANTS)}.
variant: {DEMAND.name}
# cgroup for nodes that are containers themselves, such as kind's.
telemetry: procfs
# Schedule nothing: learn what pods cost, for `carico costs`; needs the variant demand.
observe: false
# Run servers and schedulers on nodes of the control plane, and leave the other nodes to pods.
onControlPlane: false
# Ports of the API server, besides 443 and 6443, that network policies let CARICO connect to.
apiServerPorts: []
# Install alerts, a dashboard and a PodMonitor, too; needs the Prometheus operator.
monitoring: false
"""
_CHECKS = f"""\
{{{{- define "carico.checks" -}}}}
{{{{- if and .Values.observe (not ({_OF_DEMAND})) }}}}
{{{{- fail "this variant learns no workload's cost, so there is nothing to observe: use the variant {DEMAND.name}" }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
_NOTES = """\
CARICO waits for its certificates unless they have been made before:

  carico deploy --only-certificates --namespace {{ .Release.Namespace }} --variant {{ .Values.variant }}

`carico status --namespace {{ .Release.Namespace }}` shows whether everything runs, and `carico renew` renews
certificates. Give pods `schedulerName: carico`.
"""
