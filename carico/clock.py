"""Time as a parameter: production reads the machine's clock, simulation and tests read their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a class gets its time from."""

    def now(self) -> float:
        """Seconds since an arbitrary origin; never runs backwards."""
        ...

    def sleep_until(self, at: float) -> None:
        """Return at the time `at`, at once if it has passed."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()

    def sleep_until(self, at: float) -> None:
        """Sleep until the monotonic clock shows `at`."""
        delay = at - time.monotonic()
        if delay > 0:
            time.sleep(delay)
