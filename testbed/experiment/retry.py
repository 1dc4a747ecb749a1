"""Retries: a repetition is run again if other guests of the machine's host took much of the CPU time meanwhile.

Retries never depend on a completion time or a latency, and a repetition in which something failed is never retried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from testbed.errors import UsageError
from testbed.experiment.provider import OnProgress, Progress
from testbed.measurement.stolen_cpu import RETRIED_FROM, discarded, stolen_shares
from testbed.results.schema import Repetition


def run_with_retries(
    run: Callable[[OnProgress | None], Repetition],
    attempts: int,
    earlier: Sequence[Repetition] = (),
    keep: Callable[[Repetition], None] = lambda disturbed: None,
    on_progress: OnProgress | None = None,
) -> Repetition:
    """Run a repetition until less than `RETRIED_FROM` of the machine's CPU time is stolen, and return it.

    If every attempt is disturbed, the one with the least stolen CPU time is returned. The result also has the data
    items of the discarded attempts: their label `metric` begins with ``discarded_``, and their label `attempt` is the
    number of the attempt, from 1 on.

    Parameters
    ----------
    run : callable
        Runs an attempt and returns it; its argument is called with the attempt's progress.
    attempts : int
        The most attempts, including earlier ones; at least one attempt is made here.
    earlier : sequence of Repetition
        Disturbed attempts of a process that has ended since.
    keep : callable
        Called with every disturbed attempt as soon as it is over.
    on_progress : callable, optional
        Called with the progress of every attempt.

    Raises
    ------
    UsageError
        If `attempts` is less than 1.
    """
    if attempts < 1:
        raise UsageError(f"a repetition needs at least one attempt, got {attempts}")
    found = list(earlier)
    while True:
        last = run(_about(len(found) + 1, on_progress))
        found.append(last)
        if attempts == 1 or not _is_disturbed(last):
            kept = last
            break
        keep(last)
        if len(found) >= attempts:
            kept = min(found, key=_stolen)
            break
    others = [
        discarded(item, attempt) for attempt, one in enumerate(found, 1) if one is not kept for item in one.data_items
    ]
    return msgspec.structs.replace(kept, data_items=[*kept.data_items, *others])


def _is_disturbed(one: Repetition) -> bool:
    """Whether CPU time was stolen; a repetition in which a pod failed or ran twice is kept as it is."""
    pods = Counter(pod.job for pod in one.pods)
    whole = None not in one.job_completion_time_s.values() and all(
        pods[job] == wanted for job, wanted in one.measured_jobs.items()
    )
    # Pods of a job that is a disturbance need not complete.
    succeeded = whole and all(pod.outcome in ("succeeded", "unfinished") for pod in one.pods)
    return succeeded and _stolen(one) >= RETRIED_FROM


def _stolen(one: Repetition) -> float:
    return max(stolen_shares([one]), default=0.0)


def _about(attempt: int, on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None or attempt == 1:
        return on_progress

    def tell(progress: Progress) -> None:
        on_progress(replace(progress, attempt=attempt))

    return tell
