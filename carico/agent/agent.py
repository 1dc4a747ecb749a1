"""The agent of a node: samples at 10 Hz, steps its model once a second, reports and exchanges. No rule of CARICO.

It joins what the other modules do: telemetry and pod events go into `NodeModel`, reports to every replica of the
scheduler, the own subspace to the aggregator. Everything slow (network, disk) is left in mailboxes whose threads send
the newest only: the loop never waits for them, and goes on with the node's own model while nobody answers.

An agent that ends takes back what it offered. Schedulers would believe its last report for seconds more, and count no
pod that starts meanwhile: it is on its way no longer, and nobody tells of it.

Ten times a second files are read, and no more: nothing asks what they say before the next step, and to look at ten
readings at a stretch costs a fraction of looking after a sleep each, with the processor's caches gone cold.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from carico.clock import Clock
from carico.model.node_model import NodeModel
from carico.model.report import Report
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.podevents.source import PodEventSource
from carico.scheduling.report import CapacityReport
from carico.telemetry.counters import Counters, Telemetry, telemetry_between, usage_vector
from carico.telemetry.sampler import Sampler

_log = logging.getLogger(__name__)

SILENT_AFTER_S = 5.0
"""Without a look at the telemetry for so long an agent is not healthy."""
CHECKPOINT_EVERY_S = 10.0


class Mailbox(Protocol):
    """Takes values and sends the newest in its own time; `carico.rpc.background.BackgroundCalls` is one."""

    succeeded: int
    """How many were sent and, where an answer is wanted, answered."""

    def submit(self, value: object) -> None:
        """Leave a value; returns at once."""
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
        Is given own subspaces, and answers with the aggregator's view. Without one the node learns by itself.
    reports : sequence of Mailbox
        Are given a `CapacityReport` every second, one for every replica of the scheduler.
    checkpoints : Mailbox, optional
        Is given the model's state every ten seconds, and once at the end.
    variant : Variant, optional
    max_pods : int, optional
        The kubelet's limit.
    unix_time : callable, optional
        The time of day, for reports.

    Attributes
    ----------
    model : NodeModel
        What is known of the node; may be restored before `run`.
    """

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        pods: PodEventSource,
        clock: Clock,
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
        self._events: deque[tuple[int, float]] = deque()
        self._running = 0
        """Pods, as the source's changes add up."""
        self._last: list[Counters] = []
        """The last reading before."""
        self._answered = self._reported = 0
        self._ended = threading.Event()
        self._read_at = -np.inf
        self._saved_at = clock.now()
        self.samples = self.steps = self.pod_events = self.miscounts = 0
        """Samples taken in (at the next step), steps made, pod events, and events that contradicted the count."""
        self.report: Report | None = None
        """The latest step's."""
        self._second: tuple[Counters, Counters] | None = None
        """The first and the last reading of the last step that had any."""

    def run(self) -> None:
        """Work until `end` is called.

        Raises
        ------
        TelemetryError
            If the node's telemetry cannot be read any more.
        PodEventsError
            If nothing is known of its pods at the start.
        """
        self._pods.start(lambda change, at: self._events.append((change, at)))
        # What runs already has been told by now, and replaces what a saved state remembers.
        self._running = sum(self._events.popleft()[0] for _ in range(len(self._events)))
        self.model.reconcile(max(self._running, 0), self._clock.now())
        size, due = self.model.variant.batch_size, 0
        try:
            while not self._ended.is_set():
                captures = self.sampler.captures_until(due, self._ended.is_set)
                self._count_pods()
                if self.sampler.tick >= due:
                    # The deadline of the step, or the first one after it that was not missed.
                    due = (self.sampler.tick // size + 1) * size
                    self._read_at = self._clock.now()
                    self._take_in(captures)
                    self._step()
        finally:
            self._pods.close()
            self._report(0.0)
            if self._checkpoints is not None:
                self._checkpoints.submit(self.model.save())

    @property
    def telemetry(self) -> Telemetry | None:
        """What the last step that had samples learned from, all of it as one; None before the first."""
        return None if self._second is None else telemetry_between(*self._second)

    def end(self) -> None:
        """Let `run` return at the next sample; may be called from anywhere, a signal handler too."""
        self._ended.set()

    def healthy(self) -> str:
        """Return why the agent does not work; empty if it does."""
        silent_s = self._clock.now() - self._read_at
        return "" if silent_s <= SILENT_AFTER_S else f"no telemetry for {silent_s:.0f} s, wanted ten samples a second"

    def ready(self) -> str:
        """Return why nobody hears of this node; empty if a scheduler does."""
        if any(mailbox.succeeded for mailbox in self._reports):
            return ""
        return "no scheduler has taken a report yet" if self._reports else "there is no scheduler to report to"

    def _count_pods(self) -> None:
        while self._events:
            change, at = self._events.popleft()
            self.pod_events += 1
            self._running += change
            if change < 0 and self._running < 0:
                # A start was missed. The source adds up again with its next listing: asking for one here would block.
                self.miscounts += 1
                _log.warning("pod events contradict the count", extra={"pods": self._running})
            self.model.reconcile(max(self._running, 0), at)

    def _take_in(self, captures: Sequence[Callable[[], Counters]]) -> None:
        taken = [reading for capture in captures if (reading := self.sampler.taken(capture)) is not None]
        readings = self._last + taken
        self._last = readings[-1:]
        telemetry = self.sampler.series(readings) if len(readings) > 1 else None
        if telemetry is not None:
            self._second = readings[0], readings[-1]
            self.samples += len(readings) - 1
            self.model.observe_series(usage_vector(telemetry, self.model.variant.cpu_metric), telemetry.at_s)

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
        report = CapacityReport(self._node, pod_capacity, int(self.model.pods), self._unix_time(), self._reported)
        for mailbox in self._reports:
            mailbox.submit(report)
