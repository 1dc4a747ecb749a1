"""How full a node may be, and how much memory must be left for a pod. Pure.

A node takes pods as long as its load is below its level, however large the pod is: a CPU that is idle while a pod waits
is lost, and if a pod fits only in part, only the excess has to share CPUs. The lower level is little more than one
thread per core, because pods stop at any moment. The higher level is two threads per core. It applies if everything
that waits fits below it and would otherwise wait for long, because hardly any pod stops: then nothing waits, and the
last pods share CPUs instead. A pod that demands more than half a node is never placed above the lower level, because it
would halve the speed of all. If such a pod has several threads and only such pods wait, it waits for a gap: a part of
it must fit below the lower level, lest two programs share CPUs all the time to use the little that one leaves idle.
`scheduler` says when the wait would be in vain.

A node with a latency-critical pod takes only pods that fit as a whole below half of its cores: requests to a server
wait for a CPU even if CPUs are free on average, because pods and requests come in bursts. `scheduler` makes an
exception for a pod that is too large for that, and could go nowhere else.
"""

from __future__ import annotations

import math

import numpy as np

from carico.arrays import BoolArray, FloatArray
from carico.demand.regression import Estimate
from carico.demand.settings import DemandVariant

PARALLEL_CORES = 1.5
"""A pod that demands more has several threads, which wait for each other when they share CPUs."""


def lower_level(variant: DemandVariant, cores: FloatArray) -> FloatArray:
    """Return the load up to which nodes are filled if nothing else applies, cores."""
    lower: FloatArray = cores + variant.headroom * np.sqrt(cores)
    return lower


def level(
    variant: DemandVariant,
    cores: FloatArray,
    pod_cores: float,
    *,
    share: bool,
    critical: BoolArray | None = None,
    gap: BoolArray | None = None,
    lower: FloatArray | None = None,
) -> FloatArray:
    """Return the load up to which nodes are filled, cores.

    Parameters
    ----------
    variant : DemandVariant
    cores : array, (n,)
        CPUs of the nodes.
    pod_cores : float
        The pod's demand.
    share : bool
        Whether pods that wait should share CPUs rather than wait on.
    critical : array of bool, (n,), optional
        Whether the nodes have latency-critical pods; by default none has.
    gap : array of bool, (n,), optional
        Whether the pod waits for a gap on these nodes; by default on none.
    lower : array, (n,), optional
        The lower levels of the nodes, if they are known already.
    """
    usual = lower_level(variant, cores) if lower is None else lower
    if gap is not None:
        usual = np.where(gap, usual - variant.gap * pod_cores, usual)
    if share:
        higher = np.maximum(usual, variant.threads_per_core * cores)
        usual = np.where(pod_cores <= variant.wide * cores, higher, usual)
    return usual if critical is None else np.where(critical, variant.critical_share * cores - pod_cores, usual)


def least_wide(variant: DemandVariant, cores: FloatArray) -> FloatArray:
    """Return above which demand a pod is a wide one with several threads on each node, cores."""
    least: FloatArray = np.maximum(variant.wide * cores, PARALLEL_CORES)
    return least


def certainly_reads(variant: DemandVariant, pod: Estimate) -> bool:
    """Return whether a pod is held back where disks are saturated; `pod` is what it has under way."""
    return pod.mean - math.sqrt(pod.variance) > variant.reads_from


def reads_left(room: FloatArray, pod: Estimate) -> FloatArray:
    """Return how far the reads under way are below what nodes' disks serve, with half of those of the pod.

    Threads that share a CPU lose nothing, but a disk may serve two readers worse than one. So half of the pod must fit,
    unlike for CPU.

    Parameters
    ----------
    room : array, (n,)
        How many more reads may be under way on each node.
    pod : Estimate
        Reads that the pod has under way.
    """
    left: FloatArray = room - pod.mean / 2
    return left


def needed_gib(variant: DemandVariant, gib: FloatArray, variance: float, alike: FloatArray) -> FloatArray:
    """Return how much free memory a node needs to take a pod of a workload, GiB.

    Parameters
    ----------
    variant : DemandVariant
    gib : array, (n,)
        Memory that the pod holds at its peak, as far as each node knows.
    variance : float
        Variance of that memory, GiB².
    alike : array, (n,)
        Pods of the same workload whose doubt is counted already. Doubt grows with the square of their number, because
        they are either all small or all large.
    """
    needed: FloatArray = gib + variant.caution * variance * (2 * alike + 1)
    return needed
