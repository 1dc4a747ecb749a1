"""Time as a parameter: production uses the machine's clock, the simulation and the tests use clocks of their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time of a class."""

    def now(self) -> float:
        """Seconds since an arbitrary origin; never runs backwards."""
        ...

    def sleep_until(self, at: float) -> None:
        """Return at the time `at`, or immediately if it has passed."""
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
