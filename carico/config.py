"""Configuration files of CARICO's processes: YAML, declared as msgspec types; needs the extra `agent` or `scheduler`.

Every process has one struct here. An unknown key, a wrong type or a number out of range is an error that names file and
field.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta

from carico.errors import InvalidConfig
from carico.model.capacity import MAX_PODS
from carico.model.variants import DEFAULT_VARIANT
from carico.podevents.source import PLATFORM_NAMESPACES
from carico.scheduling.scheduler import RESERVATION_TIMEOUT_S, STALE_AFTER_S

CONNECTION_AGE_S = 3600.0
"""How long a connection lasts: certificates are checked when it is made, and clients would keep it for ever."""
Port = Annotated[int, Meta(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_PORT = "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
ADDRESS = rf"^(\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]+):{_PORT}$"
Address = Annotated[str, Meta(pattern=ADDRESS)]
"""host:port, of an IPv6 address [host]:port."""


class TlsFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PEM files of a process: its certificate, its key, and the CA that the other side's certificate must be of."""

    certificate: str
    key: str
    ca: str


class StatusConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where /healthz, /readyz and /metrics are served; nothing in them is secret."""

    host: str = "127.0.0.1"
    port: Port = 0
    tls: bool = False
    """HTTPS with the process's own certificate instead of plain HTTP; clients need none, because kubelets have none."""


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged on standard error."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class AggregatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregation server (``carico aggregator``).

    Parameters
    ----------
    host, port
        Where the server listens for nodes and other replicas.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and a loopback `host`.
    insecure_loopback : bool
    resources : int
        The number of resources that every agent observes.
    rank : int, optional
        Components of the view; all by default.
    node_timeout_s : float
        A node that has not exchanged for so long counts no more. Agents exchange at least every 5 s.
    max_nodes : int
        Further nodes are refused: each node may have one subspace waiting.
    merge_every_s : float
        Subspaces that arrive within that time are merged in one go.
    peers : tuple of str
        Other replicas, host:port each; one direction of every pair is enough.
    reconcile_every_s : float
        How often the replicas exchange their views, on average.
    """

    host: str = "127.0.0.1"
    port: Port = 50051
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


class HttpLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for clients of the extender."""

    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 8 << 20
    connections: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """At a time; a further connection replaces the one that has been silent for longest."""
    handshake_timeout_s: Seconds = 5.0
    request_timeout_s: Seconds = 10.0
    """For each read of a header or a body that has begun."""
    idle_timeout_s: Seconds = 300.0
    """For the next request of a connection; longer than kube-scheduler keeps a connection (90 s)."""
    connection_age_s: Seconds = CONNECTION_AGE_S
    """An older connection ends with its next answer, so that certificates that were replaced are checked."""


class JournalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where decisions are written, and how many are kept."""

    file: str = "/var/log/carico/journal.jsonl"
    max_bytes: Annotated[int, Meta(ge=10_000)] = 64 << 20
    keep: Annotated[int, Meta(ge=0, le=1000)] = 4
    """Full files that are kept before the oldest is deleted."""
    max_nodes: Annotated[int, Meta(ge=1, le=100_000)] = 20
    """Candidates in a line: the best ones; the others are counted."""


class KubernetesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the API server is reached."""

    kubeconfig: str | None = None
    """A file; without one the process must run in the cluster."""
    context: str | None = None
    """Of the kubeconfig, its current one by default."""


class WakeUpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often nodes are annotated at most, so that refused pods are tried again."""

    node_interval_s: Seconds = 5.0
    interval_s: Seconds = 0.5


class ExtenderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler's extender (``carico extender``).

    Parameters
    ----------
    host, port
        Where the extender listens for kube-scheduler.
    report_host, report_port
        Where it listens for the reports of agents; by default on the same host.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and loopback hosts.
    insecure_loopback : bool
    clients : tuple of str
        Names (URI, DNS name or common name of the certificate) of clients that may ask; empty admits every client with
        a certificate of the CA, agents included.
    kubernetes : KubernetesConfig, optional
        Without it no pods are watched: reservations end by the time-out alone, and no refused pod is woken. For trying
        CARICO out.
    scheduler_name : str
        Pods of this `spec.schedulerName` are watched.
    stale_after_s : float
        A node whose last report is older is refused; a few of the agents' report periods of 1 s.
    reservation_timeout_s : float
        How long a pod that was given a node may take to be bound.
    journal : JournalConfig, optional
        Without it decisions are not written.
    """

    host: str = "127.0.0.1"
    port: Port = 8443
    report_host: str | None = None
    report_port: Port = 50052
    tls: TlsFiles | None = None
    insecure_loopback: bool = False
    clients: tuple[str, ...] = ("carico:server:kube-scheduler",)
    kubernetes: KubernetesConfig | None = KubernetesConfig()
    scheduler_name: Annotated[str, Meta(pattern=r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")] = "carico"
    stale_after_s: Seconds = STALE_AFTER_S
    reservation_timeout_s: Seconds = RESERVATION_TIMEOUT_S
    journal: JournalConfig | None = JournalConfig()
    wake_up: WakeUpConfig = WakeUpConfig()
    limits: HttpLimits = HttpLimits()
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()


class PodEventsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of the events of a node's pods."""

    source: Literal["cgroup", "containerd", "kubernetes", "processes"] = "cgroup"
    """The kubelet's control groups, which are the fastest and need no privilege; containerd's events, over a socket
    that is as good as root; the API server, which knows best which pods count and is the slowest; or, without a
    kubelet, processes that stand for pods."""
    containerd_socket: str = "/run/containerd/containerd.sock"
    containerd_namespace: str = "k8s.io"
    """A namespace of containerd's, not of Kubernetes."""
    excluded_namespaces: tuple[str, ...] = PLATFORM_NAMESPACES
    """Kubernetes namespaces whose pods do not count."""
    cgroup_root: str = "/sys/fs/cgroup"
    pod_logs: str | None = "/var/log/pods"
    """The folder in which `cgroup` finds the namespaces of pods; null counts all pods."""
    pattern: str | None = None
    """A regular expression for the command lines of `processes`."""

    def __post_init__(self) -> None:
        """Refuse processes without a pattern, and invalid patterns; msgspec reports what is raised here."""
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
        host:port of the aggregation server; without one the node learns by itself.
    schedulers : tuple of str
        host:port of every replica of the extender, for reports.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and loopback addresses.
    insecure_loopback : bool
    telemetry : {"procfs", "cgroup", "metrics-server"}
        `cgroup` for a node that is itself a container; `metrics-server` for a node on which nothing can be installed:
        the agent may run anywhere then, learns slowly, and needs the variant `utilisation-only`.
    proc, cgroup : str
        Where procfs and control groups are mounted; for an agent in a container, where those of the host are.
    metrics_period_s : float
        How often the metrics server is asked; it has new numbers every 15 s by default.
    pod_events : PodEventsConfig
    kubernetes : KubernetesConfig
        For `metrics-server` and the pod events of `kubernetes`; both need the extra `scheduler`.
    variant : str
        CARICO's parameters, by name.
    max_pods : int
        The kubelet's limit.
    checkpoint : str, optional
        A file that keeps what was learned over a restart.
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


def read_config(path: Path, kind: type[Config]) -> Config:
    """Return the configuration in a YAML file; an empty file means the defaults.

    Raises
    ------
    InvalidConfig
        If the file cannot be read, is not YAML, or not what `kind` declares; the message names file and field.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"cannot read the configuration {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidConfig(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert({} if document is None else document, kind)
    except msgspec.ValidationError as error:
        what = str(error).replace(f"matching regex {ADDRESS!r}", "host:port")
        raise InvalidConfig(f"{path}: {what}; all fields: python -m pydoc carico.config.{kind.__name__}") from error
