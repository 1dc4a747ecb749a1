"""Repetitions during which the machine was there: what ran while others had much of it is run again.

No completion time and no latency decides that. What went wrong is kept, whatever the machine did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from testbed.errors import UsageError
from testbed.experiment.provider import OnProgress, Progress
from testbed.measurement.stolen_cpu import RUN_AGAIN_FROM, discarded, stolen_shares
from testbed.results.schema import Repetition


def run_undisturbed(
    run: Callable[[OnProgress | None], Repetition],
    attempts: int,
    earlier: Sequence[Repetition] = (),
    keep: Callable[[Repetition], None] = lambda disturbed: None,
    on_progress: OnProgress | None = None,
) -> Repetition:
    """Run a repetition until less than `RUN_AGAIN_FROM` of the machine's CPU time is stolen, and return it.

    If that does not come, the attempt with the least is returned. The data items of the others are in it, too: the
    label `metric` begins with ``discarded_``, the label `attempt` is the number, from 1 on.

    Parameters
    ----------
    run : callable
    attempts : int
        How often it is run at most; it is run once more if there are as many earlier ones.
    earlier : sequence of Repetition
        Disturbed attempts of a process that has ended.
    keep : callable
        Is given every disturbed attempt as soon as it is over.
    on_progress : callable, optional
        Is told how far the attempt that runs is.

    Raises
    ------
    UsageError
        If there are less attempts than one.
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
    """A pod that failed, or was run twice, counts whoever had the machine."""
    pods = Counter(pod.job for pod in one.pods)
    whole = None not in one.job_completion_time_s.values() and all(
        pods[job] == wanted for job, wanted in one.measured_jobs.items()
    )
    # A disturbance need not come to its end.
    went_well = whole and all(pod.outcome in ("succeeded", "unfinished") for pod in one.pods)
    return went_well and _stolen(one) >= RUN_AGAIN_FROM


def _stolen(one: Repetition) -> float:
    return max(stolen_shares([one]), default=0.0)


def _about(attempt: int, on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None or attempt == 1:
        return on_progress

    def tell(progress: Progress) -> None:
        on_progress(replace(progress, attempt=attempt))

    return tell
