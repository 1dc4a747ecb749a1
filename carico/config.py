"""Configuration files of CARICO's processes: YAML, declared as msgspec types; needs the extra `agent` or `scheduler`.

Every process has one struct here. An unknown key, a wrong type or a number out of range is an error that names the
file, the line and the field.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta

from carico.errors import InvalidConfig
from carico.misfits import misfit
from carico.model.capacity import MAX_PODS
from carico.model.variants import DEFAULT_VARIANT
from carico.podevents.source import PLATFORM_NAMESPACES
from carico.scheduling.scheduler import RESERVATION_TIMEOUT_S, STALE_AFTER_S

CONNECTION_AGE_S = 3600.0
"""How long a connection lasts: certificates are checked only when it is made, and clients never close it themselves."""
Port = Annotated[int, Meta(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_PORT = "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
ADDRESS = rf"^(\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]+):{_PORT}$"
Address = Annotated[str, Meta(pattern=ADDRESS)]
"""host:port; with an IPv6 address, [host]:port."""
ObjectName = Annotated[str, Meta(pattern=r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")]
"""The name of an object of the Kubernetes API."""


class TlsFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PEM files of a process: its certificate, its key, and the CA that must have signed the peer's certificate."""

    certificate: str
    key: str
    ca: str
    nodes_ca: str | None = None
    """A CA for nodes only: its certificates get to the ports that nodes call (reports, exchange), and to no other, so
    that none of them can pass for a server's. Those ports trust `ca`, too."""


class StatusConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where /healthz, /readyz and /metrics are served to everybody, and pages about nodes to who may read them."""

    host: str = "127.0.0.1"
    port: Port = 0
    tls: bool = False
    """HTTPS with the process's own certificate; clients need no certificate, because kubelets have none."""
    key: str | None = None
    """A file with the key that callers show for the extender's pages about nodes and workloads, in the header
    Carico-Key. Without it, these pages are only served on a loopback `host`."""


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Format and level of the log on standard error."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class AggregatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregation server (``carico aggregator``).

    Parameters
    ----------
    host, port
        Where the server listens for nodes and other replicas.
    replica_port : int, optional
        Where the server listens for other replicas, if not on `port`, too. A `tls` with `nodes_ca` needs it, because
        certificates of that CA get to `port`.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and a loopback `host`.
    insecure_loopback : bool
    resources : int
        The number of resources that every agent observes.
    rank : int, optional
        The number of components of the view; all by default.
    node_timeout_s : float
        A node that has not exchanged its subspace for this long is no longer counted. Agents exchange at least every
        5 s.
    max_nodes : int
        Nodes beyond this number are refused; it bounds the memory for subspaces that wait to be merged, one a node.
    merge_every_s : float
        Subspaces that arrive within this time are merged together.
    peers : tuple of str
        host:port of other replicas, with the `replica_port` if they have one; of every two replicas only one needs to
        name the other.
    reconcile_every_s : float
        How often the replicas exchange their views, on average.
    """

    host: str = "127.0.0.1"
    port: Port = 50051
    replica_port: Port | None = None
    tls: TlsFiles | None = None
    insecure_loopback: bool = False
    resources: Annotated[int, Meta(ge=1, le=64)] = 2
    rank: Annotated[int, Meta(ge=1, le=64)] | None = None
    node_timeout_s: Seconds = 30.0
    max_nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    merge_every_s: Seconds = 0.05
    peers: tuple[Address, ...] = ()
    reconcile_every_s: Seconds = 1.0
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()

    def __post_init__(self) -> None:
        """Refuse to serve replicas where nodes' certificates get to; msgspec reports a ValueError."""
        if self.tls is not None and self.tls.nodes_ca is not None and self.replica_port is None:
            raise ValueError("`tls: {nodes_ca: ...}` lets its certificates get to `port`: give a `replica_port`, too")


class HttpLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on the extender's clients."""

    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 8 << 20
    """One request's body; the names of 10,000 candidates take some 0.3 MB."""
    all_bodies_bytes: Annotated[int, Meta(ge=1024, le=1 << 40)] = 32 << 20
    """The bodies of all requests that are not answered yet; one that does not fit is answered with 503, unread."""
    connections: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Simultaneous connections; a further one replaces the connection of the certificate with the most connections that
    has been idle the longest. Over TLS, only connections with a valid certificate count."""
    handshake_timeout_s: Seconds = 5.0
    request_timeout_s: Seconds = 10.0
    """For each read of the header of a request that has begun, and for its whole body."""
    idle_timeout_s: Seconds = 300.0
    """Between two requests on a connection; longer than kube-scheduler keeps an idle connection (90 s)."""
    connection_age_s: Seconds = CONNECTION_AGE_S
    """An older connection is closed after its next answer, so that replaced certificates are checked."""

    def __post_init__(self) -> None:
        """Refuse limits that no large request fits into; msgspec turns a ValueError into a validation error."""
        if self.all_bodies_bytes < self.body_bytes:
            raise ValueError(
                f"all_bodies_bytes must be at least body_bytes, got {self.all_bodies_bytes} and {self.body_bytes}: "
                f"raise the one or lower the other"
            )


class JournalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where decisions are written, and how many are kept."""

    file: str = "/var/log/carico/journal.jsonl"
    max_bytes: Annotated[int, Meta(ge=10_000)] = 64 << 20
    keep: Annotated[int, Meta(ge=0, le=1000)] = 4
    """How many full files are kept; the oldest is deleted first."""
    max_nodes: Annotated[int, Meta(ge=1, le=100_000)] = 20
    """How many candidates a line lists; the others, which have less room, are only counted."""


class KubernetesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach the API server."""

    REMEDY: ClassVar[str] = "outside a cluster, name a kubeconfig (`kubernetes: {kubeconfig: FILE}`)"
    """What to do if it cannot be reached."""

    kubeconfig: str | None = None
    """A file; without it the process must run in the cluster."""
    context: str | None = None
    """A context of the kubeconfig; the current one by default."""


class WakeUpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shortest time between annotations of nodes, which let kube-scheduler try refused pods again."""

    node_interval_s: Seconds = 5.0
    """For one node."""
    interval_s: Seconds = 0.5
    """For all nodes together."""


class KeptCostsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ConfigMap that keeps what workloads cost when the extender's pod is replaced; it must exist."""

    config_map: ObjectName
    namespace: ObjectName | None = None
    """By default the environment variable NAMESPACE (the downward API)."""
    lease: ObjectName | None = None
    """The lock of kube-scheduler's replicas in the same namespace: only the leader's extender writes, or that of the
    first replica if there is no leader. Without it, every extender writes."""


class ExtenderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler's extender (``carico extender``).

    Parameters
    ----------
    host, port
        Where the extender listens for kube-scheduler.
    report_host, report_port
        Where the extender listens for the agents' reports; by default on the same host.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and loopback hosts.
    insecure_loopback : bool
    clients : tuple of str
        Names (URIs or DNS names among the alternative names of the certificate; the common name does not count) of the
        clients that may send requests; an empty tuple admits every client with a certificate of the CA, agents
        included.
    kubernetes : KubernetesConfig, optional
        Without it no pods are watched: reservations end only by the time-out, and refused pods are not woken. Only for
        trying CARICO out.
    scheduler_name : str
        Pods with this `spec.schedulerName` are watched.
    excluded_namespaces : tuple of str
        The agents' `pod_events.excluded_namespaces`: no place is held for long for pods there that run and that no
        report counts.
    stale_after_s : float
        A node whose last report is older than this is refused; agents report every second.
    reservation_timeout_s : float
        How long binding a pod to its node may take before the reservation ends.
    until_counted : bool
        Whether the reservations of running pods last until a report counts them. False lets them end when the pods run,
        as in the thesis (§4.4). The variant `demand` always does the former.
    journal : JournalConfig, optional
        Without it decisions are not recorded.
    checkpoint : str, optional
        A file that keeps across restarts what workloads cost; only the variant `demand` remembers that.
    kept_costs : KeptCostsConfig, optional
        Keeps the same when the pod is replaced; needs `kubernetes`.
    variant : str
        A named set of CARICO's parameters; the agents' as well.
    """

    host: str = "127.0.0.1"
    port: Port = 8443
    report_host: str | None = None
    report_port: Port = 50052
    tls: TlsFiles | None = None
    insecure_loopback: bool = False
    clients: tuple[str, ...] = ("carico:server:kube-scheduler",)
    kubernetes: KubernetesConfig | None = KubernetesConfig()
    scheduler_name: ObjectName = "carico"
    excluded_namespaces: tuple[str, ...] = PLATFORM_NAMESPACES
    stale_after_s: Seconds = STALE_AFTER_S
    reservation_timeout_s: Seconds = RESERVATION_TIMEOUT_S
    until_counted: bool = True
    journal: JournalConfig | None = JournalConfig()
    checkpoint: str | None = None
    kept_costs: KeptCostsConfig | None = None
    variant: str = DEFAULT_VARIANT.name
    wake_up: WakeUpConfig = WakeUpConfig()
    limits: HttpLimits = HttpLimits()
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()


class SignerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signer of nodes' certificates (``carico signer``).

    Parameters
    ----------
    authority : str
        The folder of the CA for nodes: `ca.crt` and `ca.key`, which are read for every signature.
    namespace : str, optional
        The agents' namespace; by default the environment variable NAMESPACE (the downward API).
    life_hours : int
        How long certificates are valid, unless a request asks for less. They are renewed after two thirds of that: with
        the default, a week, there may be no signer for two days. A node that has left the cluster has a certificate
        for that long at most.
    kubernetes : KubernetesConfig
    tls : TlsFiles, optional
        Only for the status.
    """

    authority: str
    namespace: ObjectName | None = None
    life_hours: Annotated[int, Meta(ge=1, le=8760)] = 168
    kubernetes: KubernetesConfig = KubernetesConfig()
    tls: TlsFiles | None = None
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()


class PodEventsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of a node's pod events."""

    source: Literal["cgroup", "containerd", "kubernetes", "processes"] = "cgroup"
    """`cgroup`: the kubelet's control groups, the fastest source, which needs no privilege. `containerd`: containerd's
    events, over a socket that gives root's rights. `kubernetes`: the API server, the slowest source, which knows best
    which pods count. `processes`: processes that stand for pods, if there is no kubelet."""
    containerd_socket: str = "/run/containerd/containerd.sock"
    containerd_namespace: str = "k8s.io"
    """A namespace of containerd, not of Kubernetes."""
    excluded_namespaces: tuple[str, ...] = PLATFORM_NAMESPACES
    """Kubernetes namespaces whose pods do not count."""
    cgroup_root: str = "/sys/fs/cgroup"
    pod_logs: str | None = "/var/log/pods"
    """The folder from which `cgroup` learns the pods' namespaces and names, or a copy of the names that `python -m
    carico.podevents` keeps for an agent that may not read logs; null counts all pods."""
    pattern: str | None = None
    """A regular expression that the command lines of `processes` match."""

    def __post_init__(self) -> None:
        """Refuse invalid patterns, and `processes` without one; msgspec turns a ValueError into a validation error."""
        if self.source == "processes" and not self.pattern:
            raise ValueError("processes stand for pods if their command line matches: give `pattern`")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"pattern must be a regular expression, got {self.pattern!r}: {error}") from None


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent of a node (``carico agent``).

    Parameters
    ----------
    node : str, optional
        The node's name; by default the environment variable NODE_NAME (the downward API), or the host name.
    aggregator : str, optional
        host:port of the aggregation server; without it the node learns alone.
    schedulers : tuple of str
        host:port of every replica of the extender; the agent reports to all of them.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and loopback addresses.
    insecure_loopback : bool
    telemetry : {"procfs", "cgroup", "metrics-server"}
        `cgroup` is for a node that is itself a container. `metrics-server` is for a node on which nothing can be
        installed: the agent may then run anywhere, learns slowly, and needs the variant `utilisation-only`.
    proc, cgroup : str
        Where procfs and control groups are mounted; in a container, where the host's are mounted.
    metrics_period_s : float
        Time between two requests to the metrics server, which by default has new numbers every 15 s.
    pod_events : PodEventsConfig
    kubernetes : KubernetesConfig
        For the telemetry `metrics-server` and the pod events `kubernetes`; both need the extra `scheduler`.
    variant : str
        A named set of CARICO's parameters.
    max_pods : int
        The kubelet's limit of pods on the node.
    checkpoint : str, optional
        A file that keeps what the agent has learned across restarts.
    """

    node: str | None = None
    aggregator: Address | None = None
    schedulers: tuple[Address, ...] = ()
    tls: TlsFiles | None = None
    insecure_loopback: bool = False
    telemetry: Literal["procfs", "cgroup", "metrics-server"] = "procfs"
    proc: str = "/proc"
    cgroup: str = "/sys/fs/cgroup"
    metrics_period_s: Seconds = 15.0
    pod_events: PodEventsConfig = PodEventsConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()
    variant: str = DEFAULT_VARIANT.name
    max_pods: Annotated[int, Meta(ge=1, le=100_000)] = MAX_PODS
    checkpoint: str | None = None
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()


Config = TypeVar("Config", bound=msgspec.Struct)


class PlainLoader(yaml.SafeLoader):
    """Refuses aliases, equal keys in a mapping, tags that do not fit, and escapes of what is no character.

    With aliases, a few hundred bytes can stand for billions of values. Of equal keys PyYAML would silently take the
    last.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read a value; raises MarkedYAMLError if it is an alias."""
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]  # its stub has no types
            problem = f"the alias *{alias.anchor} is not accepted, write out what it stands for"
            raise yaml.MarkedYAMLError(None, None, problem, alias.start_mark)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read a mapping; raises MarkedYAMLError if it has a key twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} occurs twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: yaml.Mark) -> list[str]:
        """Read a part of a text in quotes; raises MarkedYAMLError for an escape beyond Unicode."""
        try:
            found: list[str] = super().scan_flow_scalar_non_spaces(double, start_mark)
        except (ValueError, OverflowError) as error:
            raise yaml.MarkedYAMLError(None, None, "an escape stands for no character", start_mark) from error
        return found

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; raises MarkedYAMLError if a tag wants what the text is not, such as ``!!int ''``."""
        try:
            return super().construct_object(node, deep)
        except (LookupError, AttributeError, TypeError, ValueError) as error:  # as PyYAML fails then
            problem = f"the value does not have the type {node.tag!r}"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark) from error


def yaml_problem(error: Exception) -> str:
    """Return in one line, with the place, what is wrong with a YAML text, by the error that reading it has caused."""
    return " ".join(str(error).split()).replace(' in "<unicode string>"', "")


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read a configuration from a YAML file; an empty file gives the defaults.

    Raises
    ------
    InvalidConfig
        If the file cannot be read, is not YAML or has an alias, or does not match `kind`; the message names file,
        line and field.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=PlainLoader)  # noqa: S506 (it is a SafeLoader)
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"cannot read the configuration {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidConfig(f"{path} is not YAML: {yaml_problem(error)}") from error
    try:
        config = msgspec.convert({} if document is None else document, kind)
        msgspec.json.encode(config)  # refuses half of a pair of surrogates, which YAML can write but is no text
        return config
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        what = misfit(error, text, kind) if isinstance(error, msgspec.ValidationError) else str(error)
        what = what.replace(f"matching regex {ADDRESS!r}", "host:port")
        raise InvalidConfig(f"{path}: {what}; all fields: python -m pydoc carico.config.{kind.__name__}") from error
