"""How the schedulers of a group compare: job completion times against a reference, judged as one table."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.comparison.difference import Difference, completion_difference, difference
from testbed.report.groups import Group


def reference_of(schedulers: Iterable[str], named: str | None) -> str:
    """Return the scheduler that the others are compared with: the named one if it was run, else the first."""
    schedulers = list(schedulers)
    return named if named is not None and named in schedulers else schedulers[0]


def jct_difference(group: Group, reference: str, candidate: str) -> Difference:
    """Return how long the job takes under the candidate; where it did not always complete, how often it did."""
    theirs, ours = group.completions_s(reference), group.completions_s(candidate)
    if None in theirs.values() or None in ours.values():
        return completion_difference(theirs, ours)
    return difference(theirs, ours)  # type: ignore[arg-type]
