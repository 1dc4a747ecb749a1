"""Which workload a pod belongs to: pods of a workload are expected to demand the same. Pure.

Nobody has to write it: it follows from what the API knows of the pod. Pods that a controller stamps out of a template
are alike, so the template tells the workload: a CronJob's next Job, a Job created anew under another name and a second
replica of a Deployment are the same workload, and a Deployment's next version is another. Other pods, such as the tasks
of a workflow engine, differ in the numbers that they are given (a shard, a port, a time), which are therefore ignored.

An agent sees no more of a pod than its name. Until a scheduler tells it the workload, it takes the name for it, without
the parts that controllers add.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

STAMPED = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"})
"""Kinds of controllers whose pods are copies of one template."""
_PLACEMENT = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "runtimeClassName")
"""Fields of a pod's spec that kube-scheduler's filters look at, beside its requests."""
_DIGITS = 8
_NUMBER = re.compile(r"[0-9]+")
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""The characters that Kubernetes makes names of."""
_GENERATED = re.compile(rf"-{_RANDOM}{{5}}$")
_TEMPLATE_HASH = re.compile(r"-[456789bcdf]{6,10}$")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What names of namespaces and containers look like."""
_ORDINAL = re.compile(r"(-[0-9]+)+$")


def workload_of(pod: Mapping[str, Any]) -> str:
    """Return the workload of a pod as the Kubernetes API describes it: NAMESPACE/CONTAINER-DIGEST.

    Whatever is missing or of another type than Kubernetes writes is taken as absent.

    Examples
    --------
    >>> job = {"ownerReferences": [{"kind": "Job", "name": "pi-7", "controller": True}], "namespace": "default"}
    >>> spec = {"containers": [{"name": "pi", "image": "pi:1", "args": ["2000"]}]}
    >>> workload_of({"metadata": job | {"name": "pi-7-x2k4p"}, "spec": spec})
    'default/pi-d77133f5'
    """
    metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    stamped = any(_mapping(owner).get("kind") in STAMPED for owner in _sequence(metadata.get("ownerReferences")))
    containers = [_template(_mapping(container), stamped) for container in _sequence(spec.get("containers"))]
    text = json.dumps([stamped, containers], sort_keys=True, default=str)
    if not stamped:
        text = _NUMBER.sub("#", text)
    digest = _digest(text)
    namespace = _name(metadata.get("namespace"), "default")
    return f"{namespace}/{_name(containers[0]['name'] if containers else None, 'pod')}-{digest}"


def placement_of(pod: Mapping[str, Any]) -> str:
    """Return what decides where a pod may go, as a short text: pods with the same text have the same candidates.

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
    return _digest(json.dumps(found, sort_keys=True, default=str)) if found else ""


def workload_named(pod: str) -> str:
    """Return what to take for a pod's workload if only its name is known.

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
    return f"{namespace}/{_ORDINAL.sub('', stem) or name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _template(container: Mapping[str, Any], stamped: bool) -> dict[str, Any]:
    """What of a container decides what it demands."""
    variables = [_mapping(each) for each in _sequence(container.get("env"))]
    return {
        "name": container.get("name"),
        "image": container.get("image"),
        "command": container.get("command"),
        "args": container.get("args"),
        "env": {str(each.get("name")): each.get("value") if stamped else None for each in variables},
        "limits": _mapping(container.get("resources")).get("limits"),
    }


def _name(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and _LABEL.fullmatch(value) else otherwise


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
