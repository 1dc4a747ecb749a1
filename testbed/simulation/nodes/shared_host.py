"""A limit that the virtual machines of one host share, for example its memory bandwidth. Off by default.

The limit slows pods down while their threads hold a CPU, so guests see it neither as steal time nor as pressure. All
threads of the host have an equal share of it, whichever node they run on. Pods of a crowded node therefore take hardly
longer than those of an empty one, as under kube-scheduler in thesis Table 5.2.
"""

from __future__ import annotations

import numpy as np

from carico.arrays import BoolArray, FloatArray
from testbed.simulation.nodes.cpu import share_cpu


def work_per_cpu_second(rate: FloatArray, threads: FloatArray, system: BoolArray, limit: float) -> FloatArray:
    """Return the work that every task does in a CPU-second, in [0, 1]; 1 where the host's limit is not reached.

    Parameters
    ----------
    rate : ndarray, shape (tasks,)
        CPUs that every task has.
    threads : ndarray, shape (tasks,)
        Runnable threads of every task.
    system : ndarray of bool, shape (tasks,)
        Tasks that are not pods' containers; the limit does not apply to them.
    limit : float
        CPU-seconds of work that the pods of the host can do in a second.

    Examples
    --------
    Three pods of two threads each on a host whose limit is 3. The third pod shares its node's CPUs with other pods, and
    gets half a CPU; the host limits the two others.

    >>> rate = np.array([2.0, 2.0, 0.5])
    >>> work_per_cpu_second(rate, np.array([2.0, 2.0, 2.0]), np.zeros(3, dtype=bool), 3.0).tolist()
    [0.625, 0.625, 1.0]
    """
    pods = np.flatnonzero(~system)
    work = np.ones_like(rate)
    if rate[pods].sum() > limit:
        one_host = np.zeros(pods.size, dtype=np.int64)
        shared = share_cpu(rate[pods], threads[pods], one_host, np.array([limit]))
        work[pods] = np.divide(shared, rate[pods], out=np.ones(pods.size), where=rate[pods] > 0.0)
    return work
