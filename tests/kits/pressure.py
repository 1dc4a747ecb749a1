"""Pressure stall information as /proc/pressure/cpu averages it: `avg10` from the growth of `total` (thesis §2.3)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import FloatArray

UPDATE_S = 2.0
"""How often the kernel updates its averages (psi.c: PSI_FREQ)."""


def avg10(stalled: ArrayLike, samples_per_s: int = 10, window_s: float = 10.0) -> FloatArray:
    """Return the running average that the kernel would show after every sample.

    Parameters
    ----------
    stalled : array_like, shape (samples,)
        Share of every sampling period in which a task waited, in [0, 1].
    samples_per_s : int
        The kernel's update period of 2 s must be a whole number of samples.
    window_s : float
        Time constant: 10, 60 or 300 s.

    Examples
    --------
    >>> shown = avg10(np.ones(200))
    >>> shown[[18, 19, 99]].round(3).tolist()
    [0.0, 0.181, 0.632]
    """
    samples = np.asarray(stalled, dtype=np.float64)
    per_update = round(UPDATE_S * samples_per_s)
    kept = math.exp(-UPDATE_S / window_s)
    shown = np.zeros(samples.size)
    average = 0.0
    for end in range(per_update, samples.size + 1, per_update):
        average = kept * average + (1.0 - kept) * float(samples[end - per_update : end].mean())
        shown[end - 1 :] = average
    return shown
