"""How full a node may be, and whether a pod still fits. Pure.

Nodes are filled to a little more than their cores: pods end at any moment, and a CPU that waits for the next pod is
lost. They are filled to two threads a core if everything that waits fits below that: then nothing waits, and the last
pods share CPUs instead. A pod that demands more than half a node is kept out of that: it would halve the speed of all.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import BoolArray, FloatArray
from carico.demand.regression import Estimate
from carico.demand.settings import DemandVariant


def level(variant: DemandVariant, cores: FloatArray, pod_cores: float, *, all_fit: bool) -> FloatArray:
    """Return to what load nodes are filled, cores.

    Parameters
    ----------
    variant : DemandVariant
    cores : array, (n,)
        CPUs of the nodes.
    pod_cores : float
        What the pod demands.
    all_fit : bool
        Whether all pods that wait fit below the higher level.
    """
    lower: FloatArray = cores + variant.headroom * np.sqrt(cores)
    if not all_fit:
        return lower
    higher = np.maximum(lower, variant.threads_per_core * cores)
    return np.where(pod_cores <= variant.wide * cores, higher, lower)


def cpu_fits(variant: DemandVariant, room: FloatArray, cost: Estimate, alike: FloatArray) -> BoolArray:
    """Return whether a pod fits into so many cores.

    Parameters
    ----------
    variant : DemandVariant
    room : array, (n,)
        Cores between the nodes' loads and their levels.
    cost : Estimate
        What the pod demands.
    alike : array, (n,)
        Pods of the same workload whose doubt is counted already. Doubt grows with the square of their number, for they
        are all cheap or all dear.
    """
    fits: BoolArray = room >= variant.rounding * (cost.mean + variant.caution * cost.variance * (2 * alike + 1))
    return fits


def memory_fits(
    variant: DemandVariant, room: FloatArray, gib: FloatArray, variance: float, alike: FloatArray
) -> BoolArray:
    """Return whether a pod of `gib` fits into so much memory; the rest is as for `cpu_fits`, but nothing is rounded."""
    fits: BoolArray = room >= gib + variant.caution * variance * (2 * alike + 1)
    return fits
