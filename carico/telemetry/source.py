"""The one protocol of all that counters are read from: procfs, a cgroup, the metrics server, a recording."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from carico.telemetry.counters import Counters


class TelemetrySource(Protocol):
    """Where a node's counters come from; closed on leaving a `with`."""

    period_s: float
    """How often it is worth reading, seconds."""

    def read(self) -> Counters:
        """Return the latest reading; the same again, with the same `at_s`, while there is none that is newer.

        Raises
        ------
        TelemetryError
            If there is none.
        """
        ...

    def capture(self, thorough: bool = True) -> Callable[[], Counters]:
        """Read now, and return what gives the reading; what it takes to make sense of it may be left until then.

        One that need not be thorough may repeat what changes slowly from the latest one that was. Captures are looked
        at in the order in which they were made, and before anything is read at once.

        Raises
        ------
        TelemetryError
            If it cannot be read; what is returned raises it, too, where something else was read than it should be.
        """
        reading = self.read()
        return lambda: reading

    def close(self) -> None:
        """Give back what it holds; closing twice is fine."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
