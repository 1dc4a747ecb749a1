"""How full a node may be, and how much of a pod must fit. Pure.

Nodes are filled to a little more than their cores: pods end at any moment, and a CPU that waits for the next pod is
lost. They are filled to two threads a core if everything that waits fits below that: then nothing waits, and the last
pods share CPUs instead. A pod that demands more than half a node is kept out of that: it would halve the speed of all.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray
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


def needed_cores(variant: DemandVariant, cost: Estimate, alike: FloatArray) -> FloatArray:
    """Return how many cores must be left below the level for a pod.

    Parameters
    ----------
    variant : DemandVariant
    cost : Estimate
        What the pod demands.
    alike : array, (n,)
        Pods of the same workload whose doubt is counted already. Doubt grows with the square of their number, for they
        are all cheap or all dear.
    """
    needed: FloatArray = variant.rounding * (cost.mean + variant.caution * cost.variance * (2 * alike + 1))
    return needed


def needed_gib(variant: DemandVariant, gib: FloatArray, variance: float, alike: FloatArray) -> FloatArray:
    """Return how much memory must be left for a pod of `gib`; otherwise as `needed_cores`, but nothing is rounded."""
    needed: FloatArray = gib + variant.caution * variance * (2 * alike + 1)
    return needed
