"""What a node's pods cost, learned from what the node demands as a whole: a Kalman filter for one resource. Pure.

    demand = baseline + sum over workloads (number of pods x cost) + noise

The state consists of the baseline, which is the demand of the empty node and drifts (a random walk), and of the cost of
a pod of every workload. A cost fades back to what is assumed about an unknown workload (an Ornstein-Uhlenbeck process),
so that a workload that has not been observed for long is doubted again. What pods were seen to demand by themselves is
an observation of their workload's cost alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from carico.arrays import FloatArray
from carico.errors import InvalidState
from carico.saved import checked_array

MOST_WORKLOADS = 64
"""The most workloads that a node tells apart; a new one replaces the one that the node knows least about."""
BASELINE_VARIANCE = 1e3
"""Variance of the baseline before the first observation: as good as unknown."""


class Estimate(NamedTuple):
    """A number that is not known exactly."""

    mean: float
    variance: float


class Regression:
    """The baseline and the costs of one resource on one node.

    Parameters
    ----------
    first : Estimate
        What is assumed about an unknown workload, cores or GiB, and its variance.
    noise : float
        Standard deviation of the part of an observation that pods do not explain.
    drift : float
        Standard deviation of the baseline's drift per second.
    fade_s : float
        Time constant of forgetting, seconds.

    Examples
    --------
    >>> regression = Regression(Estimate(1.0, 1.0), noise=0.1, drift=0.0, fade_s=300.0)
    >>> for pods in (0, 2, 4, 0, 2, 4):
    ...     regression.learn({"pi": pods}, 0.3 + 0.5 * pods)
    >>> round(regression.cost("pi").mean, 2), round(regression.demand({"pi": 4}).mean, 2)
    (0.5, 2.3)
    """

    def __init__(self, first: Estimate, noise: float, drift: float, fade_s: float) -> None:
        self.first = first
        self._noise = noise**2
        self._drift = drift**2
        self._fade_s = fade_s
        self._rows: dict[str, int] = {}
        self._mean: FloatArray = np.zeros(1)
        self._covariance: FloatArray = np.full((1, 1), BASELINE_VARIANCE)

    @property
    def workloads(self) -> list[str]:
        """The workloads about which anything is known."""
        return list(self._rows)

    @property
    def baseline(self) -> Estimate:
        """The demand of the empty node."""
        return Estimate(float(self._mean[0]), float(self._covariance[0, 0]))

    def cost(self, workload: str) -> Estimate:
        """The demand of a pod of the workload."""
        row = self._rows.get(workload)
        if row is None:
            return self.first
        return Estimate(max(float(self._mean[row]), 0.0), float(self._covariance[row, row]))

    def costs(self) -> dict[str, Estimate]:
        """`cost` of all workloads about which anything is known."""
        means, variances = self._mean.tolist(), self._covariance.diagonal().tolist()
        return {name: Estimate(max(means[row], 0.0), variances[row]) for name, row in self._rows.items()}

    def demand(self, pods: Mapping[str, float]) -> Estimate:
        """The demand of the node with these numbers of pods, by workload."""
        design, mean, variance = self._design(pods)
        return Estimate(float(design @ self._mean) + mean, float(design @ self._covariance @ design) + variance)

    def exposure(self, pods: Mapping[str, float]) -> dict[str, float]:
        """By how much the demand of the node with these pods would change if their workloads' costs were other ones.

        Returns
        -------
        dict
            By workload of these pods, cores per core: from 0, where the demand is known although the cost is not, to
            the number of pods, where the demand is only known as far as the cost is.
        """
        names = [name for name in pods if name in self._rows]
        unknown = {name: float(number) for name, number in pods.items() if name not in self._rows}
        if not names:
            return unknown
        rows = [self._rows[name] for name in names]
        design, _, _ = self._design(pods)
        of_costs = self._covariance[np.ix_(rows, rows)]
        with_demand = self._covariance[rows] @ design
        found = np.linalg.lstsq(of_costs, with_demand, rcond=1e-9)[0].tolist()
        return unknown | {name: min(max(each, 0.0), pods[name]) for name, each in zip(names, found, strict=True)}

    def advance(self, elapsed_s: float, fade_s: Mapping[str, float] = MappingProxyType({})) -> None:
        """Let time pass: the baseline drifts, and costs fade.

        Parameters
        ----------
        elapsed_s : float
            Seconds.
        fade_s : mapping, optional
            Time constants of workloads that are forgotten more slowly than others, seconds.
        """
        kept = np.full(self._mean.size, math.exp(-elapsed_s / self._fade_s))
        kept[0] = 1.0
        for workload, slower_s in fade_s.items():
            if workload in self._rows:
                kept[self._rows[workload]] = math.exp(-elapsed_s / slower_s)
        self._mean = kept * self._mean
        self._mean[1:] += (1 - kept[1:]) * self.first.mean
        self._covariance = kept[:, None] * self._covariance * kept
        diagonal = np.einsum("ii->i", self._covariance)
        diagonal[0] = min(diagonal[0] + self._drift * elapsed_s, BASELINE_VARIANCE)
        diagonal[1:] += (1 - kept[1:] ** 2) * self.first.variance

    def learn(
        self, pods: Mapping[str, float], demand: float, censored: bool = False, extra_variance: float = 0.0
    ) -> None:
        """Take in an observation.

        Parameters
        ----------
        pods : mapping
            Mean number of pods during the observation, by workload.
        demand : float
            The node's demand, cores or GiB.
        censored : bool
            Whether the true demand may have been higher than observed: then the filter learns only from a demand above
            the expected one.
        extra_variance : float
            Variance of this observation beyond that of the usual noise.
        """
        for workload in pods:
            if workload not in self._rows:
                self._add(workload, pods)
        design, unknown, doubt = self._design(pods)
        surprise = demand - float(design @ self._mean) - unknown
        if censored and surprise < 0:
            return
        self._correct(design, surprise, self._noise + doubt + extra_variance)

    def learn_cost(self, workload: str, cost: float, noise: float, running: Collection[str] = ()) -> None:
        """Take in what pods of a workload were seen to demand on average, by themselves.

        Parameters
        ----------
        workload : str
            If there is no room for it beside the `running` ones, it stays unknown.
        cost : float
            Cores or GiB.
        noise : float
            Standard deviation of the difference from what pods of the workload cost.
        running : collection of str, optional
            The workloads that run, of which none is forgotten.
        """
        if workload not in self._rows:
            self._add(workload, running)
        row = self._rows.get(workload)
        if row is not None:
            design = np.zeros(self._mean.size)
            design[row] = 1.0
            self._correct(design, cost - float(self._mean[row]), noise**2)

    def forget(self, running: Collection[str] = ()) -> None:
        """Drop the workloads about which hardly anything is known any more, except `running` ones.

        Of these, what they demand together with the baseline is known, and would be news a second time.
        """
        mean, variance = self.first
        unknown = self._covariance.diagonal() > 0.99 * variance
        forgotten = unknown & (np.abs(self._mean - mean) < 0.1 * math.sqrt(variance))
        for workload in [name for name, row in self._rows.items() if forgotten[row] and name not in running]:
            self._drop(workload)

    def save(self) -> dict[str, Any]:
        """Return everything that was learned, as JSON values."""
        return {
            "workloads": self.workloads,
            "mean": self._mean.tolist(),
            "covariance": self._covariance.tolist(),
        }

    def restore(self, state: Mapping[str, Any], most: float) -> None:
        """Continue from what `save` returned; whether the names are those of workloads is not checked.

        Parameters
        ----------
        state : mapping
        most : float
            No mean can be further from 0, cores or GiB.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """
        names = state.get("workloads")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidState("the saved state lacks the names of its workloads: it is damaged; delete it")
        if len(set(names)) != len(names) or len(names) > MOST_WORKLOADS:
            raise InvalidState(
                f"the saved state names {len(names)} workloads, at most {MOST_WORKLOADS} different ones are known: "
                f"it is damaged; delete it"
            )
        size = 1 + len(names)
        mean, covariance = (
            checked_array(state, name, shape) for name, shape in (("mean", (size,)), ("covariance", (size, size)))
        )
        if np.abs(mean).max() > most:
            raise InvalidState(
                f"mean must be in [{-most:g}, {most:g}] on this node, got {mean[np.abs(mean).argmax()]:g}: "
                f"the saved state is damaged; delete it"
            )
        variances, largest = covariance.diagonal(), max(BASELINE_VARIANCE, self.first.variance)
        if not (variances.min() >= 0 and variances.max() <= largest):
            raise InvalidState(f"a variance is not in [0, {largest:g}]: the saved state is damaged; delete it")
        if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance).min() < -1e-6:
            raise InvalidState("covariance is not a covariance matrix: the saved state is damaged; delete it")
        self._rows = {name: row for row, name in enumerate(names, start=1)}
        self._mean, self._covariance = mean, (covariance + covariance.T) / 2

    def _correct(self, design: FloatArray, surprise: float, variance: float) -> None:
        """Take in an observation of `design` times the state: how far it is from what was expected, and its noise."""
        toward = self._covariance @ design
        gain = toward / (float(design @ toward) + variance)
        self._mean = self._mean + gain * surprise
        self._covariance = self._covariance - np.outer(gain, toward)
        self._covariance = (self._covariance + self._covariance.T) / 2

    def _design(self, pods: Mapping[str, float]) -> tuple[FloatArray, float, float]:
        """Return the vector that multiplies the state, and what unknown workloads add to mean and variance."""
        design = np.zeros(self._mean.size)
        design[0] = 1.0
        mean = variance = 0.0
        for workload, number in pods.items():
            row = self._rows.get(workload)
            if row is None:
                mean += number * self.first.mean
                variance += number**2 * self.first.variance
            else:
                design[row] = number
        return design, mean, variance

    def _add(self, workload: str, needed: Collection[str]) -> None:
        if len(self._rows) >= MOST_WORKLOADS:
            spare = [name for name in self._rows if name not in needed]
            if not spare:
                return  # it stays unknown: to forget another one that runs would be no better
            self._drop(max(spare, key=lambda name: float(self._covariance[self._rows[name], self._rows[name]])))
        size = self._mean.size
        self._rows[workload] = size
        self._mean = np.append(self._mean, self.first.mean)
        self._covariance = np.pad(self._covariance, (0, 1))
        self._covariance[size, size] = self.first.variance

    def _drop(self, workload: str) -> None:
        row = self._rows.pop(workload)
        self._mean = np.delete(self._mean, row)
        self._covariance = np.delete(np.delete(self._covariance, row, 0), row, 1)
        for name, other in self._rows.items():
            if other > row:
                self._rows[name] = other - 1
