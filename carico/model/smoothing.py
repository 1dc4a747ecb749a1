"""Dynamic exponential moving average (thesis §4.2.2): slow on container-churn spikes, fast on real changes.

A container event spikes the telemetry for about 200 ms. At 10 Hz that is two or three samples, which the slow factor
suppresses; a deviation that outlasts `patience` samples is a real change and is followed with the fast one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, IntArray, common_shape, finite, numbers
from carico.errors import InvalidInput


class DynamicEma:
    """s ← s + α (x - s); α is fast once x - s exceeds the threshold, one way, more than `patience` times in a row.

    Each element of a sample is filtered by itself: a spike of one resource does not make another one follow faster.

    Parameters
    ----------
    alpha_slow, alpha_fast : float
        Smoothing factors in (0, 1] per sample. The thesis gives none; `docs/design.md` explains these values.
    threshold : float
        Deviation that counts as a change, in units of the sample.
    patience : int
        Samples in a row that may deviate before the fast factor takes over; 3 at 10 Hz are 300 ms.

    Raises
    ------
    InvalidInput
        If a factor is outside (0, 1], the threshold negative, or the patience negative.
    """

    def __init__(
        self, alpha_slow: float = 0.1, alpha_fast: float = 0.5, threshold: float = 0.05, patience: int = 3
    ) -> None:
        for name, alpha in (("alpha_slow", alpha_slow), ("alpha_fast", alpha_fast)):
            if not 0 < alpha <= 1:
                raise InvalidInput(f"{name} must be in (0, 1], got {alpha}")
        if not threshold >= 0 or patience < 0:
            raise InvalidInput(f"threshold and patience must not be negative, got {threshold} and {patience}")
        self.alpha_slow = alpha_slow
        self.alpha_fast = alpha_fast
        self.threshold = threshold
        self.patience = patience
        self.value: FloatArray | None = None
        """The smoothed sample; None before the first call, NaN where nothing was received yet."""
        self.deviating: IntArray | None = None
        """How many samples in a row each element has deviated, negative if downwards."""

    def update(self, sample: ArrayLike, received: ArrayLike = True) -> FloatArray:
        """Take a sample in and return the smoothed value, of the sample's shape.

        Parameters
        ----------
        sample : array_like
            Any shape, the same at every call.
        received : array_like of bool
            False where this sample was lost: the state stays as it is there, and an element starts from the first
            value it received. Broadcasts to the sample.

        Raises
        ------
        InvalidInput
            If a received value is not finite or the shape changed; the state is untouched then.
        """
        arrived: BoolArray = np.asarray(received, dtype=bool)
        x = numbers("sample", sample)
        if common_shape("received and sample", arrived.shape, x.shape) != x.shape:
            raise InvalidInput(f"received must broadcast to the sample's shape {x.shape}, got {arrived.shape}")
        if self.value is not None and x.shape != self.value.shape:
            raise InvalidInput(f"samples must keep their shape {self.value.shape}, got {x.shape}")
        x = finite("sample", x if arrived.all() else np.where(arrived, x, 0.0))
        if self.value is None or self.deviating is None:
            self.value, self.deviating = np.where(arrived, x, np.nan), np.zeros(x.shape, dtype=np.int64)
            return self.value.copy()
        return self.advance(x, arrived).copy()

    def advance(self, x: FloatArray, arrived: BoolArray) -> FloatArray:
        """Take in a sample that is already checked and has the shape of the last one; see `update`."""
        assert self.value is not None
        assert self.deviating is not None
        # The first value is taken as it is: there is nothing that it could deviate from.
        value = np.where(np.isnan(self.value), x, self.value)
        gap = x - value
        # Deviations count in one direction: the way back from a spike does not continue the spike.
        direction = (gap > self.threshold).astype(np.int64) - (gap < -self.threshold)
        deviating = np.where(self.deviating * direction > 0, self.deviating, 0) + direction
        alpha = np.where(np.abs(deviating) > self.patience, self.alpha_fast, self.alpha_slow)
        self.value = np.where(arrived, value + alpha * gap, self.value)
        self.deviating = np.where(arrived, deviating, self.deviating)
        return self.value

    def follow(self, samples: FloatArray) -> FloatArray:
        """Take in several samples, all checked and received, in order; the same as repeated `advance`.

        For the few numbers of one node, plain floats take a tenth of numpy's time and give the same results.

        Parameters
        ----------
        samples : ndarray, shape (n, d)
            The filter's samples must have the shape (1, d).

        Returns
        -------
        ndarray, shape (n, d)
            The smoothed values after each.
        """
        assert self.value is not None
        assert self.deviating is not None
        smoothed = np.empty_like(samples)
        for element in range(samples.shape[1]):
            value, deviating = float(self.value[0, element]), int(self.deviating[0, element])
            for number, x in enumerate(samples[:, element].tolist()):
                gap = 0.0 if math.isnan(value) else x - value
                direction = (gap > self.threshold) - (gap < -self.threshold)
                deviating = (deviating if deviating * direction > 0 else 0) + direction
                alpha = self.alpha_fast if abs(deviating) > self.patience else self.alpha_slow
                value = x if math.isnan(value) else value + alpha * gap
                smoothed[number, element] = value
            self.value[0, element], self.deviating[0, element] = value, deviating
        return smoothed
