"""The agent of a node: samples at 10 Hz, steps its model once a second, reports and exchanges. No rule of CARICO.

It joins the other modules: telemetry and pod events go into `NodeModel`, reports to every replica of the scheduler, the
node's own subspace to the aggregator. Everything slow (network, disk) is left in mailboxes, from which other threads
send the newest value only: the loop never waits for them, and goes on with the node's own model while nothing answers.

An agent that ends reports a Pod-Capacity of 0. Schedulers would believe its last report for some seconds more, and not
count the pods that start in that time: their reservations have ended, and no agent reports them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from carico import __version__
from carico.clock import Clock
from carico.model.node_model import NodeModel
from carico.model.report import Report
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.podevents.source import PodChange, PodEventSource
from carico.scheduling.report import CapacityReport
from carico.telemetry.counters import Telemetry, usage_vector
from carico.telemetry.sampler import Batch, Sampler

_log = logging.getLogger(__name__)

SILENT_AFTER_S = 5.0
"""An agent that has not read telemetry for so long is not healthy."""
CHECKPOINT_EVERY_S = 10.0


class Mailbox(Protocol):
    """Takes values and sends the newest when it can; `carico.rpc.background.BackgroundCalls` is one."""

    succeeded: int
    """How many values were sent and, where an answer is wanted, answered."""

    def submit(self, value: object) -> None:
        """Leave a value to be sent; returns at once."""
        ...

    def latest(self) -> object | None:
        """Return the latest answer."""
        ...


class Agent:
    """One node's agent.

    Parameters
    ----------
    node : str
        The node's name.
    sampler : Sampler
        Of the node's telemetry.
    pods : PodEventSource
    clock : Clock
        The sampler's.
    aggregator : Mailbox, optional
        Takes the node's own subspaces, and answers with the aggregator's view. Without it the node learns by itself.
    reports : sequence of Mailbox
        One for every replica of the scheduler; each takes a `CapacityReport` every second.
    checkpoints : Mailbox, optional
        Takes the model's state every ten seconds, and once at the end.
    variant : Variant, optional
    max_pods : int, optional
        The kubelet's limit.
    unix_time : callable, optional
        The time of day, for reports.

    Attributes
    ----------
    model : NodeModel
        What the agent has learned of its node; may be restored before `run`.
    """

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        pods: PodEventSource,
        clock: Clock,
        *,
        aggregator: Mailbox | None = None,
        reports: Sequence[Mailbox] = (),
        checkpoints: Mailbox | None = None,
        variant: Variant = DEFAULT_VARIANT,
        max_pods: int = 110,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self.model = NodeModel(variant, max_pods=max_pods)
        self._node = node
        self.sampler = sampler
        self._pods = pods
        self._clock = clock
        self._aggregator = aggregator
        self._reports = reports
        self._checkpoints = checkpoints
        self._unix_time = unix_time
        self._events: deque[PodChange] = deque()
        self._running = 0
        """Pods: the sum of the source's changes."""
        self._answered = self._reported = 0
        self._read_at = -np.inf
        self._saved_at = clock.now()
        self.samples = self.steps = self.pod_events = self.miscounts = 0
        """Samples that the model has taken in, its steps, pod events, and events that contradicted the count."""
        self.report: Report | None = None
        """What the latest step found."""
        self._batch: Batch | None = None
        """The latest batch that has samples."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, and return at the next sample then.

        Raises
        ------
        TelemetryError
            If the node's telemetry cannot be read any more.
        PodEventsError
            If the pods that run at the start cannot be found out.
        """
        self._pods.start(self._events.append)
        # The source has told all pods that run by now: they replace the number of a saved state.
        self._running = sum(self._events.popleft().change for _ in range(len(self._events)))
        self.model.reconcile(max(self._running, 0), self._clock.now())
        try:
            while (batch := self.sampler.next_batch(self.model.variant.batch_size, stop.is_set)) is not None:
                self._read_at = self._clock.now()
                self._count_pods()
                self._take_in(batch)
                self._step()
        finally:
            self._pods.close()
            self._report(0.0)
            if self._checkpoints is not None:
                self._checkpoints.submit(self.model.save())

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry of the latest second that had samples, as a whole; None before the first."""
        return None if self._batch is None else self._batch.whole

    def healthy(self) -> str:
        """Return why the agent does not work; an empty text means that it does."""
        silent_s = self._clock.now() - self._read_at
        return "" if silent_s <= SILENT_AFTER_S else f"no telemetry for {silent_s:.0f} s, wanted ten samples a second"

    def ready(self) -> str:
        """Return why no scheduler knows of this node; an empty text means that one does."""
        if any(mailbox.succeeded for mailbox in self._reports):
            return ""
        return "no scheduler has taken a report yet" if self._reports else "there is no scheduler to report to"

    def _count_pods(self) -> None:
        while self._events:
            event = self._events.popleft()
            self.pod_events += 1
            self._running += event.change
            if event.change < 0 and self._running < 0:
                # A start was missed. The source's next listing corrects the sum: asking for a listing here would block.
                self.miscounts += 1
                _log.warning("pod events contradict the count", extra={"pods": self._running})
            self.model.reconcile(max(self._running, 0), event.at)

    def _take_in(self, batch: Batch) -> None:
        if batch.samples is not None:
            self._batch = batch
            self.samples += len(batch.readings) - 1
            self.model.observe_series(usage_vector(batch.samples, self.model.variant.cpu_metric), batch.samples.at_s)

    def _step(self) -> None:
        now = self._clock.now()
        if self._aggregator is not None and self._aggregator.succeeded != self._answered:
            self._answered = self._aggregator.succeeded
            view = self._aggregator.latest()
            if isinstance(view, Subspace):
                self.model.adopt(view)
                self.model.exchanged(now)
        self.report = report = self.model.step(now)
        self.steps += 1
        if self._aggregator is not None and bool(report.exchange_due):
            self._aggregator.submit(report.subspace)
        self._report(float(report.pod_capacity))
        if self._checkpoints is not None and now - self._saved_at >= CHECKPOINT_EVERY_S:
            self._saved_at = now
            self._checkpoints.submit(self.model.save())

    def _report(self, pod_capacity: float) -> None:
        self._reported += 1
        report = CapacityReport(
            self._node,
            pod_capacity,
            pods=int(self.model.pods),
            at_unix_s=self._unix_time(),
            sequence=self._reported,
            version=__version__,
        )
        for mailbox in self._reports:
            mailbox.submit(report)
