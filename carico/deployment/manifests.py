"""The manifests as objects: the output of `kubectl kustomize` for the package's folder, with a user's choices applied.

Only those features of kustomize are implemented that the folder uses: resources, ConfigMaps of files, and images. Names
get no suffix, because a cluster has one deployment. Instead, pods are annotated with the digest of their ConfigMap, so
that a changed ConfigMap rolls them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from carico import __version__
from carico.demand.settings import DEMAND, DemandVariant
from carico.deployment.images import check_image
from carico.errors import InvalidInput
from carico.model.variants import DEFAULT_VARIANT
from carico.podevents.source import PLATFORM_NAMESPACES
from carico.rpc.identity import node_name
from carico.variants import variant_named

NAMESPACE = "carico"
IMAGE = f"carico:{__version__}"
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"
KUBE_SCHEDULER_IMAGE = f"{KUBE_SCHEDULER}:v1.34.4"
LABELS = {
    "app.kubernetes.io/name": "carico",
    "app.kubernetes.io/part-of": "carico",
    "app.kubernetes.io/managed-by": "carico",
}
"""The labels of all deployed objects, and of no others."""
SELECTOR = ",".join(f"{name}={value}" for name, value in LABELS.items())
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label that Helm replaces by its own name at what it installs; labels of pods stay."""
INSTALLED = ",".join(f"{name}={value}" for name, value in LABELS.items() if name != MANAGED_BY)
"""Selects DaemonSets and StatefulSets, whoever has installed them."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""Label and taint of the control plane's nodes."""
API_PORT = 443
"""The port of the Service of the API server."""
COMPONENT = "app.kubernetes.io/component"
SCHEDULING = "scheduling"
"""The component of the rights that only scheduling needs."""
LEASE = "carico-kube-scheduler"
"""The lock of the scheduler's replicas; kube-scheduler creates it."""
KEPT_COSTS = "carico-costs"
"""The ConfigMap in which the leading extender keeps what workloads cost."""
STATUS_KEY = "carico-status-key"
"""The Secret with the key of the extenders' pages about nodes and workloads; the key in it is named `key`."""
EARLIER_TOKENS = ("carico-extender-token", "carico-signer-token")
"""Secrets with tokens that do not expire, which schedulers of earlier versions mount."""
OBSERVES = "carico.dev/observes"
"""Annotation of a scheduler that schedules nothing, because it has no kube-scheduler."""
CONFIGURATION = "carico.dev/configuration"
"""Annotation of a pod that rolls it: a digest of its ConfigMap."""
Telemetry = Literal["procfs", "cgroup"]
"""See `AgentConfig`."""
_FOLDER = files("carico") / "manifests"


@dataclass(frozen=True)
class Choices:
    """What a user may choose without a kustomize overlay.

    Parameters
    ----------
    namespace : str
    image, kube_scheduler_image : str
        Names with tags, or with digests.
    telemetry : {"procfs", "cgroup"}
        See `AgentConfig`.
    variant : str
        The parameters of agents and schedulers, see `AgentConfig`. With `demand` there are no aggregation servers.
    excluded_namespaces : tuple of str
        Namespaces whose pods are not counted, besides `PLATFORM_NAMESPACES` and the deployment's own.
    on_control_plane : bool
        Whether servers and schedulers run only on nodes of the control plane.
    until_counted : bool
        Whether reservations last until a report counts the pod, see `ExtenderConfig`.
    observe : bool
        Whether nothing is scheduled: no kube-scheduler runs, no account may schedule, and CARICO only learns and shows
        what pods cost.
    replicas : int
        Pods of the schedulers, and of the aggregation servers.
    patience : float
        How many times as long as usual kubelets wait for an answer to a probe, and until they restart a container:
        where machines are emulated, programs that are only slow would be restarted again and again.

    Raises
    ------
    InvalidInput
        If a name is invalid, or a number too small.
    """

    namespace: str = NAMESPACE
    image: str = IMAGE
    kube_scheduler_image: str = KUBE_SCHEDULER_IMAGE
    telemetry: Telemetry = "procfs"
    variant: str = DEFAULT_VARIANT.name
    excluded_namespaces: tuple[str, ...] = ()
    on_control_plane: bool = False
    until_counted: bool = True
    observe: bool = False
    replicas: int = 2
    patience: float = 1.0

    @property
    def excluded(self) -> list[str]:
        """All namespaces whose pods are not counted; empty if these are the default ones."""
        others = [name for name in (self.namespace, *self.excluded_namespaces) if name not in PLATFORM_NAMESPACES]
        return [*PLATFORM_NAMESPACES, *others] if others else []

    @property
    def learns_demand(self) -> bool:
        """Whether the variant learns what the pods of each workload demand."""
        return isinstance(variant_named(self.variant), DemandVariant)

    def __post_init__(self) -> None:
        if "." in node_name(self.namespace) or len(self.namespace) > 63:
            raise InvalidInput(f"a namespace has at most 63 characters and no dot, got {self.namespace!r}")
        for image in (self.image, self.kube_scheduler_image):
            check_image(image)
        if self.replicas < 1:
            raise InvalidInput(f"replicas must be at least 1, got {self.replicas}")
        if not (math.isfinite(self.patience) and self.patience >= 1):
            raise InvalidInput(f"patience must be at least 1, got {self.patience}")
        if not self.learns_demand and self.observe:
            raise InvalidInput(
                f"the variant {self.variant} learns no workload's cost, so there is nothing to observe: "
                f"use the variant {DEMAND.name}"
            )


def manifests(choices: Choices) -> list[dict[str, Any]]:
    """Return all objects except the certificates, in the order in which they are applied."""
    kustomization = _documents("kustomization.yaml")[0]
    objects = [document for name in kustomization["resources"] for document in _documents(name)]
    maps = [_config_map(generator, choices) for generator in kustomization["configMapGenerator"]]
    if choices.learns_demand:
        objects, maps = ([each for each in some if not is_aggregators(each)] for some in (objects, maps))
    if choices.observe:
        objects = [each for each in objects if not is_for_scheduling(each)]
    images = {"carico": choices.image, KUBE_SCHEDULER: choices.kube_scheduler_image}
    digests = {each["metadata"]["name"]: _digest(each) for each in maps}
    for thing in objects:
        _set_namespace(thing, choices.namespace)
        template = thing.get("spec", {}).get("template")
        if template is not None:
            if choices.observe and thing["kind"] == "StatefulSet":
                thing["metadata"]["annotations"] = {OBSERVES: "true"}
                template["spec"]["containers"] = [
                    each for each in template["spec"]["containers"] if each["image"] != KUBE_SCHEDULER
                ]
            for container in containers(template):
                container["image"] = images[container["image"]]
                _wait_longer(container, choices.patience)
            if thing["kind"] == "StatefulSet":
                thing["spec"]["replicas"] = choices.replicas
            template["metadata"]["annotations"][CONFIGURATION] = digests[thing["metadata"]["name"]]
            if choices.on_control_plane and thing["kind"] == "StatefulSet":
                template["spec"] |= control_plane_only()
    # The ConfigMaps come before the pods that mount them.
    first = next(index for index, thing in enumerate(objects) if "template" in thing.get("spec", {}))
    return objects[:first] + maps + objects[first:]


def control_plane_only() -> dict[str, Any]:
    """Return what lets pods run on nodes of the control plane only, for their spec."""
    return {
        "nodeSelector": {CONTROL_PLANE: ""},
        "tolerations": [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}],
    }


def let_reach_api_server(objects: Iterable[dict[str, Any]], ports: Iterable[int]) -> None:
    """Add ports of the API server to those that pods which need it may connect to."""
    for thing in objects:
        if thing["kind"] == "NetworkPolicy":
            for rule in thing["spec"].get("egress", ()):
                open_ports = [each["port"] for each in rule["ports"]]
                if API_PORT in open_ports:
                    rule["ports"] += [{"port": port} for port in sorted(set(ports).difference(open_ports))]


def is_aggregators(thing: Mapping[str, Any]) -> bool:
    """Return whether an object belongs to the aggregation servers, which the variant `demand` does not need."""
    return component(thing) == "aggregator"


def is_for_scheduling(thing: Mapping[str, Any]) -> bool:
    """Return whether an object gives, or limits, a right that nobody needs who only observes."""
    return component(thing) == SCHEDULING


def component(thing: Mapping[str, Any]) -> str | None:
    """Return which of CARICO's components an object belongs to; None if it belongs to all."""
    return (thing["metadata"].get("labels") or {}).get(COMPONENT)


def lease(namespace: str) -> dict[str, Any]:
    """Return the lock of the scheduler's replicas, with no content but its name."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": namespace},
    }


def as_yaml(objects: list[dict[str, Any]]) -> str:
    """Return objects as YAML for `kubectl apply -f -`."""
    return str(yaml.safe_dump_all(objects, sort_keys=False))


def containers(template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all containers of a pod template, init containers first."""
    yield from template["spec"].get("initContainers", [])
    yield from template["spec"]["containers"]


def labelled(kind: str, name: str, namespace: str, component: str, **content: Any) -> dict[str, Any]:
    """Return an object of the core API with `LABELS` and its component's label."""
    labels = LABELS | {COMPONENT: component}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    } | content


def _documents(name: str) -> list[Any]:
    # Copies, because callers change them: of the cached objects, and of nodes that YAML anchors share.
    return [copy.deepcopy(each) for each in _parsed(name)]


@cache
def _parsed(name: str) -> list[Any]:
    return list(yaml.safe_load_all((_FOLDER / name).read_text(encoding="utf-8")))


def _config_map(generator: dict[str, Any], choices: Choices) -> dict[str, Any]:
    data = {}
    for name in generator["files"]:
        text = (_FOLDER / name).read_text(encoding="utf-8")
        data[name.rpartition("/")[2]] = _with_choices(text, choices, name) if name in _CHOSEN else text
    component = generator["name"].removeprefix("carico-")
    return labelled("ConfigMap", generator["name"], choices.namespace, component, data=data)


_AGENT = "configuration/agent.yaml"
_AGGREGATOR = "configuration/aggregator.yaml"
_EXTENDER = "configuration/extender.yaml"
_CHOSEN = (_AGENT, _AGGREGATOR, _EXTENDER)
"""The configurations that a user's choices change."""


def _with_choices(text: str, choices: Choices, name: str) -> str:
    """Return a configuration with the user's choices; without choices the text is unchanged."""
    configuration = yaml.safe_load(text)
    changed = copy.deepcopy(configuration)
    if choices.variant != DEFAULT_VARIANT.name and name != _AGGREGATOR:
        changed["variant"] = choices.variant
    if name == _AGENT:
        _choose_for_agent(changed, choices)
    elif name == _AGGREGATOR:
        changed["peers"] = _of_replicas(changed["peers"], choices)
    else:
        if choices.excluded:
            changed["excluded_namespaces"] = choices.excluded
        if not choices.until_counted:
            changed["until_counted"] = False
    return text if changed == configuration else yaml.safe_dump(changed, sort_keys=False)


def _choose_for_agent(configuration: dict[str, Any], choices: Choices) -> None:
    configuration["telemetry"] = choices.telemetry
    configuration["schedulers"] = _of_replicas(configuration["schedulers"], choices)
    if choices.learns_demand:
        del configuration["aggregator"]
    if choices.excluded:
        configuration["pod_events"]["excluded_namespaces"] = choices.excluded


def _of_replicas(addresses: list[str], choices: Choices) -> list[str]:
    """Return the addresses of all replicas from those of the manifests, which name the first one first."""
    return [addresses[0].replace("-0.", f"-{index}.") for index in range(choices.replicas)]


def _wait_longer(container: dict[str, Any], patience: float) -> None:
    """Let a container's probes wait longer for answers, and fail more often before it is restarted."""
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        for limit in ("timeoutSeconds", "failureThreshold"):
            if limit in container.get(name, {}):
                container[name][limit] = math.ceil(patience * container[name][limit])


def _set_namespace(thing: dict[str, Any], namespace: str) -> None:
    """Replace the manifests' own namespace; other namespaces stay."""
    if thing["kind"] == "Namespace":
        thing["metadata"]["name"] = namespace
    for place in (thing["metadata"], *thing.get("subjects", ())):
        if place.get("namespace") == NAMESPACE:
            place["namespace"] = namespace


def _digest(thing: dict[str, Any]) -> str:
    # As Helm's toRawJson writes it, so that the chart's digests are the same.
    text = json.dumps(thing["data"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
