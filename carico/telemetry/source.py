"""The protocol of all telemetry sources: procfs, a cgroup, the metrics server, a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from carico.telemetry.counters import Counters


class TelemetrySource(Protocol):
    """A source of a node's counters; closed on leaving a `with`."""

    period_s: float
    """The shortest useful time between two readings, seconds."""

    def read(self) -> Counters:
        """Return the latest reading; if there is no newer one, the same reading with the same `at_s` again.

        Raises
        ------
        TelemetryError
            If there is no reading.
        """
        ...

    def capture(self, thorough: bool = True) -> Callable[[], Counters]:
        """Read now, and return a function that parses and returns the reading.

        A capture that need not be thorough may repeat slowly changing values of the latest thorough one. Callers must
        call the returned functions in the order of the captures, and before the next `read`.

        Raises
        ------
        TelemetryError
            If the source cannot be read; the returned function raises it if the content is malformed.
        """
        reading = self.read()
        return lambda: reading

    def close(self) -> None:
        """Release files and connections; closing twice is fine."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SizedSource(TelemetrySource, Protocol):
    """A source that knows how many CPUs its node has."""

    def cpus(self) -> float:
        """Return how many CPUs the node has now; a quota may grant a fraction of a CPU.

        Raises
        ------
        TelemetryError
            If the number cannot be read.
        """
        ...
