"""Comparisons on a real cluster: with too few repetitions they are not measured, and the limit is always the same.

A comparison that was lost before is made again each time. It is reported as not reproduced while it is lost, and as
holding once it is won; the size of an earlier loss does not relax the limit.
"""

from __future__ import annotations

import pytest

from testbed.comparison.difference import Difference
from testbed.comparison.verdicts import Verdict, judged
from testbed.report.numbers import counted

LEAST = 6
"""Repetitions on machines that others use, too: with fewer a single disturbed turn decides."""


def lost_before(result: str) -> pytest.MarkDecorator:
    """Return the mark of a claim that was lost; no outcome is expected of it.

    Parameters
    ----------
    result : str
        What was found, with its interval, and why; the summary prints it.
    """
    return pytest.mark.xfail(strict=False, raises=AssertionError, reason=f"lost before: {result}")


def skip_unless_measured(repetitions: int) -> None:
    """Report the test as not measured if there are too few repetitions for any verdict."""
    if repetitions < LEAST:
        times = counted(repetitions, "repetition")
        pytest.skip(
            f"{times} can give no verdict, {LEAST} are needed: --carico-preset=full, or --carico-repetitions={LEAST}"
        )


def verdict_of(found: Difference) -> Verdict:
    """Return the verdict on a comparison that a test makes by itself; differences of any size count."""
    return judged([found], margin=0.0)[0]


def assert_not_worse(found: Difference) -> None:
    """Assert that CARICO is not worse, if that can be said."""
    skip_unless_measured(min(found.n))
    assert verdict_of(found) != "regressed", str(found)
