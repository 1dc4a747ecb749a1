"""What the agents of all variants have in common: sampling, mailboxes, checkpoints and health checks.

Everything slow (network, disk) goes through mailboxes, from which other threads send the newest value only: the loop
never waits for them, and goes on while no server answers.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from carico import __version__
from carico.clock import Clock
from carico.demand.report import DemandReport
from carico.podevents.source import PodEventSource
from carico.scheduling.report import CapacityReport
from carico.telemetry.counters import Telemetry
from carico.telemetry.sampler import Batch, Sampler

SILENT_AFTER_S = 5.0
"""An agent that has not read telemetry for longer than this is not healthy."""
CHECKPOINT_EVERY_S = 10.0


class Mailbox(Protocol):
    """Takes values and sends the newest when it can; `carico.rpc.background.BackgroundCalls` is one."""

    succeeded: int
    """How many values were sent and, where an answer is wanted, answered."""

    def submit(self, value: object) -> None:
        """Put in a value to be sent; returns at once."""
        ...

    def latest(self) -> object | None:
        """Return the latest answer."""
        ...


class AgentLoop(ABC):
    """The base of one node's agent.

    Parameters
    ----------
    node : str
        The node's name.
    sampler : Sampler
        Samples the node's telemetry.
    pods : PodEventSource
    clock : Clock
        The sampler's clock.
    batch_size : int
        Number of samples that are taken in together.
    reports : sequence of Mailbox
        One for every replica of the scheduler; each takes a `CapacityReport`.
    checkpoints : Mailbox, optional
        Takes the agent's state every ten seconds, and once at the end.
    unix_time : callable, optional
        The time of day, for reports.
    """

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        pods: PodEventSource,
        clock: Clock,
        *,
        batch_size: int,
        reports: Sequence[Mailbox] = (),
        checkpoints: Mailbox | None = None,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self.node = node
        self.sampler = sampler
        self.pods = pods
        self.clock = clock
        self.reports = reports
        self.unix_time = unix_time
        self._sequence = 0
        self._batch_size = batch_size
        self._checkpoints = checkpoints
        self._read_at = -np.inf
        self._saved_at = clock.now()
        self.samples = self.steps = self.pod_events = self.miscounts = 0
        """How many samples, steps of the model, pod events, and events that contradicted the count there have been."""
        self._batch: Batch | None = None
        """The latest batch that has samples."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; returns at the next sample after that.

        Raises
        ------
        TelemetryError
            If the node's telemetry can no longer be read.
        PodEventsError
            If the pods that run at the start cannot be listed.
        """
        self.begin()
        try:
            while (batch := self.sampler.next_batch(self._batch_size, stop.is_set)) is not None:
                self._read_at = self.clock.now()
                if batch.samples is not None:
                    self._batch = batch
                    self.samples += len(batch.readings) - 1
                self.take_in(batch)
                self.steps += 1
                self._save_if_due()
        finally:
            self.pods.close()
            self.end()
            if self._checkpoints is not None:
                self._checkpoints.submit(self.state())

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry over the whole latest batch that had samples; None before the first."""
        return None if self._batch is None else self._batch.whole

    def healthy(self) -> str:
        """Return why the agent does not work; an empty text means that it works."""
        silent_s = self.clock.now() - self._read_at
        return "" if silent_s <= SILENT_AFTER_S else f"no telemetry for {silent_s:.0f} s, wanted ten samples a second"

    def ready(self) -> str:
        """Return why no scheduler knows this node; an empty text means that at least one does."""
        if any(mailbox.succeeded for mailbox in self.reports):
            return ""
        return "no scheduler has taken a report yet" if self.reports else "there is no scheduler to report to"

    @abstractmethod
    def gauges(self) -> Mapping[str, tuple[str, float]]:
        """Return the agent's results for /metrics: a description and a value by name."""

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Return the state from which a restarted agent continues, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """

    @abstractmethod
    def begin(self) -> None:
        """Start the source of pod events and take in the running pods."""

    @abstractmethod
    def take_in(self, batch: Batch) -> None:
        """Learn from a batch, which may have no samples, and report."""

    @abstractmethod
    def end(self) -> None:
        """Report for the last time; the source of pod events is closed already."""

    def send(
        self,
        pod_capacity: float,
        pods: int,
        demand: DemandReport | None = None,
        counted: frozenset[str] | None = None,
    ) -> None:
        """Put a report into every scheduler's mailbox; see `CapacityReport`."""
        self._sequence += 1
        report = CapacityReport(
            self.node,
            pod_capacity,
            pods=pods,
            at_unix_s=self.unix_time(),
            sequence=self._sequence,
            demand=demand,
            version=__version__,
            counted=counted,
        )
        for mailbox in self.reports:
            mailbox.submit(report)

    def _save_if_due(self) -> None:
        now = self.clock.now()
        if self._checkpoints is not None and now - self._saved_at >= CHECKPOINT_EVERY_S:
            self._saved_at = now
            self._checkpoints.submit(self.state())
