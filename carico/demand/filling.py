"""How full a node may be, and how much memory must be left for a pod. Pure.

A node takes pods as long as its load is below its level, however large the pod: a CPU that is idle while a pod waits is
lost, and of a pod that fits in part only the rest has to share. The level is little
more than one thread a core: pods stop at any moment. It is two if everything that waits fits below that and would wait
for long otherwise, because hardly any pod stops: then nothing waits, and the last pods share CPUs instead. A pod that
demands more than half a node is kept out of that: it would halve the speed of all.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray
from carico.demand.settings import DemandVariant


def level(variant: DemandVariant, cores: FloatArray, pod_cores: float, *, share: bool) -> FloatArray:
    """Return to what load nodes are filled, cores.

    Parameters
    ----------
    variant : DemandVariant
    cores : array, (n,)
        CPUs of the nodes.
    pod_cores : float
        What the pod demands.
    share : bool
        Whether the pods that wait had better share CPUs than wait.
    """
    lower: FloatArray = cores + variant.headroom * np.sqrt(cores)
    if not share:
        return lower
    higher = np.maximum(lower, variant.threads_per_core * cores)
    return np.where(pod_cores <= variant.wide * cores, higher, lower)


def needed_gib(variant: DemandVariant, gib: FloatArray, variance: float, alike: FloatArray) -> FloatArray:
    """Return how much memory must be left for a pod of a workload, GiB.

    Parameters
    ----------
    variant : DemandVariant
    gib : array, (n,)
        What the pod holds at its peak, as far as each node knows.
    variance : float
        Of that, GiB².
    alike : array, (n,)
        Pods of the same workload whose doubt is counted already. Doubt grows with the square of their number, for they
        are all small or all large.
    """
    needed: FloatArray = gib + variant.caution * variance * (2 * alike + 1)
    return needed
