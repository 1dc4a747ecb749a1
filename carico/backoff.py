"""How long to wait after consecutive failures: exponential back-off with jitter and an upper bound.

Nothing here waits or counts failures. The jitter shortens a wait by at most half.
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
        Upper bounds of the first wait and of every wait, seconds.
    """

    first_s: float
    longest_s: float

    def wait_s(self, failures: int, rng: random.Random) -> float:
        """Return the next wait, seconds; the jitter keeps a thousand nodes from retrying at the same moment.

        Parameters
        ----------
        failures : int
            The number of consecutive failures, at least 1.
        rng : random.Random
            The standard library's generator: numpy's would cost an agent 3 MiB.
        """
        doubled = self.first_s * 2.0 ** min(failures - 1, 60)  # an unbounded exponent would overflow after years
        return min(doubled, self.longest_s) * rng.uniform(0.5, 1.0)
