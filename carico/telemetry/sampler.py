"""Samples a node: reads its counters at absolute deadlines and computes the telemetry between the readings.

A late reading does not delay the following ones, and telemetry covers the true interval between two readings. A missed
deadline is skipped and counted. After a restart of the machine, sampling continues with the next reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from carico.arrays import finite
from carico.clock import Clock
from carico.errors import CounterWentBackwards
from carico.telemetry.counters import Counters, Telemetry, consecutive, telemetry_between
from carico.telemetry.source import TelemetrySource

_SHORTEST_PERIOD_S = 1e-3


@dataclass(frozen=True, eq=False)
class Batch:
    """Readings of consecutive deadlines and the telemetry between them."""

    readings: Sequence[Counters]
    """The last new reading before the batch, if any, and the new readings of the batch."""
    samples: Telemetry | None
    """Telemetry between each reading and the next, as arrays of shape (n - 1,) for n readings; None if there are fewer
    than two readings, or the machine was restarted between two of them."""

    @property
    def whole(self) -> Telemetry:
        """Telemetry between the first reading and the last; only for a batch with samples."""
        return telemetry_between(self.readings[0], self.readings[-1])


class Sampler:
    """Samples one node.

    Parameters
    ----------
    source : TelemetrySource
        The node's counters; the sampler does not close the source.
    clock : Clock
        The clock of the deadlines.
    period_s : float
        Time between two deadlines, seconds, at least 0.001.

    Raises
    ------
    InvalidInput
        If the period is too short or not a number.

    Examples
    --------
    >>> from carico.clock import SystemClock
    >>> from carico.telemetry.procfs import ProcfsSource
    >>> with ProcfsSource() as source:
    ...     sampler = Sampler(source, SystemClock())
    ...     first, batch = sampler.next_batch(5), sampler.next_batch(5)
    >>> first.samples is None  # a rate needs two readings
    True
    >>> len(batch.samples.cpu_utilisation) <= 5  # fewer, where the machine was too busy to read in time
    True
    """

    def __init__(self, source: TelemetrySource, clock: Clock, period_s: float = 0.1) -> None:
        finite("period_s", period_s, low=_SHORTEST_PERIOD_S)
        self._source = source
        self._clock = clock
        # Deadlines are divided by the frequency, which rounds better: 3 / 10.0 is 0.3, 3 * 0.1 is not.
        self._per_s = 1.0 / period_s
        self._first_due, self._begun = 0.0, False
        self._latest: Counters | None = None
        self.last_read: Counters
        """The reading at the latest deadline, new or not; unset before the first deadline."""
        self.tick = 0
        """Number of the latest deadline; the first deadline, number 0, is immediate."""
        self.missed = 0
        """How many deadlines were missed and skipped."""

    @property
    def due(self) -> float:
        """The latest deadline, seconds of the clock."""
        return self._first_due + self.tick / self._per_s

    def start(self) -> Counters:
        """Read immediately and return the reading; deadlines count from now on.

        Raises
        ------
        TelemetryError
            If the source cannot be read.
        """
        self._begun = False
        self._wait()
        self._latest = self.last_read = self._source.read()
        return self._latest

    def next_batch(self, size: int, ended: Callable[[], bool] = lambda: False) -> Batch | None:
        """Read at every deadline up to the next one whose number is a multiple of `size`, or the first one after it.

        The first call reads once, immediately. Readings are parsed together after the last deadline, because parsing
        each of them after a sleep, with cold processor caches, costs several times as much. The last reading is
        thorough, see `TelemetrySource.capture`.

        Parameters
        ----------
        size : int
            Number of deadlines in a batch.
        ended : callable, optional
            Called before every wait; when it returns true, the batch is abandoned.

        Returns
        -------
        Batch or None
            None if the batch was abandoned.

        Raises
        ------
        TelemetryError
            If the source cannot be read; the deadline counts as used.
        """
        due = (self.tick // size + 1) * size if self._begun else 0
        captures: list[Callable[[], Counters]] = []
        while not captures or self.tick < due:
            if ended():
                return None
            self._wait()
            captures.append(self._source.capture(self.tick >= due))
        readings = [] if self._latest is None else [self._latest]
        readings += [reading for capture in captures if (reading := self._if_new(capture())) is not None]
        return Batch(readings, _series(readings))

    def next_reading(self) -> Counters | None:
        """Wait for the next deadline and return the reading, or None if it is not new; the first deadline is immediate.

        Raises
        ------
        TelemetryError
            If the source cannot be read; the deadline counts as used.
        """
        self._wait()
        return self._if_new(self._source.read())

    def _if_new(self, reading: Counters) -> Counters | None:
        self.last_read = reading
        # The source may have no newer reading. After a late wake-up, two deadlines may also fall into one jiffy, which
        # leaves the utilisation between them unknown.
        if self._latest is not None and reading.cpu_total == self._latest.cpu_total:
            return None
        self._latest = reading
        return reading

    def _wait(self) -> None:
        """Wait for the next deadline; the first one is immediate."""
        if not self._begun:
            self._first_due, self.tick, self._begun = self._clock.now(), 0, True
            return
        passed = int((self._clock.now() - self._first_due) * self._per_s)
        tick = max(self.tick, passed) + 1
        self.missed += tick - self.tick - 1
        self.tick = tick
        self._clock.sleep_until(self.due)


def _series(readings: Sequence[Counters]) -> Telemetry | None:
    if len(readings) < 2:
        return None
    try:
        return telemetry_between(*consecutive(readings))
    except CounterWentBackwards:  # the machine or the container was restarted
        return None
