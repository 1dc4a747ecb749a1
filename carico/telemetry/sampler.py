"""Readings of a source on absolute deadlines, and the telemetry between them: the one loop that samples a node.

A sample that is late delays none after it and is divided by its true interval; a deadline that has passed is left out,
not caught up. Whatever goes wrong short of an error of the source is counted, and the next sample is a good one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from carico.arrays import finite
from carico.clock import Clock
from carico.errors import CounterWentBackwards
from carico.telemetry.counters import Counters, Telemetry, consecutive, telemetry_between
from carico.telemetry.source import TelemetrySource

_SHORTEST_PERIOD_S = 1e-3


class Sampler:
    """Samples one node.

    Parameters
    ----------
    source : TelemetrySource
        What is read; the sampler does not close it.
    clock : Clock
        Gives the deadlines.
    period_s : float
        Between two deadlines, seconds, at least 0.001.

    Raises
    ------
    InvalidInput
        If the period is too short or no number.

    Examples
    --------
    >>> from carico.clock import SystemClock
    >>> from carico.telemetry.procfs import ProcfsSource
    >>> with ProcfsSource() as source:
    ...     sample = next(Sampler(source, SystemClock()).samples())
    >>> bool(0 <= sample.cpu_utilisation <= 1)
    True
    """

    def __init__(self, source: TelemetrySource, clock: Clock, period_s: float = 0.1) -> None:
        finite("period_s", period_s, low=_SHORTEST_PERIOD_S)
        self._source = source
        self._clock = clock
        # Deadlines are multiples of the frequency: 3 / 10.0 is 0.3, 3 * 0.1 is not.
        self._per_s = 1.0 / period_s
        self._first_due, self._begun = 0.0, False
        self._latest: Counters | None = None
        self.last_read: Counters
        """What was read at the latest deadline, whether new or not; there is none before the first one."""
        self.tick = 0
        """Number of the latest deadline; the first reading is due at once and has 0."""
        self.missed = 0
        """Deadlines that were left out."""
        self.unchanged = 0
        """Readings that told nothing new."""
        self.restarts = 0
        """Readings with a counter below the one before: the machine, or the container, was restarted."""

    @property
    def due(self) -> float:
        """The latest deadline, seconds of the clock."""
        return self._first_due + self.tick / self._per_s

    def start(self) -> Counters:
        """Return a first reading, made at once; the deadlines begin here.

        Raises
        ------
        TelemetryError
            If the source cannot be read.
        """
        self._begun = False
        self._wait()
        self._latest = self.last_read = self._source.read()
        return self._latest

    def captures_until(self, last: int, ended: Callable[[], bool] = lambda: False) -> list[Callable[[], Counters]]:
        """Read at one deadline after the other up to number `last`, or the first one after it if that is missed.

        What each capture returns gives the reading, to `taken`; the last one is thorough, see
        `TelemetrySource.capture`. The first call begins with a reading at once, of number 0.

        Parameters
        ----------
        last : int
            The first deadline has number 0, the next one, a period later, 1.
        ended : callable, optional
            Asked before every wait whether to return without it.

        Raises
        ------
        TelemetryError
            If the source cannot be read; the deadline has passed then.
        """
        captures = []
        while not self._begun or (self.tick < last and not ended()):
            self._wait()
            captures.append(self._source.capture(self.tick >= last))
        return captures

    def taken(self, capture: Callable[[], Counters]) -> Counters | None:
        """Return the reading that a capture gives; None if it tells nothing new.

        Raises
        ------
        TelemetryError
            If something else was read than should be.
        """
        self.last_read = current = capture()
        # A source may have nothing newer. And after a late wake-up the next deadline may fall into the same jiffy,
        # which says nothing of utilisation.
        if self._latest is not None and current.cpu_total == self._latest.cpu_total:
            self.unchanged += 1
            return None
        self._latest = current
        return current

    def next_reading(self) -> Counters | None:
        """Wait for the next deadline and return what is read then; None if it tells nothing new.

        The first call waits for nothing.

        Raises
        ------
        TelemetryError
            If the source cannot be read; the deadline has passed then.
        """
        self._wait()
        return self.taken(self._source.read)

    def next_sample(self) -> Telemetry | None:
        """Wait for the next deadline and return what happened since the last sample; None if that cannot be told.

        The first call makes a first reading, so that there is something to compare with.

        Raises
        ------
        TelemetryError
            If the source cannot be read.
        """
        previous = self._latest or self.start()
        current = self.next_reading()
        return None if current is None else self._between(previous, current)

    def series(self, readings: Sequence[Counters]) -> Telemetry | None:
        """Return what happened between each of n readings and the next, as arrays of shape (n - 1,).

        None if the machine was restarted meanwhile.
        """
        return self._between(*consecutive(readings))

    def _between(self, previous: Counters, current: Counters) -> Telemetry | None:
        try:
            return telemetry_between(previous, current)
        except CounterWentBackwards:
            self.restarts += 1
            return None

    def _wait(self) -> None:
        """Until the next deadline; the first one is now."""
        if not self._begun:
            self._first_due, self.tick, self._begun = self._clock.now(), 0, True
            return
        passed = int((self._clock.now() - self._first_due) * self._per_s)
        tick = max(self.tick, passed) + 1
        self.missed += tick - self.tick - 1
        self.tick = tick
        self._clock.sleep_until(self.due)

    def samples(self) -> Iterator[Telemetry]:
        """Yield sample after sample, without end.

        Raises
        ------
        TelemetryError
            If the source cannot be read.
        """
        return (sample for _ in count() if (sample := self.next_sample()) is not None)
