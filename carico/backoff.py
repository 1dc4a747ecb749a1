"""How long to wait after failures in a row: doubling, with jitter, up to a bound.

Nothing here waits or counts failures. No wait is shorter than half of what doubling gives.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waits between attempts.

    Parameters
    ----------
    first_s, longest_s : float
        The longest that the first wait may be, and any wait, seconds.
    """

    first_s: float
    longest_s: float

    def wait_s(self, failures: int, rng: random.Random) -> float:
        """Return the next wait, seconds; the jitter keeps a thousand nodes from coming back at once.

        Parameters
        ----------
        failures : int
            In a row, at least 1.
        rng : random.Random
            The standard library's: numpy's would cost an agent 3 MiB.
        """
        doubled = self.first_s * 2.0 ** min(failures - 1, 60)  # an unbounded exponent would overflow after years
        return min(doubled, self.longest_s) * rng.uniform(0.5, 1.0)
