"""Raw pressure and its kernel average with 0, 1, 5 and 10 pods on a node (thesis §2.3, Fig 2.4, 2.5)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kits.pressure import avg10

from .predictions import cases, claim

pytestmark = pytest.mark.cluster

SCENARIO = "single-node-contention"
PUBLISHED_S = 10
SPIKE = 0.1
"""Spikes above the level of the computing pods, as they are visible in the figure."""


def pressure(observe, seed, pods):
    """Return raw pressure at 10 Hz and how many pods run, sample by sample."""
    seen = observe(seed.seed, SCENARIO, pods)
    running = np.repeat(np.array(seen.repetition.nodes[0].running_pods), 10)
    size = min(running.size, seen.cpu_pressure.size)
    return seen.cpu_pressure[:size], running[:size]


@claim("§2.3, Fig 2.4", "raw pressure spikes where containers start and stop, whatever the number of pods")
@pytest.mark.parametrize("pods", cases((1, 5)))
def test_container_churn_makes_spikes(observe, carico_seeds, carico_paper, pods):
    """With 10 pods pressure is full, and cannot spike any more."""
    for seed in carico_seeds:
        with seed:
            raw, running = pressure(observe, seed, pods)
            raw, running = raw[10 * PUBLISHED_S :], running[10 * PUBLISHED_S :]
            level = float(np.median(raw[running == pods]))
            carico_paper.row(f"median of raw pressure while {pods} pods run", level, None)
            carico_paper.row("highest avg10", float(avg10(raw).max()), None)
            carico_paper.row("highest raw pressure", float(raw.max()), None)
            assert raw.max() > level + SPIKE


def test_raw_pressure_answers_at_once(observe, carico_seeds, carico_paper):
    """Raw pressure is at its final level as soon as all pods run."""
    for seed in carico_seeds:
        with seed:
            seen = observe(seed.seed, SCENARIO, 6)
            lives = [(pod.started_s, pod.finished_s) for pod in seen.repetition.pods]
            all_run, first_ends = round(10 * max(start for start, _ in lives)), round(10 * min(end for _, end in lives))
            level = float(np.median(seen.cpu_pressure[all_run + 10 : first_ends]))
            before = float(np.median(seen.cpu_pressure[: 10 * PUBLISHED_S]))
            reached = int(np.flatnonzero(seen.cpu_pressure[all_run:] >= 0.9 * level)[0])
            carico_paper.row("raw pressure of 6 pods on 4 CPUs", level, None)
            carico_paper.row("until it is at 90 % of that, from the last pod's start", reached / 10, None, "s")
            assert level > before + 0.3
            assert reached <= 5


@claim("§2.3, Fig 2.5", "the average over 10 s does not reach the true pressure before the pods are over")
def test_the_average_does_not_get_there_before_the_pods_are_over(observe, carico_seeds, carico_paper):
    for seed in carico_seeds:
        with seed:
            raw, running = pressure(observe, seed, 10)
            level, average = float(np.median(raw[running == 10])), avg10(raw)
            reached = float(average[running == 10].max())
            carico_paper.row("raw pressure while 10 pods run", level, None)
            carico_paper.row("highest avg10 while 10 pods run", reached, None)
            assert reached < 0.9 * level


@claim("§2.3, Fig 2.5", "averaging reduces the impact of spikes")
def test_the_average_is_smooth(observe, carico_seeds, carico_paper):
    """The kernel's average takes seconds to reach what raw pressure reaches at once."""
    for seed in carico_seeds:
        with seed:
            raw, _ = pressure(observe, seed, 5)
            jumps = {name: float(np.abs(np.diff(one)).max()) for name, one in (("raw", raw), ("avg10", avg10(raw)))}
            for name, jump in jumps.items():
                carico_paper.row(f"largest jump of {name}, 5 pods", jump, None)
            assert jumps["avg10"] < jumps["raw"] / 3
