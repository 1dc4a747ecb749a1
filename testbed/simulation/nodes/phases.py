"""Phases of work: a task that alternates between two phases may change its number of threads within a tick."""

from __future__ import annotations

import numpy as np

from carico.arrays import FloatArray, IntArray
from testbed.simulation.nodes.tasks import NOTHING_S, Tasks, per_node


def switch_phases(
    tasks: Tasks, active: IntArray, node: IntArray, useful: FloatArray, spare_s: FloatArray
) -> FloatArray:
    """Begin the next phase of every task whose phase ended in this tick.

    The tick gave a task CPU for the threads of its old phase. From the end of that phase on, the work is corrected to
    the threads of the new one: more work if the node has CPU to spare, or less.

    Parameters
    ----------
    tasks : Tasks
        Their work, threads and phases are updated.
    active, node : ndarray of int, shape (active,)
        The rows of the tasks that ran, and their nodes.
    useful : ndarray, shape (active,)
        Work that a task does per CPU-second.
    spare_s : ndarray, shape (nodes,)
        CPU-seconds of this tick that nobody used.

    Returns
    -------
    ndarray, shape (nodes,)
        CPU-seconds by which the correction changes what every node used.
    """
    nodes = spare_s.size
    more_s = np.zeros(nodes)
    places = np.flatnonzero(tasks.phase_left[active] <= 0.0)
    while places.size:
        rows, where = active[places], node[places]
        threads_before = tasks.threads[rows]
        tasks.phase[rows] = phase = 1 - tasks.phase[rows]
        tasks.threads[rows] = threads = tasks.phase_threads[rows, phase]
        since = np.maximum(-tasks.phase_left[rows], 0.0)
        more = since * (threads / threads_before - 1.0)
        worth = np.maximum(useful[places], NOTHING_S)
        wanted_s = per_node(where, np.maximum(more, 0.0) / worth, nodes)
        granted = np.clip((spare_s - more_s) / np.maximum(wanted_s, NOTHING_S), 0.0, 1.0)
        more = np.where(more > 0, more * granted[where], more)
        more_s += per_node(where, more / worth, nodes)
        tasks.left[rows] -= more
        tasks.done[rows] += more
        tasks.used[rows] += more / worth
        tasks.phase_left[rows] = tasks.phase_work[rows, phase] - since - more
        places = places[(tasks.phase_left[rows] <= 0.0) & (tasks.left[rows] > NOTHING_S)]
    return more_s
