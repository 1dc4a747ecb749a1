"""The status of a deployment: its components from their pods, its nodes from the leading extender, and outliers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from carico.deployment.authority import SIGNER
from carico.deployment.cert_manager import CertManager, not_ready
from carico.deployment.certificates import CA_CONFIG_MAP, EXPIRE, KEYS_OF_NODES
from carico.deployment.images import digests
from carico.deployment.manifests import COMPONENT, EARLIER_TOKENS, INSTALLED, OBSERVES, SELECTOR, STATUS_KEY, lease
from carico.deployment.rollout import progress_of, rolled_out
from carico.deployment.secrets import content_of
from carico.errors import KubeError, KubeRefused, KubeUnreachable, NotReady
from carico.http.expiry import WARN_S
from carico.http.key import HEADER
from carico.kube.objects import KubeObject, KubeObjects, title
from carico.outliers import amount
from carico.printable import printable, shortened

_T = TypeVar("_T")
Count = Annotated[int, Meta(ge=0)]
STATUS_PORT = 9443
"""The status port in the extender's manifests."""
OBSERVER = "carico-scheduler-0"
"""The pod that is asked if there is no leading kube-scheduler, because nothing is scheduled."""
_INDENT = "  "
_GAP = 2
"""Spaces between the columns where there is little room."""
_AND = ","
"""Between the images of one pod."""
_SIGNED_WITHIN_S = 60.0
"""How long a node's request for a certificate may wait before that is a problem."""
_REFUSED_FOR_S = 900.0
"""How long a refused request counts as a problem; Kubernetes keeps it for an hour."""


class Component(msgspec.Struct, frozen=True):
    """A DaemonSet or a StatefulSet and its pods."""

    name: str
    desired: int
    ready: int
    up_to_date: int
    restarts: int
    age_s: float
    image: str
    rolled_out: bool


class Node(msgspec.Struct, frozen=True):
    """A node as the leading extender sees it; None is unknown."""

    name: str
    agent_ready: bool
    pod_capacity: float | None = None
    reserved: int | None = None
    report_age_s: float | None = None
    stale: bool = True
    cores: float | None = None
    load_cores: float | None = None
    """The load, with the pods in flight and a margin for doubt; this and the next fields are for `demand` only."""
    level_cores: float | None = None
    """The load up to which the node is filled."""
    gib: float | None = None
    load_gib: float | None = None


class Workloads(msgspec.Struct, frozen=True):
    """How many workloads the leading extender knows; see `carico.demand.scheduler.Workloads`."""

    running: Count
    waiting: Count
    unknown: Count
    remembered: Count


class Outlier(msgspec.Struct, frozen=True):
    """A node that has long been far from the others; see `carico.outliers`."""

    node: str
    about: str
    """What the node speaks about."""
    says: float
    others: float
    """The median of all nodes."""
    for_s: float


class UncountedPod(msgspec.Struct, frozen=True):
    """A pod that holds its place because its node reports but does not count it; see `carico.extender.overdue`."""

    pod: str
    """NAMESPACE/NAME."""
    node: str
    for_s: float


class DeploymentStatus(msgspec.Struct, frozen=True):
    """What `carico status` shows."""

    namespace: str
    leader: str
    """The pod whose kube-scheduler is the leader; empty if there is no leader."""
    components: list[Component]
    nodes: list[Node]
    problems: list[str]
    """Empty if there is no problem."""
    observing: bool = False
    """Whether CARICO schedules nothing and only shows what pods cost."""
    workloads: Workloads | None = None
    """For `demand` only."""
    outliers: list[Outlier] = []
    """As the leading extender and the aggregation servers know them, 100 of each at most."""
    uncounted: list[UncountedPod] = []
    """As the leading extender knows them, 100 at most."""


class _KnownNode(msgspec.Struct):
    """A node in the extender's answer under /nodes."""

    node: str
    pod_capacity: float | None
    reserved: int
    age_s: float
    stale: bool
    cores: float | None = None
    load_cores: float | None = None
    level_cores: float | None = None
    gib: float | None = None
    load_gib: float | None = None


class _KnownNodes(msgspec.Struct):
    nodes: list[_KnownNode]
    workloads: Workloads | None = None
    """Absent if the extender is of an older version, as are the next two."""
    outliers: list[Outlier] = []
    uncounted: list[UncountedPod] = []


class _KnownOutliers(msgspec.Struct):
    outliers: list[Outlier]


def read_status(kube: KubeObjects, namespace: str, now: datetime) -> DeploymentStatus:
    """Read the present status.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
    now : datetime
        With a time zone.

    Raises
    ------
    KubeError
        If the API server does not answer, or refuses.
    """
    pods = kube.list("v1", "Pod", namespace, SELECTOR)
    workloads = [
        thing for kind in ("StatefulSet", "DaemonSet") for thing in kube.list("apps/v1", kind, namespace, INSTALLED)
    ]
    components = [_component(thing, pods, now) for thing in workloads]
    problems = [f"{each.name}: {each.ready} of {each.desired} pods ready" for each in components if not each.rolled_out]
    if not workloads:
        problems.append(f"CARICO is not deployed in the namespace {namespace}: run `carico deploy`")
    problems += _expiring(kube, namespace, now)
    problems += _unsigned(kube, namespace, now)
    problems += _earlier_secrets(kube, namespace)
    problems += _not_issued(kube, namespace)
    problems += [
        f"pods run different images as {image}, because its tag has moved: deploy one of {', '.join(sorted(pulled))}"
        for image, pulled in digests(pods).items()
        if len(pulled) > 1
    ]
    observing = is_observing(workloads)
    leader = _leader(kube, namespace, now)
    answers = leader or (OBSERVER if observing else "")
    told = _KnownNodes([])
    if answers:
        try:
            told = msgspec.convert(ask_status(kube, namespace, answers, "nodes"), _KnownNodes)
        except (KubeError, msgspec.ValidationError) as error:
            problems.append(f"the extender of {answers} does not say what it knows about nodes: {error}")
    elif workloads:
        problems.append("no kube-scheduler leads: pods with schedulerName: carico wait")
    outliers = dict.fromkeys(told.outliers)
    for pod in pods:
        if _component_of(pod) == "aggregator" and _is_ready(pod):
            outliers |= dict.fromkeys(_outliers_at(kube, namespace, pod["metadata"]["name"], problems))
    known = {each.node: each for each in told.nodes}
    agents = {pod["spec"].get("nodeName"): _is_ready(pod) for pod in pods if _component_of(pod) == "agent"}
    nodes = [
        _node(node["metadata"]["name"], agents, known.get(node["metadata"]["name"])) for node in kube.list("v1", "Node")
    ]
    if known:
        silent = [node.name for node in nodes if node.stale]
        if silent:
            problems.append(f"{len(silent)} of {len(nodes)} nodes do not report: {', '.join(silent[:3])}")
    if told.uncounted:
        problems.append(_uncounted(told.uncounted, namespace))
    return DeploymentStatus(
        namespace,
        leader,
        components=components,
        nodes=nodes,
        problems=problems,
        observing=observing,
        workloads=told.workloads,
        outliers=list(outliers),
        uncounted=told.uncounted,
    )


def is_observing(workloads: Sequence[KubeObject]) -> bool:
    """Return whether CARICO schedules nothing, as after `carico deploy --observe`."""
    return any(OBSERVES in (thing["metadata"].get("annotations") or {}) for thing in workloads)


def answering_extender(kube: KubeObjects, namespace: str, now: datetime) -> str:
    """Return the pod whose extender knows most: the leader's pod, or any pod if nothing is scheduled.

    Raises
    ------
    NotReady
        If CARICO is not deployed there, or no kube-scheduler leads.
    KubeError
        If the API server does not answer, or refuses.
    """
    workloads = kube.list("apps/v1", "StatefulSet", namespace, INSTALLED)
    if not workloads:
        raise NotReady(f"CARICO is not deployed in the namespace {namespace}: run `carico deploy`")
    leader = OBSERVER if is_observing(workloads) else _leader(kube, namespace, now)
    if not leader:
        raise NotReady("no kube-scheduler of CARICO leads: `carico status` shows its pods; try again in a moment")
    return leader


def ask_status(kube: KubeObjects, namespace: str, pod: str, page: str) -> dict[str, Any]:
    """Return a page about nodes or workloads, for which a process wants the key that `carico deploy` has made.

    Raises
    ------
    KubeError
        If the API server or the process does not answer, or refuses.
    """
    secret = kube.read({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": STATUS_KEY, "namespace": namespace}})
    try:
        key = (
            (b"" if secret is None else content_of(secret).get("key", b"")).decode("ascii").strip()
        )  # as its reader does
    except (KubeUnreachable, UnicodeDecodeError) as error:
        raise KubeUnreachable(f"secret/{STATUS_KEY} holds no key: {error}") from error
    if not key.isprintable():
        raise KubeUnreachable(f"secret/{STATUS_KEY} holds no key: a header can have printable characters only")
    return kube.ask_pod(namespace, pod, STATUS_PORT, page, {HEADER: key} if key else {})


def as_json(status: DeploymentStatus) -> str:
    """Return the status as one JSON object."""
    return msgspec.json.encode(status).decode()


def show(status: DeploymentStatus, width: int | None = None) -> str:
    """Return the status as tables in kubectl's style.

    Parameters
    ----------
    status : DeploymentStatus
    width : int, optional
        How many columns there are; by default as many as the tables need. If a table has more, names have lines of
        their own.
    """
    components = [
        [each.name, each.desired, each.up_to_date, each.ready, each.restarts, age(each.age_s), each.image]
        for each in status.components
    ]
    demanding = any(node.cores is not None for node in status.nodes)
    columns = ["LOAD", "LEVEL", "CPUS", "MEMORY", "OF"] if demanding else ["POD-CAPACITY"]
    nodes = [
        [
            node.name,
            "ready" if node.agent_ready else "not ready",
            *(_loads(node) if demanding else [_shown(node.pod_capacity, 2)]),
            _shown(node.reserved, 0),
            _shown(node.report_age_s, 1, "s"),
        ]
        for node in status.nodes
    ]
    parts = []
    if components:
        header = ["COMPONENT", "DESIRED", "UP-TO-DATE", "READY", "RESTARTS", "AGE", "IMAGE"]
        parts.append(_fitted([header, *components], width, apart=header.index("IMAGE")))
        parts.append(_fitted([["NODE", "AGENT", *columns, "RESERVED", "REPORT-AGE"], *nodes], width))
        leader = f"leader: {printable(status.leader) or 'none'}"
        parts.append("observing: nothing is scheduled" if status.observing else leader)
        if status.workloads is not None:
            parts[-1] += "\n" + _wrapped(f"workloads: {_counted(status.workloads)}", width)
        if status.outliers:
            outliers = [["OUTLIER", "ABOUT", "SAYS", "OTHERS", "FOR"], *map(_told, status.outliers)]
            parts.append(_fitted(outliers, width, apart=1))
    return "\n\n".join([*parts, *(_wrapped(problem, width) for problem in status.problems)])


def age(seconds: float) -> str:
    """Return a duration in kubectl's style, in its largest unit.

    Examples
    --------
    >>> age(42.0), age(600.0), age(7200.0), age(200000.0)
    ('42s', '10m', '2h', '2d')
    """
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def _counted(workloads: Workloads) -> str:
    return (
        f"{workloads.running} running, {workloads.waiting} waiting, {workloads.unknown} of these of unknown cost; "
        f"{workloads.remembered} more remembered"
    )


def _told(outlier: Outlier) -> list[str]:
    return [outlier.node, outlier.about, amount(outlier.says), amount(outlier.others), age(outlier.for_s)]


def _loads(node: Node) -> list[str]:
    cores = (_shown(value, 2) for value in (node.load_cores, node.level_cores, node.cores))
    return [*cores, _shown(node.load_gib, 2, "Gi"), _shown(node.gib, 2, "Gi")]


def _shown(value: float | None, digits: int, unit: str = "") -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def table(rows: Sequence[Sequence[Any]], gap: int = 3) -> str:
    """Return rows as a table in kubectl's style, with `gap` spaces between columns; the first one is the header."""
    texts = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        (gap * " ").join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts
    )


def _fitted(rows: Sequence[Sequence[Any]], width: int | None, apart: int | None = None) -> str:
    """Return rows as a table; if it is too wide, with the column `apart` on lines below.

    If that does not suffice, names in the first column have lines above.
    """
    wide = table(rows)
    if width is None or _widest(wide.splitlines()) <= width:
        return wide
    kept = [[cell for place, cell in enumerate(row) if place != apart] for row in rows]
    beside = table(kept, _GAP).splitlines()
    if _widest(beside) > width:
        figures = table([row[1:] for row in kept], _GAP).splitlines()
        beside = [f"{shortened(row[0], width)}\n{_INDENT}{line}" for row, line in zip(kept, figures, strict=True)]
    lines = []
    for row, line in zip(rows, beside, strict=True):
        below = [] if apart is None else row[apart].split(_AND)
        lines += [line, *(_INDENT + shortened(each, width - len(_INDENT)) for each in below)]
    return "\n".join(lines)


def _wrapped(sentence: str, width: int | None) -> str:
    """Return a sentence without a line break within a word, as in a name or a path."""
    said = printable(sentence)
    if width is None:
        return said
    return textwrap.fill(said, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)


def _widest(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def _component(thing: KubeObject, pods: Sequence[KubeObject], now: datetime) -> Component:
    desired, updated, ready = progress_of(thing)
    own = [pod for pod in pods if _component_of(pod) == _component_of(thing)]
    restarts = sum(
        int(container.get("restartCount") or 0)
        for pod in own
        for container in (pod.get("status") or {}).get("containerStatuses") or ()
    )
    images = dict.fromkeys(container["image"] for container in thing["spec"]["template"]["spec"]["containers"])
    return Component(
        title(thing),
        desired=desired,
        ready=ready,
        up_to_date=updated,
        restarts=restarts,
        age_s=_seconds_since(thing["metadata"].get("creationTimestamp"), now),
        image=_AND.join(images),
        rolled_out=rolled_out(thing) and desired > 0,
    )


def _node(name: str, agents: dict[str, bool], known: _KnownNode | None) -> Node:
    ready = agents.get(name, False)
    if known is None:
        return Node(name, ready)
    return Node(
        name,
        ready,
        pod_capacity=known.pod_capacity,
        reserved=known.reserved,
        report_age_s=known.age_s,
        stale=known.stale,
        cores=known.cores,
        load_cores=known.load_cores,
        level_cores=known.level_cores,
        gib=known.gib,
        load_gib=known.load_gib,
    )


def _outliers_at(kube: KubeObjects, namespace: str, pod: str, problems: list[str]) -> list[Outlier]:
    """Return the outliers that an aggregation server knows."""
    try:
        return msgspec.convert(ask_status(kube, namespace, pod, "outliers"), _KnownOutliers).outliers
    except (KubeError, msgspec.ValidationError) as error:
        if not (isinstance(error, KubeRefused) and error.status == 404):  # an older version
            problems.append(f"the aggregation server {pod} does not say which nodes are outliers: {error}")
        return []


def _uncounted(pods: Sequence[UncountedPod], namespace: str) -> str:
    """Say which pods hold their places though they run, and where the reason is found."""
    some = ", ".join(f"{each.pod} on {each.node} for {age(each.for_s)}" for each in pods[:3])
    nodes = ", ".join(dict.fromkeys(each.node for each in pods[:3]))
    return (
        f"running pods that their nodes do not count: {len(pods)}; their places are held ({some}): see the log of the "
        f"container pod-names in the agent's pod on {nodes} (`kubectl -n {namespace} get pods -o wide`), and whether "
        f"`excluded_namespaces` is the same for agents and schedulers"
    )


def _expiring(kube: KubeObjects, namespace: str, now: datetime) -> list[str]:
    """Say when certificates expire, if that is soon; `carico deploy` notes it beside the CA's certificate."""
    noted = kube.read(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CA_CONFIG_MAP, "namespace": namespace}}
    )
    expire = ((noted or {"metadata": {}})["metadata"].get("annotations") or {}).get(EXPIRE)
    if expire is None:
        return []
    left_s = -_seconds_since(expire, now)
    if left_s > WARN_S:
        return []
    when = f"expire in {age(left_s)}" if left_s > 0 else "have expired"
    return [f"certificates {when} (the first one at {expire}): run `carico renew`"]


def _unsigned(kube: KubeObjects, namespace: str, now: datetime) -> list[str]:
    """Say which nodes wait for a certificate in vain; nothing if the caller may not list requests."""
    found = _if_allowed(lambda: kube.list("certificates.k8s.io/v1", "CertificateSigningRequest")) or []
    waiting, refused = 0, []
    for request in found:
        if (request.get("spec") or {}).get("signerName") != SIGNER:
            continue
        status, age_s = request.get("status") or {}, _seconds_since(request["metadata"].get("creationTimestamp"), now)
        against = [each for each in status.get("conditions") or () if each.get("type") in ("Denied", "Failed")]
        if against and age_s <= _REFUSED_FOR_S:
            refused.append(str(against[0].get("message") or against[0].get("reason")))
        elif not (against or status.get("certificate")) and age_s > _SIGNED_WITHIN_S:
            waiting += 1
    problems = []
    if waiting:
        log = f"`kubectl -n {namespace} logs carico-scheduler-0 -c signer`"
        problems.append(f"{waiting} requests for nodes' certificates have no answer: see {log}")
    if refused:
        problems.append(
            f"{len(refused)} requests for nodes' certificates were refused of late, for example: {refused[0]}"
        )
    return problems


def _earlier_secrets(kube: KubeObjects, namespace: str) -> list[str]:
    """Say so if Secrets of an earlier version are still there; nothing if the caller may not read them."""
    problems = []
    contents = {KEYS_OF_NODES: ("the keys of all nodes", "agents")}
    contents |= dict.fromkeys(EARLIER_TOKENS, ("a token that does not expire", "schedulers"))
    for name, (content, users) in contents.items():
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
        if _if_allowed(lambda wanted=secret: kube.read(wanted)) is not None:  # type: ignore[misc]
            problems.append(
                f"{title(secret)} still holds {content}, for {users} of an earlier version: run `carico deploy` again "
                f"when all {users} are up to date"
            )
    return problems


def _not_issued(kube: KubeObjects, namespace: str) -> list[str]:
    """Say which Certificates cert-manager cannot issue or renew; nothing if the caller may not list them."""
    found = _if_allowed(CertManager(kube, namespace).certificates) or []
    return [f"{title(each)} is not ready: {why}" for each in found if (why := not_ready(each))]


def _if_allowed(ask: Callable[[], _T]) -> _T | None:
    """Return what is asked for; None if the caller lacks the right to it."""
    try:
        return ask()
    except KubeRefused as error:
        if error.status != 403:
            raise
        return None


def _leader(kube: KubeObjects, namespace: str, now: datetime) -> str:
    spec = (kube.read(lease(namespace)) or {}).get("spec") or {}
    if not spec.get("renewTime") or not spec.get("holderIdentity"):
        return ""
    if _seconds_since(spec["renewTime"], now) > float(spec.get("leaseDurationSeconds") or math.inf):
        return ""
    return str(spec["holderIdentity"]).partition("_")[0]


def _seconds_since(moment: object, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(str(moment))).total_seconds()
    except (TypeError, ValueError) as error:
        raise KubeUnreachable(f"the Kubernetes API sent {moment!r} for a time: {error}") from error


def _component_of(thing: KubeObject) -> str:
    return str((thing["metadata"].get("labels") or {}).get(COMPONENT, ""))


def _is_ready(pod: KubeObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
