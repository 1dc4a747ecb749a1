"""Which workload a pod belongs to: pods of a workload are expected to demand the same. Pure.

Nobody has to declare workloads: they follow from what the API knows about a pod. Pods that a controller makes from a
template are alike, so the template determines the workload: a CronJob's next Job, a Job created again under another
name and a second replica of a Deployment belong to the same workload, and a Deployment's next version is another
workload. Other pods, such as the tasks of a workflow engine, differ in the numbers that they are given (a shard, a
port, a time), which are therefore ignored.

An agent only sees a pod's name. Until a scheduler tells it the pod's workload, the agent uses the name as the workload,
without the parts that controllers add.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from carico.errors import InvalidInput, InvalidState

LATENCY_CRITICAL = "carico.dev/latency-critical"
"""A label of pods that answer requests; its value is "true"."""
TEMPLATED = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"})
"""Kubernetes' own controllers, whose pods are copies of one template."""
_GROUPS = frozenset({"", "apps", "batch"})
"""Their API groups: kinds of other groups have the same names, and number the arguments and variables of their pods."""
LONGEST_NAME = 317
"""An earlier agent takes a pod's namespace and name for its workload: 63 characters, a slash, and 253."""
_LONGEST_STEM = 64
"""So that a report fits into a message if each of 250 pods has its own workload, and no scheduler has told which."""
_PLACEMENT = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "runtimeClassName")
"""Fields of a pod's spec that kube-scheduler's filters look at, besides its containers' requests and ports."""
_DIGITS = 8
_NUMBER = re.compile(r"[0-9]+")
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""The characters of the random suffixes that Kubernetes generates."""
_GENERATED = re.compile(rf"-{_RANDOM}{{5}}$")
_TEMPLATE_HASH = re.compile(r"-[456789bcdf]{6,10}$")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""The names of namespaces and containers (DNS-1123 labels)."""
_ORDINAL = re.compile(r"(-[0-9]+)+$")


def workload_of(pod: Mapping[str, Any]) -> str:
    """Return the workload of a pod as the Kubernetes API describes it: NAMESPACE/CONTAINER-DIGEST.

    A field that has another type than Kubernetes writes counts as missing.

    Examples
    --------
    >>> job = {"ownerReferences": [{"kind": "Job", "name": "pi-7", "controller": True}], "namespace": "default"}
    >>> spec = {"containers": [{"name": "pi", "image": "pi:1", "args": ["2000"]}]}
    >>> workload_of({"metadata": job | {"name": "pi-7-x2k4p"}, "spec": spec})
    'default/pi-d77133f5'
    """
    metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    templated = any(_is_templated(_mapping(owner)) for owner in _sequence(metadata.get("ownerReferences")))
    containers = [_mapping(container) for container in _containers(spec)]
    templates = [_template(container, templated) for container in containers]
    digest = _digest(json.dumps([templated, templates], sort_keys=True, default=str))
    namespace = _name(metadata.get("namespace"), "default")
    name = _name(containers[0].get("name") if containers else None, "pod")
    return f"{namespace}/{name if templated else _NUMBER.sub('#', name)}-{digest}"


def placement_of(pod: Mapping[str, Any]) -> str:
    """Return a short text that stands for where a pod may go: pods with the same text have the same candidates.

    Examples
    --------
    >>> placement_of({"spec": {}}), placement_of({"spec": {"nodeSelector": {"zone": "a"}}})
    ('', '68901923')
    """
    spec = _mapping(pod.get("spec"))
    found = {name: spec[name] for name in _PLACEMENT if spec.get(name)}
    volumes = [_mapping(_mapping(volume).get("persistentVolumeClaim")) for volume in _sequence(spec.get("volumes"))]
    if claims := sorted(str(claim.get("claimName")) for claim in volumes if claim):
        found["claims"] = claims
    containers = [*_sequence(spec.get("containers")), *_sequence(spec.get("initContainers"))]
    if wants := [wanted for each in containers if (wanted := _wanted(_mapping(each)))]:
        found["wants"] = wants
    return _digest(json.dumps(found, sort_keys=True, default=str)) if found else ""


def is_latency_critical(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod's label asks for a node that is not crowded.

    Examples
    --------
    >>> is_latency_critical({"metadata": {"labels": {"carico.dev/latency-critical": "true"}}})
    True
    """
    labels = _mapping(_mapping(pod.get("metadata")).get("labels"))
    return labels.get(LATENCY_CRITICAL) == "true"


def workload_named(pod: str) -> str:
    """Return what to use as a pod's workload if only the pod's name is known.

    Parameters
    ----------
    pod : str
        NAMESPACE/NAME.

    Examples
    --------
    >>> [workload_named(pod) for pod in ("shop/web-7c9d8b6f54-x2k4p", "shop/db-0", "ml/report-29012345-b7xq2")]
    ['shop/web', 'shop/db', 'ml/report']
    """
    namespace, _, name = pod.partition("/")
    stem, generated = _GENERATED.subn("", name)
    if generated:
        stem = _TEMPLATE_HASH.sub("", stem)
    return f"{namespace}/{(_ORDINAL.sub('', stem) or name)[:_LONGEST_STEM]}"


def check_workload(name: str) -> None:
    """Refuse what cannot be the name of a workload.

    Raises
    ------
    InvalidInput
        If it is empty or longer than any, or contains a space or a character that is not printable.
    """
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable() and " " not in name):
        raise InvalidInput(
            f"the name of a workload is 1 to {LONGEST_NAME} printable characters without spaces, got {name[:400]!r}"
        )


def check_saved_workloads(names: Iterable[str]) -> None:
    """Refuse a saved state if any of the names in it cannot be that of a workload.

    Raises
    ------
    InvalidState
        See `check_workload`.
    """
    try:
        for name in names:
            check_workload(name)
    except InvalidInput as error:
        raise InvalidState(f"the saved state is damaged, delete it: {error}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _is_templated(owner: Mapping[str, Any]) -> bool:
    kind, version = owner.get("kind"), owner.get("apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    return isinstance(kind, str) and kind in TEMPLATED and group in _GROUPS


def _containers(spec: Mapping[str, Any]) -> list[Any]:
    """The containers that run as long as the pod: sidecars are init containers that are restarted."""
    init = _sequence(spec.get("initContainers"))
    return _sequence(spec.get("containers")) + [
        each for each in init if _mapping(each).get("restartPolicy") == "Always"
    ]


def _wanted(container: Mapping[str, Any]) -> dict[str, Any]:
    """What a node must have for a container: what it requests, and free ports."""
    ports = [_mapping(port).get("hostPort") for port in _sequence(container.get("ports"))]
    wanted = {"requests": _mapping(container.get("resources")).get("requests"), "ports": list(filter(None, ports))}
    return {name: value for name, value in wanted.items() if value}


def _template(container: Mapping[str, Any], templated: bool) -> dict[str, Any]:
    """The part of a container's specification that determines its demand."""
    variables = [_mapping(each) for each in _sequence(container.get("env"))]
    given: dict[str, Any] = {name: container.get(name) for name in ("name", "command", "args")}
    given["env"] = {str(each.get("name")): each.get("value") if templated else None for each in variables}
    if not templated:
        given = {"given": _NUMBER.sub("#", json.dumps(given, sort_keys=True, default=str))}
    return given | {
        "image": container.get("image"),
        "limits": _mapping(container.get("resources")).get("limits"),
    }


def _name(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and _LABEL.fullmatch(value) else otherwise


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
