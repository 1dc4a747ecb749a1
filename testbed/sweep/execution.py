"""Runs what a sweep lacks; every repetition is on disk as soon as it is finished. Only this process writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from testbed.experiment.cache import Cache
from testbed.experiment.provider import Trial
from testbed.results.schema import Repetition
from testbed.sweep.executors import Pool


def lacking(asked: Sequence[tuple[Trial, int]], cache: Cache) -> list[tuple[Trial, int]]:
    """Return what has not been run yet: trials and seeds."""
    return [(trial, seed) for trial, seed in asked if not cache.has(trial, seed)]


def run_all(
    asked: Sequence[tuple[Trial, int]], cache: Cache, pool: Pool, on_done: Callable[[], None] = lambda: None
) -> None:
    """Run trials with seeds, and keep each repetition.

    Raises
    ------
    TestbedError
        If a run fails; repetitions that finished until then are kept.
    """
    waiting = deque(asked)
    running: dict[Future[Repetition], tuple[Trial, int]] = {}
    while waiting or running:
        while waiting and len(running) < pool.window:
            trial, seed = waiting.popleft()
            running[pool.submit(trial, seed)] = (trial, seed)
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        # Failures last: what has finished with them is kept first.
        for future in sorted(done, key=lambda one: one.exception() is not None):
            trial, seed = running.pop(future)
            cache.keep(trial, seed, future.result())
            on_done()
