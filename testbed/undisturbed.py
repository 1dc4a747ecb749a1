"""Repetitions during which the machine was there: what ran while others had it is run again.

Only stolen CPU time decides that, never what was measured. What did not complete is kept, whatever the machine did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from testbed.clusters.provider import OnProgress, Progress
from testbed.measurement.stolen_cpu import METRIC, stolen_shares
from testbed.results.schema import DataItem, Repetition

DISTURBED = 0.1
"""From this share of the machine's CPU time on, a repetition is run again."""
_DISCARDED = "discarded_"


def run_undisturbed(
    run: Callable[[OnProgress | None], Repetition], attempts: int, on_progress: OnProgress | None = None
) -> Repetition:
    """Run a repetition until less than `DISTURBED` of the machine is stolen, and return it.

    If that does not come, the attempt with the least is returned. The data items of the others are in it, too: the
    label `metric` begins with ``discarded_``, the label `attempt` is the number, from 1 on.

    Parameters
    ----------
    run : callable
    attempts : int
        How often it is run at most.
    on_progress : callable, optional
        Is told how far the attempt that runs is.
    """
    found: dict[int, Repetition] = {}
    for attempt in range(1, attempts + 1):
        found[attempt] = one = run(_about(attempt, on_progress))
        if _stolen(one) < DISTURBED or None in one.job_completion_time_s.values():
            kept = attempt
            break
    else:
        kept = min(found, key=lambda attempt: _stolen(found[attempt]))
    others = [_discarded(item, attempt) for attempt, one in found.items() if attempt != kept for item in one.data_items]
    return msgspec.structs.replace(found[kept], data_items=[*found[kept].data_items, *others])


def discarded_attempts(repetitions: Sequence[Repetition]) -> int:
    """Return how often one of these was run again."""
    items = (item for one in repetitions for item in one.data_items)
    return sum(item.labels.get("metric") == _DISCARDED + METRIC for item in items)


def _discarded(item: DataItem, attempt: int) -> DataItem:
    metric = _DISCARDED + item.labels.get("metric", "")
    return msgspec.structs.replace(item, labels=item.labels | {"metric": metric, "attempt": str(attempt)})


def _stolen(one: Repetition) -> float:
    return max(stolen_shares([one]), default=0.0)


def _about(attempt: int, on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None or attempt == 1:
        return on_progress

    def tell(progress: Progress) -> None:
        on_progress(replace(progress, attempt=attempt))

    return tell
