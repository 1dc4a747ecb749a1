"""How a node's CPUs are shared, and the pressure that follows: pure functions over all nodes at once.

A fluid model of the kernel's scheduler: runnable threads share a node's cores in proportion to their cgroup's weight,
no task gets more than its threads can use, and what it leaves is shared among the others (max-min fairness).
"""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray, IntArray


def share_cpu(demand: FloatArray, weight: FloatArray, group: IntArray, capacity: FloatArray) -> FloatArray:
    """Return the CPU that every task gets: weighted max-min sharing within its group.

    Parameters
    ----------
    demand : ndarray, shape (tasks,)
        Cores that a task can use.
    weight : ndarray, shape (tasks,)
        cgroup weight, positive.
    group : ndarray of int, shape (tasks,)
        The group with which each task shares a capacity.
    capacity : ndarray, shape (groups,)
        Cores of each group.
    """
    groups = capacity.size
    rate = demand.copy()
    contended = np.bincount(group, demand, groups) > capacity
    if not contended.any():
        return rate
    hungry = np.flatnonzero(contended[group])
    left = capacity.copy()
    while hungry.size:
        g, w, d = group[hungry], weight[hungry], demand[hungry]
        total = np.bincount(g, w, groups)
        share = w * (left[g] / total[g])
        sated = share >= d
        if not sated.any():
            rate[hungry] = share
            break
        # Tasks that want less than their share get all they want; the rest is shared anew.
        left -= np.bincount(g[sated], d[sated], groups)
        hungry = hungry[~sated]
    return rate


def cgroup_weight(millicpu: int) -> int:
    """Return the cgroup v2 weight that the kubelet derives from a CPU request: of a pod, or all cores for kubepods.

    CPU shares are millicpu x 1024 / 1000, at least 2, and the weight is 1 + (shares - 2) x 9999 / 262142.

    Examples
    --------
    >>> cgroup_weight(0), cgroup_weight(100), cgroup_weight(4000)
    (1, 4, 157)
    """
    shares = max(millicpu * 1024 // 1000, 2)
    return 1 + (shares - 2) * 9999 // 262142


def some_pressure(runnable: FloatArray, cores: FloatArray | float, reading: str) -> FloatArray:
    """Return the `some` CPU pressure of nodes, in [0, 1].

    Parameters
    ----------
    runnable : ndarray
        Mean number of threads that run or want to.
    cores : float or ndarray
        CPUs of every node.
    reading : {"kernel", "at-least-one-waiting"}
        The kernel averages over CPUs whether a task waits for that CPU (psi.c): 5 busy threads on 4 CPUs give 0.25,
        8 give 1. The thesis's wording, "at least one thread always waiting", taken literally gives 1 at 5.
    """
    waiting = np.maximum(runnable - cores, 0.0)
    if reading == "kernel":
        waiting = waiting / cores
    return np.minimum(waiting, 1.0)


def throttled_pressure(runnable: FloatArray, quota: FloatArray, cpus: float, reading: str) -> FloatArray:
    """Return the `some` CPU pressure of nodes that have a quota of a larger machine, as a control group has.

    The node's threads run side by side on the machine's CPUs until the quota of a period is used up; then all of them
    wait for the next period, which the kernel counts as pressure.

    Parameters
    ----------
    runnable : ndarray
        Mean number of threads that run or want to.
    quota : ndarray
        CPUs of every node.
    cpus : float
        CPUs of the machine.
    reading : str
        As for `some_pressure`; applies to the time in which threads run.

    Examples
    --------
    A quota of half a CPU on a machine with two, in a period of 100 ms: one thread runs for 50 ms; of four threads two
    run for 25 ms while two wait.

    >>> throttled_pressure(np.array([0.4, 1.0, 4.0]), np.array([0.5, 0.5, 0.5]), 2.0, "kernel").tolist()
    [0.0, 0.5, 1.0]
    """
    at_once = np.minimum(runnable, cpus)
    runs = np.divide(quota, at_once, out=np.ones_like(at_once), where=at_once > quota)
    return (1.0 - runs) + runs * some_pressure(runnable, cpus, reading)
