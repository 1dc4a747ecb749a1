"""Kalman filters that learn a node's baseline signal and pod cost from its capacity signal (thesis §4.2.4).

All assume ``signal = baseline - cost * pods``. `DeltaKalman` sees changes only, `JointKalman` is the 2-D filter,
`DualKalman` two separate 1-D filters (the thesis's choice). They hold the state of one node, or arrays for many nodes,
and share these rules around the correction:

- the first usable sample initialises: a baseline of ``signal + cost * pods`` and a cost of `initial_cost` x signal;
- estimation halts at signal zero (a full resource hides further pods), on demand (hold-off) and on non-finite input;
- while no pod runs the cost drifts up to a ceiling, so that an unknown next job is met with caution (thesis §5.7);
- the cost never falls below a floor: a cost near zero would advertise room for any number of pods.

The signal has no fixed scale, so every noise is relative to the baseline: it is multiplied by baseline².
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, common_shape, numbers
from carico.errors import InvalidInput, InvalidState


@dataclass(frozen=True)
class KalmanSettings:
    """Constants of the filters. The thesis gives none of them; `docs/design.md` says where each comes from."""

    baseline_process_noise: float = 1e-3
    """Variance that the baseline gains per update, x baseline²."""
    cost_process_noise: float = 1e-4
    """Variance that the cost gains per update, x baseline². A faster cost collapses."""
    measurement_noise: float = 1e-2
    """Variance of a measured signal, x baseline²."""
    baseline_prior: float = 0.1
    """Variance of the first baseline, x baseline²."""
    cost_prior: float = 0.01
    """Variance of the first cost, x baseline²."""
    initial_cost: float = 0.5
    """First cost, x signal: a node that knows nothing advertises 1 / 0.5 = 2 pods."""
    cost_floor: float = 0.05
    """Lowest cost, x baseline: at most 20 pods a node."""
    cost_ceiling: float = 0.5
    """Where the idle drift ends, x baseline."""
    cost_limit: float = 0.9
    """Highest cost while no pod runs, x baseline. At 1 or more an idle node would advertise less than one pod, so that
    no pod would come from which it could learn better: a falling baseline would starve it for ever."""
    idle_drift: float = 1.02
    """Factor on the cost per update while no pod runs."""
    full_signal: float = 1e-3
    """A signal at or below this counts as zero: relative to the baseline here, in average workloads in `NodeModel`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (np.isfinite(value) and value > 0):
                raise InvalidInput(f"{name} must be positive and finite, got {value}")
        if not self.cost_floor <= self.cost_ceiling <= self.cost_limit < 1:
            raise InvalidInput(
                f"cost_floor <= cost_ceiling <= cost_limit < 1 is needed, "
                f"got {self.cost_floor}, {self.cost_ceiling} and {self.cost_limit}"
            )


_LARGEST = 1e50
"""Larger than any estimate, and small enough that no result computed from it overflows."""
_ORDINARY = (1e-100, 1e100)
"""Signals outside count as zero or as infinite: variances are their squares, which would underflow or overflow."""
_SMALLEST = 1e-120
"""Smaller than any baseline of ordinary signals; its square still does not vanish."""


class CostEstimator(ABC):
    """What the three filters share: initialisation, halting, idle drift and floor.

    Parameters
    ----------
    settings : KalmanSettings, optional

    Examples
    --------
    >>> estimator = DualKalman()
    >>> for pods in [0] * 5 + [1, 2, 3, 4] * 20:
    ...     estimator.update(5.0 - 0.4 * pods, pods)
    >>> round(float(estimator.baseline), 2), round(float(estimator.cost), 2)
    (5.0, 0.4)
    """

    def __init__(self, settings: KalmanSettings | None = None) -> None:
        self.settings = settings or KalmanSettings()
        nothing = np.array(np.nan)
        self._state: dict[str, FloatArray] = dict.fromkeys(self._fields(), nothing)

    @property
    def baseline(self) -> FloatArray:
        """Estimated signal with no pod running; NaN before the first usable sample."""
        return self._state["baseline"][()]

    @property
    def cost(self) -> FloatArray:
        """Estimated drop of the signal per pod, not below the floor; NaN before the first usable sample."""
        return np.maximum(self._state["cost"], self.settings.cost_floor * self._state["baseline"])[()]

    def update(
        self, signal: ArrayLike, pods: ArrayLike, hold_off: ArrayLike = False, empty: ArrayLike = np.nan
    ) -> None:
        """Learn from one sample of every node.

        Parameters
        ----------
        signal : array_like, shape (...)
            Capacity signal; nodes where it is NaN, infinite or zero, or where its square would overflow or underflow,
            learn nothing this time.
        pods : array_like, shape (...)
            Running pods; nodes where it is negative or not finite learn nothing.
        hold_off : array_like of bool
            True where estimation is to halt.
        empty : array_like
            Signal of an empty node, where that is known. It bootstraps a filter whose first sample finds pods running:
            together, these pods account for the difference.

        Raises
        ------
        InvalidInput
            If the shapes do not broadcast or, together, are not the shape of the first usable sample.
        """
        k, n, halted = numbers("signal", signal), numbers("pods", pods), np.asarray(hold_off, dtype=bool)
        known_empty = numbers("empty", empty)
        shape = common_shape("signal, pods, hold_off and empty", k.shape, n.shape, halted.shape, known_empty.shape)
        if self._state["baseline"].shape != shape:
            if not np.isnan(self._state["baseline"]).all():
                raise InvalidInput(f"samples must keep the shape {self._state['baseline'].shape}, got {shape}")
            self._state = dict.fromkeys(self._state, np.full(shape, np.nan))
        lowest, highest = _ORDINARY
        usable = np.broadcast_to(~halted & (k >= lowest) & (k <= highest) & (n >= 0) & (n < np.inf), shape)
        k, n = np.where(usable, k, np.nan), np.where(usable, n, np.nan)
        known = ~np.isnan(self._state["baseline"])
        # Numbers that are computed and then not selected must not warn.
        with np.errstate(invalid="ignore", divide="ignore"):
            fresh = usable & ~known
            if fresh.any():
                self._initialise(fresh, k, n, known_empty)
            learning = usable & known & (k > self.settings.full_signal * self._state["baseline"])
            self._correct(learning, k, n)
            self._drift(learning & (n == 0))

    def save(self) -> dict[str, FloatArray]:
        """The filter's state as named arrays (copies)."""
        return {name: array.copy() for name, array in self._state.items()}

    def restore(self, state: Mapping[str, ArrayLike]) -> None:
        """Continue from what `save` returned.

        Raises
        ------
        InvalidState
            If the arrays are those of another kind of filter, differ in shape or hold what no filter learns; nothing
            is changed then.
        """
        if set(state) != set(self._state):
            raise InvalidState(
                f"the saved estimator holds {sorted(state)}, this one {sorted(self._state)}: "
                f"it was saved by another kind of filter; delete it"
            )
        try:
            arrays = {name: numbers(name, state[name]).copy() for name in self._state}
        except InvalidInput as error:
            raise InvalidState(f"the state is damaged, delete it: {error}") from error
        if len({array.shape for array in arrays.values()}) != 1:
            raise InvalidState("the saved estimator's arrays differ in shape: the state is damaged; delete it")
        unknown = np.isnan(arrays["baseline"])
        least = {"baseline": _SMALLEST, "baseline_variance": 0.0, "cost_variance": 0.0}
        for name, array in arrays.items():
            sound = (array >= least.get(name, -_LARGEST)) & (array <= _LARGEST) | np.isnan(array)
            if not sound.all() or (np.isnan(array) != unknown).any():
                raise InvalidState(f"the saved {name} holds what no filter learns: the state is damaged; delete it")
        if "covariance" in arrays:
            bound = np.sqrt(arrays["baseline_variance"]) * np.sqrt(arrays["cost_variance"])
            if (np.abs(arrays["covariance"]) > bound * (1 + 1e-6)).any():
                raise InvalidState("the saved covariance is no covariance: the state is damaged; delete it")
        self._state = arrays

    @staticmethod
    def _fields() -> tuple[str, ...]:
        return ("baseline", "cost", "baseline_variance", "cost_variance")

    @abstractmethod
    def _correct(self, learning: BoolArray, k: FloatArray, n: FloatArray) -> None:
        """Apply the filter's own update where `learning`."""

    def _set(self, where: BoolArray, **values: FloatArray) -> None:
        for name, value in values.items():
            self._state[name] = np.where(where, value, self._state[name])

    def _initialise(self, fresh: BoolArray, k: FloatArray, n: FloatArray, empty: FloatArray) -> None:
        settings = self.settings
        cost = settings.initial_cost * k
        baseline = k + cost * n
        # With pods running, the baseline is a guess, and as wrong as the cost is.
        doubt = (cost * n) ** 2
        informed = (n > 0) & (empty > k) & (empty <= _ORDINARY[1])
        baseline = np.where(informed, empty, baseline)
        cost = np.where(informed, (empty - k) / np.maximum(n, 1), cost)
        self._set(
            fresh,
            baseline=baseline,
            cost=cost,
            baseline_variance=settings.baseline_prior * baseline**2 + np.where(informed, 0.0, doubt),
            cost_variance=settings.cost_prior * baseline**2,
        )

    def _drift(self, where: BoolArray) -> None:
        """Let the cost rise to its ceiling, and hold it below its limit."""
        settings, baseline, cost = self.settings, self._state["baseline"], self.cost
        drifted = np.maximum(cost, np.minimum(settings.idle_drift * cost, settings.cost_ceiling * baseline))
        self._set(where, cost=np.minimum(drifted, settings.cost_limit * baseline))


class DualKalman(CostEstimator):
    """Two 1-D filters (the thesis's choice): the baseline learns while no pod runs, the cost while pods run.

    Without a covariance, an error is never split between baseline and cost; such splitting makes the joint filter
    oscillate.
    """

    def _correct(self, learning: BoolArray, k: FloatArray, n: FloatArray) -> None:
        settings, state = self.settings, self._state
        scale = state["baseline"] ** 2
        noise = settings.measurement_noise * scale

        idle = learning & (n == 0)
        variance = state["baseline_variance"] + settings.baseline_process_noise * scale
        gain = variance / (variance + noise)
        baseline = state["baseline"] + gain * (k - state["baseline"])
        self._set(idle, baseline=baseline, baseline_variance=(1 - gain) * variance)

        busy = learning & (n > 0)
        variance = state["cost_variance"] + settings.cost_process_noise * scale
        gain = variance / (variance + noise)
        measured = (state["baseline"] - k) / np.maximum(n, 1)
        cost = state["cost"] + gain * (measured - state["cost"])
        # The cost is not fed back into the baseline, so the floor may be applied to the state itself: the cost then
        # leaves the floor sooner.
        lowest = settings.cost_floor * state["baseline"]
        self._set(busy, cost=np.maximum(cost, lowest), cost_variance=(1 - gain) * variance)


class JointKalman(CostEstimator):
    """One 2-D filter of (baseline, cost) with measurement matrix H = [1, -pods]."""

    @staticmethod
    def _fields() -> tuple[str, ...]:
        return ("baseline", "cost", "baseline_variance", "cost_variance", "covariance")

    def _initialise(self, fresh: BoolArray, k: FloatArray, n: FloatArray, empty: FloatArray) -> None:
        super()._initialise(fresh, k, n, empty)
        self._set(fresh, covariance=np.zeros_like(k))

    def _correct(self, learning: BoolArray, k: FloatArray, n: FloatArray) -> None:
        settings, state = self.settings, self._state
        scale = state["baseline"] ** 2
        p_bb = state["baseline_variance"] + settings.baseline_process_noise * scale
        p_cc = state["cost_variance"] + settings.cost_process_noise * scale
        p_bc = state["covariance"]
        innovation = k - (state["baseline"] - n * state["cost"])
        # P Hᵀ and S = H P Hᵀ + R for H = [1, -n], written out; P - P Hᵀ S⁻¹ H P as well, in the form without
        # differences of large numbers, so that a variance cannot become negative.
        r = settings.measurement_noise * scale
        ph_b, ph_c = p_bb - n * p_bc, p_bc - n * p_cc
        s = ph_b - n * ph_c + r
        gain_b, gain_c = ph_b / s, ph_c / s
        determinant = np.maximum(p_bb * p_cc - p_bc**2, 0.0)
        self._set(
            learning,
            # Always positive, and never tiny beside the signal: the noises are relative to the baseline.
            baseline=np.maximum(state["baseline"] + gain_b * innovation, settings.full_signal * k),
            cost=state["cost"] + gain_c * innovation,
            baseline_variance=(n**2 * determinant + r * p_bb) / s,
            cost_variance=(determinant + r * p_cc) / s,
            covariance=(n * determinant + r * p_bc) / s,
        )


class DeltaKalman(CostEstimator):
    """One 1-D filter of the cost from changes: Δsignal = -cost x Δpods.

    It cannot estimate a baseline (thesis §4.2.4); `baseline` is the last signal extrapolated to zero pods,
    ``signal + cost * pods``, and its variance follows from the cost's.
    """

    @staticmethod
    def _fields() -> tuple[str, ...]:
        return ("baseline", "cost", "baseline_variance", "cost_variance", "last_signal", "last_pods")

    def _initialise(self, fresh: BoolArray, k: FloatArray, n: FloatArray, empty: FloatArray) -> None:
        super()._initialise(fresh, k, n, empty)
        self._set(fresh, last_signal=k, last_pods=n)

    def _correct(self, learning: BoolArray, k: FloatArray, n: FloatArray) -> None:
        settings, state = self.settings, self._state
        scale = state["baseline"] ** 2
        change = n - state["last_pods"]
        changed = learning & (change != 0)
        variance = state["cost_variance"] + settings.cost_process_noise * scale
        gain = change * variance / (change**2 * variance + settings.measurement_noise * scale)
        innovation = (state["last_signal"] - k) - change * state["cost"]
        cost = np.maximum(state["cost"] + gain * innovation, 0.0)
        self._set(changed, cost=cost, cost_variance=(1 - gain * change) * variance)
        self._set(
            learning,
            baseline=k + self._state["cost"] * n,
            baseline_variance=self._state["cost_variance"] * n**2 + settings.measurement_noise * scale,
            last_signal=k,
            last_pods=n,
        )


ESTIMATORS: dict[str, type[CostEstimator]] = {"delta": DeltaKalman, "joint": JointKalman, "dual": DualKalman}
"""The filters by the names that variants use."""
