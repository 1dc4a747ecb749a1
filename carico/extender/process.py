"""The extender as a process: opens what its configuration names, serves, and closes everything.

Everything slow has a separate thread, so that a decision waits for nothing but the lock: one thread annotates nodes,
each with its latest room only, and another writes the journal.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol, Self

import msgspec
from prometheus_client import CollectorRegistry

from carico.checkpoint import continue_from, unwritten, write_checkpoint
from carico.clock import Clock, SystemClock
from carico.config import ExtenderConfig, JournalConfig, KeptCostsConfig, KubernetesConfig
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DemandVariant
from carico.errors import InvalidConfig, InvalidInput, KubeError, KubeRefused, KubeUnreachable
from carico.extender.demand_extender import DemandExtender
from carico.extender.extender import Extender
from carico.extender.journal import Journal
from carico.extender.journal_reader import latest
from carico.extender.kept_costs import END_S, OWNER, START_S, KeptCosts, Leadership
from carico.extender.metrics import ExtenderMetrics
from carico.extender.report_server import CapacityServer
from carico.extender.server import serve_extender
from carico.files import require_writable
from carico.http.expiry import Expiry
from carico.http.health import serve_status
from carico.http.tls import ServerTls
from carico.kube.reflector import ENDED, Objects, Reflector
from carico.model.variants import Variant
from carico.rpc.server import OnRefused
from carico.rpc.tls import require_loopback
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.report import CapacityReport
from carico.scheduling.scheduler import TICK_S, Scheduler
from carico.scheduling.wake_up import WakeUp
from carico.variants import variant_named

_log = logging.getLogger(__name__)

ANNOTATION = "carico.dev/capacity"
"""The annotation of a node: the pods that it had room for when it last woke refused pods, and the time.

The time makes every annotation differ from the previous one: a patch that changes nothing causes no event, and wakes no
pod. Milliseconds would be too coarse for two annotations in quick succession.
"""
CHECKPOINT_EVERY_S = 60.0
_LEARNED = "what workloads cost"
"""What a checkpoint keeps."""
_REFUSED_FOR_GOOD = frozenset({400, 403, 404, 422})
"""HTTP statuses that mean that an annotation would be refused every time."""


class ReportServer(Protocol):
    """The server that agents report to (`carico.extender.report_server`)."""

    @property
    def port(self) -> int:
        """The port that is listened on."""
        ...

    def is_alive(self) -> bool:
        """Return whether the server can still take reports."""
        ...

    def close(self) -> None:
        """Stop serving."""
        ...


OnReport = Callable[[CapacityReport], Mapping[str, str]]
"""Called with every report; returns the workloads of pods, by UID, that the node should know; must not block."""


class KubeApi(Protocol):
    """The part of the Kubernetes API that is needed (`carico.kube.client.KubeClient`)."""

    def pods(self, field_selector: str) -> Objects:
        """Return the pods that a field selector selects."""
        ...

    def annotate_node(self, node: str, annotations: dict[str, str]) -> None:
        """Set annotations of a node."""
        ...

    def config_map(self, namespace: str, name: str) -> tuple[dict[str, str], str]:
        """See `carico.extender.kept_costs`, as for the next two."""
        ...

    def set_in_config_map(self, namespace: str, name: str, data: Mapping[str, str], version: str) -> str:
        """Change a ConfigMap."""
        ...

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """Return who holds a lease, and when it was renewed."""
        ...


def serve_reports(config: ExtenderConfig, on_report: OnReport, refused: OnRefused, clock: Clock) -> ReportServer:
    """Return the gRPC server for the agents' reports."""
    return CapacityServer(
        on_report,
        config.tls,
        config.host if config.report_host is None else config.report_host,
        config.report_port,
        insecure_loopback=config.insecure_loopback,
        refused=refused,
        clock=clock,
    )


def kube_api(config: ExtenderConfig) -> KubeApi | None:
    """Return the API that the configuration names."""
    if config.kubernetes is None:
        return None
    from carico.kube.client import KubeClient

    remedy = f"{KubernetesConfig.REMEDY}, or do without (`kubernetes: null`)"
    return KubeClient.from_config(config.kubernetes.kubeconfig, config.kubernetes.context, remedy=remedy)


def run_extender(config: ExtenderConfig, stop: threading.Event) -> None:
    """Run an extender until `stop` is set.

    Raises
    ------
    CaricoError
        If the configuration is unusable.
    """
    sys.setswitchinterval(0.0005)  # a decision must not wait 5 ms for the thread that writes the journal
    with ExtenderProcess(config, SystemClock(), random.Random(), kube_api(config)) as process:
        serving = {
            "host": config.host,
            "port": process.port,
            "report_host": config.report_host,
            "report_port": process.report_port,
            "status_port": process.status_port,
        }
        _log.info("serving", extra=serving)
        stop.wait()


def new_extender(
    config: ExtenderConfig,
    variant: Variant | DemandVariant,
    journal: Journal | None,
    clock: Clock,
    metrics: ExtenderMetrics,
    wake: Callable[[str, float], None],
    changed: threading.Condition | None = None,
    *,
    sees_pods: bool = True,
) -> tuple[Extender | DemandExtender, str]:
    """Return the core of a variant, and the field selector of the pods that it has to be shown.

    Parameters
    ----------
    config : ExtenderConfig
    variant : Variant or DemandVariant
    journal : Journal or None
    clock : Clock
    metrics : ExtenderMetrics
    wake : callable
        See `Scheduler`.
    changed : threading.Condition, optional
        See `DemandExtender`.
    sees_pods : bool, optional
        See `DemandScheduler`.
    """
    wake_up = WakeUp(config.wake_up.node_interval_s, config.wake_up.interval_s)
    if isinstance(variant, DemandVariant):
        of_demand = DemandScheduler(
            variant, wake_up, wake, config.stale_after_s, config.reservation_timeout_s, sees_pods=sees_pods
        )
        extender_of_demand = DemandExtender(
            of_demand,
            journal,
            clock,
            metrics,
            config.scheduler_name,
            changed=changed,
            excluded_namespaces=config.excluded_namespaces,
        )
        return extender_of_demand, ",".join(f"status.phase!={phase}" for phase in ENDED)
    of_the_thesis = Scheduler(
        CaricoPlugin(config.stale_after_s),
        config.reservation_timeout_s,
        wake_up=wake_up,
        wake=wake,
        released=lambda reason: metrics.released.labels(reason).inc(),
        until_counted=config.until_counted or variant.until_counted,
    )
    extender = Extender(of_the_thesis, journal, clock, metrics, config.excluded_namespaces)
    return extender, f"spec.schedulerName={config.scheduler_name}"


class ExtenderProcess:
    """Serves until it is closed.

    Parameters
    ----------
    config : ExtenderConfig
    clock : Clock
    rng : random.Random
        Spreads the waits after failures.
    kube : KubeApi or None
        With None, the extender decides without a watch on pods.
    reports : callable
        Makes the server for the agents' reports.

    Raises
    ------
    InvalidConfig
        If a file cannot be used or an address cannot be served; nothing is served then.
    """

    def __init__(
        self,
        config: ExtenderConfig,
        clock: Clock,
        rng: random.Random,
        kube: KubeApi | None,
        reports: Callable[[ExtenderConfig, OnReport, OnRefused, Clock], ReportServer] = serve_reports,
    ) -> None:
        self._config = config
        self._clock = clock
        self._rng = rng
        self._kube = kube
        self._reports = reports
        self._registry = CollectorRegistry()
        self._metrics = ExtenderMetrics(self._registry)
        self._stop = threading.Event()
        self._search = threading.Lock()
        """Held while the journal is searched, so that searches cannot take all CPUs."""
        self._parts: dict[str, Callable[[], bool]] = {}
        """Whether each part that the process needs still works, by the part's name."""
        self._to_wake: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        with ExitStack() as opened:
            self._open(opened)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Stop serving, and write the rest of the journal."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def healthy(self) -> str:
        """Return why the process cannot go on; an empty text means that it can."""
        ended = [name for name, alive in self._parts.items() if not alive()]
        return f"has ended, the log says why: {', '.join(ended)}" if ended else ""

    def _open(self, opened: ExitStack) -> None:
        config = self._config
        if config.tls is None:
            require_loopback(config.host, config.insecure_loopback)
        journal = None
        if config.journal is not None:
            journal = opened.enter_context(self._journal(config.journal))
            self._parts["journal"] = journal.is_alive
        variant = variant_named(config.variant)
        self.extender, watched = new_extender(
            config, variant, journal, self._clock, self._metrics, self._wake, sees_pods=self._kube is not None
        )
        if isinstance(self.extender, DemandExtender):
            opened.callback(self.extender.close)
            if config.checkpoint is not None:
                self._remember(opened, self.extender, Path(config.checkpoint))
            if config.kept_costs is not None:
                self._keep(opened, self.extender, config.kept_costs)
        opened.enter_context(Expiry(config.tls, self._registry))
        pages = {"/nodes": self._nodes, "/costs": self._costs, "/node-costs": self._node_costs}
        status = serve_status(
            config.status,
            config.tls,
            self._registry,
            healthy=self.healthy,
            ready=self.extender.ready,
            pages=pages,
            searches={"/decisions/": self._decisions},
        )
        self.status_port = opened.enter_context(status).port
        refused = self._metrics.reports.labels("refused").inc
        reports = self._reports(config, self._on_report, lambda why: refused(), self._clock)
        opened.callback(reports.close)
        self._parts["reports of agents"] = reports.is_alive
        server = serve_extender(
            self.extender,
            self._metrics,
            host=config.host,
            port=config.port,
            tls=ServerTls(config.tls) if config.tls is not None else None,
            clients=frozenset(config.clients),
            limits=config.limits,
        )
        self.port = opened.enter_context(server).port
        self._parts["filter requests"] = server.is_alive
        self.report_port = reports.port
        opened.callback(self._stop.set)
        self._in_background("time-outs", self._tick)
        if self._kube is None:
            self.extender.pods_listed(True)
        else:
            pods = Reflector(
                self._kube.pods(watched),
                self.extender.pod_seen,
                self._clock,
                self._rng,
                deleted=self.extender.pod_deleted,
                listed=lambda: self.extender.pods_listed(True),
                following=self.extender.pods_followed,
            )
            self.extender.hurry, self.extender.catch_up = pods.hurry, pods.catch_up
            self._parts["watch on pods"] = opened.enter_context(pods).is_alive
            self._in_background("wake-ups", partial(self._annotate, self._kube))

    def _journal(self, config: JournalConfig) -> Journal:
        file = Path(config.file)
        require_writable(file, "journal.file", "decisions are not recorded")
        if file.is_symlink():
            raise InvalidConfig(f"journal.file must not be a symbolic link, {file} is one: name the file it leads to")
        return Journal(
            file,
            time.time,
            self._metrics.journal_lost.inc,
            self._metrics.journal_reopened.inc,
            max_bytes=config.max_bytes,
            keep=config.keep,
            max_nodes=config.max_nodes,
        )

    def _remember(self, opened: ExitStack, extender: DemandExtender, file: Path) -> None:
        """Restore the checkpoint, and write it every minute, and once at the end."""
        require_writable(file, "checkpoint", f"a restart will forget {_LEARNED}")
        continue_from(file, self._config.variant, extender.restore, owner=OWNER)

        def write() -> None:
            try:
                write_checkpoint(file, self._config.variant, extender.state(), owner=OWNER)
            except OSError as error:
                _log.warning("%s", unwritten(file, error, _LEARNED))

        def keep() -> None:
            while not self._stop.wait(CHECKPOINT_EVERY_S):
                write()
            write()

        opened.callback(self._in_background("checkpoints", keep).join)
        opened.callback(self._stop.set)  # or the thread would not end if something after this fails

    def _keep(self, opened: ExitStack, extender: DemandExtender, config: KeptCostsConfig) -> None:
        """Read the ConfigMap, and write it every minute, and once at the end."""
        namespace = config.namespace or os.environ.get("NAMESPACE", "")
        if self._kube is None:
            raise InvalidConfig("`kept_costs` names a ConfigMap: give `kubernetes`, too")
        if not namespace:
            raise InvalidConfig("`kept_costs` needs the namespace of its ConfigMap: give `namespace`, or set NAMESPACE")
        leadership = Leadership(self._kube, namespace, config.lease, socket.gethostname())
        kept = KeptCosts(self._kube, namespace, config.config_map, extender, self._config.variant, leadership)
        thread = self._in_background("costs in a ConfigMap", partial(kept.run, self._stop))
        opened.callback(thread.join, END_S)
        opened.callback(self._stop.set)
        if not kept.has_read.wait(START_S):
            _log.warning(
                "starting without what workloads used to cost: the API server has not answered for %g s", START_S
            )

    def _in_background(self, name: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._parts[name] = thread.is_alive
        return thread

    def _nodes(self) -> bytes:
        extender = self.extender
        known = {
            "nodes": extender.nodes(),
            "workloads": extender.workloads(),
            "outliers": extender.outliers(),
            "uncounted": extender.uncounted(),
        }
        return msgspec.json.encode(known)

    def _decisions(self, pod: str) -> bytes:
        journal = self._config.journal
        if journal is None:
            raise InvalidInput("this extender keeps no journal of its decisions: give `journal` in its configuration")
        with self._search:
            return msgspec.json.encode({"decisions": latest(Path(journal.file), pod)})

    def _costs(self) -> bytes:
        return msgspec.json.encode({"workloads": self.extender.costs()})

    def _node_costs(self) -> bytes:
        return msgspec.json.encode({"workloads": self.extender.costs_at_nodes()})

    def _on_report(self, report: CapacityReport) -> Mapping[str, str]:
        with suppress(InvalidInput):  # counted; the agent's next report comes in a second
            return self.extender.report(report)
        return {}

    def _tick(self) -> None:
        while not self._stop.wait(TICK_S):
            self.extender.tick()

    def _wake(self, node: str, available: float) -> None:
        if self._kube is not None:  # otherwise no thread empties the queue
            self._to_wake.put((node, available))

    def _annotate(self, kube: KubeApi) -> None:
        rooms: dict[str, float] = {}
        """The latest room of each node to be annotated."""
        while not self._stop.is_set():
            with suppress(queue.Empty):
                rooms.update([self._to_wake.get(timeout=TICK_S)])
                while True:  # all nodes that have queued up while the API server was slow
                    rooms.update([self._to_wake.get_nowait()])
            for node in list(rooms):
                at = datetime.now(UTC).isoformat(timespec="microseconds")
                try:
                    kube.annotate_node(node, {ANNOTATION: f"{rooms[node]:.2f} at {at}"})
                except KubeError as error:
                    self._metrics.wake_ups.labels("failed").inc()
                    _log.warning("a node could not be annotated: %s", error, extra={"node": node})
                    if isinstance(error, KubeUnreachable):
                        break  # the other nodes would fail, too; all are tried again in the next round
                    if not (isinstance(error, KubeRefused) and error.status in _REFUSED_FOR_GOOD):
                        continue
                else:
                    self._metrics.wake_ups.labels("done").inc()
                del rooms[node]
