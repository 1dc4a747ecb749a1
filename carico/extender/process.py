"""The extender as a process: joins the core with HTTP, agents' reports, the watch on pods, the journal and metrics.

Everything slow has a thread of its own, so that a decision waits for nothing but the lock: nodes are annotated by one
that takes only the latest room of each node, and the journal is written by another.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry

from carico.clock import Clock
from carico.config import ExtenderConfig, JournalConfig
from carico.errors import InvalidConfig, InvalidInput, KubeError, KubeRefused, KubeUnreachable
from carico.extender.extender import Extender
from carico.extender.journal import Journal
from carico.extender.metrics import ExtenderMetrics
from carico.extender.server import ExtenderServer
from carico.files import require_writable
from carico.http.health import serve_status
from carico.http.tls import ServerTls
from carico.kube.reflector import Pods, Reflector
from carico.rpc.tls import require_loopback
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.report import CapacityReport
from carico.scheduling.wake_up import WakeUp

_log = logging.getLogger(__name__)

ANNOTATION = "carico.dev/capacity"
"""Of a node: the pods that it had room for when refused pods were last woken because of it, and the time.

The time makes every annotation differ from the one before: a patch that leaves a node as it was is no event, and wakes
no pod. Milliseconds are too coarse for two annotations that follow each other closely.
"""
_TICK_S = 1.0
_REFUSED_FOR_GOOD = frozenset({400, 403, 404, 422})
"""HTTP statuses of an annotation that would be refused again."""


class ReportServer(Protocol):
    """Where agents report to (`carico.extender.report_server`)."""

    @property
    def port(self) -> int:
        """The port that is listened on."""
        ...

    def is_alive(self) -> bool:
        """Return whether it can still take any."""
        ...

    def close(self) -> None:
        """Serve no more."""
        ...


OnReport = Callable[[CapacityReport], None]
"""Is given every report; must not block."""
OnRefused = Callable[[str], None]
"""Is told why a report was refused."""


class KubeApi(Protocol):
    """What is asked of the Kubernetes API (`carico.kube.client.KubeClient`)."""

    def pods(self, field_selector: str) -> Pods:
        """Return the pods that a field selector takes in."""
        ...

    def annotate_node(self, node: str, annotations: dict[str, str]) -> None:
        """Set annotations of a node."""
        ...


def serve_reports(config: ExtenderConfig, on_report: OnReport, refused: OnRefused, clock: Clock) -> ReportServer:
    """Return the gRPC server of the agents' reports."""
    from carico.extender.report_server import CapacityServer

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

    return KubeClient.from_config(config.kubernetes.kubeconfig, config.kubernetes.context)


class ExtenderProcess:
    """Serves from `start` until `close`.

    Parameters
    ----------
    config : ExtenderConfig
    clock : Clock
    rng : random.Random
        Spreads waits after failures.
    kube : KubeApi or None
        None decides without a watch on pods.
    reports : callable
        Makes the server of the agents' reports.
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
        self._parts: dict[str, Callable[[], bool]] = {}
        """Whether what the process cannot do without still works, by name."""
        self._closing = ExitStack()
        self._to_wake: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()

    def start(self) -> None:
        """Serve.

        Raises
        ------
        InvalidConfig
            If a file is no good or nothing can be served at an address; nothing is served then.
        """
        with ExitStack() as undo:
            self._start(undo)
            self._closing = undo.pop_all()

    def close(self) -> None:
        """Serve no more, and write what is left of the journal."""
        self._stop.set()
        self._closing.close()

    def _start(self, closing: ExitStack) -> None:
        config = self._config
        if config.tls is None:
            require_loopback(config.host, config.insecure_loopback)
        tls = ServerTls(config.tls) if config.tls is not None else None
        journal = None
        if config.journal is not None:
            journal = closing.enter_context(self._journal(config.journal))
            self._parts["journal"] = journal.is_alive
        self.extender = Extender(
            CaricoPlugin(config.stale_after_s),
            journal,
            self._clock,
            self._metrics,
            config.reservation_timeout_s,
            WakeUp(config.wake_up.node_interval_s, config.wake_up.interval_s),
            self._wake,
        )
        closing.callback(self._stop.set)
        status = serve_status(
            config.status,
            config.tls,
            self._registry,
            self._why_not_healthy,
            lambda: self.extender.why_not_ready,
            {"/nodes": self._nodes},
        )
        self.status_port = closing.enter_context(status).port
        refused = self._metrics.reports.labels("refused").inc
        reports = self._reports(config, self._on_report, lambda why: refused(), self._clock)
        closing.callback(reports.close)
        self._parts["reports of agents"] = reports.is_alive
        server = _listening(
            config.host,
            config.port,
            partial(
                ExtenderServer,
                self.extender,
                self._metrics,
                tls=tls,
                clients=frozenset(config.clients),
                limits=config.limits,
            ),
        )
        self.port = closing.enter_context(server).port
        self._parts["filter requests"] = server.is_alive
        self.report_port = reports.port
        self._in_background("time-outs", self._tick)
        if self._kube is None:
            self.extender.pods_listed(True)
        else:
            pods = Reflector(
                self._kube.pods(f"spec.schedulerName={config.scheduler_name}"),
                self._pod_changed,
                self._clock,
                self._rng,
                self.extender.pod_deleted,
                lambda: self.extender.pods_listed(True),
            )
            self._parts["watch on pods"] = closing.enter_context(pods).is_alive
            self._in_background("wake-ups", partial(self._annotate, self._kube))

    def _journal(self, config: JournalConfig) -> Journal:
        file = Path(config.file)
        require_writable(file, "journal.file")
        lost = self._metrics.journal_lost.inc
        return Journal(file, time.time, lost, config.max_bytes, config.keep, config.max_nodes)

    def _in_background(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._parts[name] = thread.is_alive

    def _why_not_healthy(self) -> str:
        ended = [name for name, alive in self._parts.items() if not alive()]
        return f"has ended, the log says why: {', '.join(ended)}" if ended else ""

    def _nodes(self) -> bytes:
        return msgspec.json.encode({"nodes": [node._asdict() for node in self.extender.nodes()]})

    def _on_report(self, report: CapacityReport) -> None:
        with suppress(InvalidInput):  # counted; the agent's next report comes in a second
            self.extender.report(report)

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            self.extender.release_overdue()
            self.extender.forget_silent()

    def _pod_changed(self, pod: dict[str, Any]) -> None:
        phase = (pod.get("status") or {}).get("phase", "Pending")
        node = (pod.get("spec") or {}).get("nodeName") or ""
        self.extender.pod_changed(pod["metadata"]["uid"], node, phase == "Pending")

    def _wake(self, node: str, available: float) -> None:
        if self._kube is not None:  # without it nobody would ever take them out
            self._to_wake.put((node, available))

    def _annotate(self, kube: KubeApi) -> None:
        rooms: dict[str, float] = {}
        """The latest room of nodes that have yet to be annotated."""
        while not self._stop.is_set():
            with suppress(queue.Empty):
                rooms.update([self._to_wake.get(timeout=_TICK_S)])
                while True:  # what has gathered while the API server was slow
                    rooms.update([self._to_wake.get_nowait()])
            for node in list(rooms):
                at = datetime.now(UTC).isoformat(timespec="microseconds")
                try:
                    kube.annotate_node(node, {ANNOTATION: f"{rooms[node]:.2f} at {at}"})
                except KubeError as error:
                    self._metrics.wake_ups.labels("failed").inc()
                    _log.warning("a node could not be annotated: %s", error, extra={"node": node})
                    if isinstance(error, KubeUnreachable):
                        break  # nor would the others be; all are tried again with the next
                    if not (isinstance(error, KubeRefused) and error.status in _REFUSED_FOR_GOOD):
                        continue
                else:
                    self._metrics.wake_ups.labels("done").inc()
                del rooms[node]


def _listening(host: str, port: int, make: Callable[..., Any]) -> Any:
    try:
        return make(host=host, port=port)
    except OSError as error:
        raise InvalidConfig(f"nothing can be served on {host}:{port}: {error.strerror}; is the port taken?") from error
