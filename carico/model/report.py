"""The result of a node model's step: the numbers that an agent reports, and numbers that explain them."""

from __future__ import annotations

from dataclasses import dataclass

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.model.subspace import Subspace


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a step: arrays in the order of the requested nodes, or scalars for a model of one node."""

    at_s: float
    usage: FloatArray
    """Smoothed usage y, shape (..., d)."""
    capacity_signal: FloatArray
    """k in workload units; `inf` while no workload is known."""
    baseline: FloatArray
    """Estimated k of the idle node, in units of the current average workload; NaN while unknown."""
    pod_cost: FloatArray
    """Estimated drop of k per pod, in units of the current average workload; NaN while unknown."""
    pods: IntArray
    """Running pods."""
    pod_capacity: FloatArray
    """How many more pods the node can take: what the scheduler acts on."""
    exchange_due: BoolArray
    """True where the node's own subspace has drifted from the one last exchanged (thesis §4.1)."""
    subspace: Subspace
    """The node's own model: what an exchange sends."""


def first_of(report: Report) -> Report:
    """The report of the only node, without the node axis."""
    return Report(
        at_s=report.at_s,
        usage=report.usage[0],
        capacity_signal=report.capacity_signal[0],
        baseline=report.baseline[0],
        pod_cost=report.pod_cost[0],
        pods=report.pods[0],
        pod_capacity=report.pod_capacity[0],
        exchange_due=report.exchange_due[0],
        subspace=Subspace.unchecked(report.subspace.basis[0], report.subspace.singular_values[0]),
    )
