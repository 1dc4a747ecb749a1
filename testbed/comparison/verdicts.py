"""Verdicts on a table of comparisons, corrected for their number (Holm).

Whoever compares twenty times at a level of 5 % finds a difference by chance in most tables. Holm's method keeps the
probability of any false `regressed` or `improved` in a whole table at 5 %, however its comparisons depend on each other
(S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from testbed.comparison import LEAST
from testbed.comparison.difference import Difference

Verdict = Literal["ok", "regressed", "improved", "inconclusive", "incomparable"]
"""What a comparison says; less is better unless the metric says otherwise.

- ``ok``: whatever differs is within the margin: the whole 95 % interval is.
- ``regressed``, ``improved``: the candidate is worse, or better, by more than chance explains.
- ``inconclusive``: the repetitions cannot tell; or neither direction of the metric is better, so that nobody can.
- ``incomparable``: a setting that matters differs, so that a difference would say nothing.
"""
GOOD: dict[str, bool] = {"improved": True, "regressed": False}
"""Verdicts to colour."""
LEVEL = 0.05
"""The probability of any false `regressed` or `improved` in a table."""
MARGIN = 0.02
"""Differences up to this share are ok."""


def judged(
    differences: Sequence[Difference],
    *,
    less_is_better: Sequence[bool | None] | None = None,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> list[Verdict]:
    """Return the verdict on every comparison of a table.

    Parameters
    ----------
    differences : sequence of Difference
        All comparisons of the table.
    less_is_better : sequence of bool or None, optional
        For every comparison, None where neither direction is better; by default less is better in all.
    margin : float
        The share up to which differences are ok. A difference that is no ratio is ok only if it is certainly none.
    level : float
        The probability of any false `regressed` or `improved`.

    Examples
    --------
    >>> from testbed.comparison.difference import in_turns
    >>> slow, same = in_turns([1.0, 1.1, 1.2], [2.0, 2.2, 2.5]), in_turns([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    >>> judged([slow, same])
    ['regressed', 'ok']
    """
    less = less_is_better if less_is_better is not None else [True] * len(differences)
    # Where neither direction is better there is no false alarm, and so nothing to correct for.
    may_alarm = [one.p_value for one, direction in zip(differences, less, strict=True) if direction is not None]
    adjusted = iter(holm(may_alarm))
    p_values = [1.0 if direction is None else next(adjusted) for direction in less]
    return [_verdict(*each, margin, level) for each in zip(differences, p_values, less, strict=True)]


def undecided(one: Difference, less_is_better: bool | None = True) -> str:
    """Return why the verdict on a comparison is `inconclusive`.

    Examples
    --------
    >>> from testbed.comparison.difference import in_turns
    >>> undecided(in_turns([1.0, 1.1], [2.0, 2.2]))
    'n = 2 is too small: each side needs 3 repetitions or more'
    """
    if not one.enough:
        return f"n = {one.repetitions} is too small: each side needs {LEAST} repetitions or more"
    if less_is_better is None:
        return "neither direction of the metric is better"
    if not math.isfinite(one.error):
        return "some repetitions did not complete, which chance may explain: more repetitions may decide"
    beyond = f"is not within {100 * MARGIN:g} %" if one.relative else "is not certainly none"
    return f"the difference {beyond}, and chance may explain it: more repetitions may decide"


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, most = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = most
    return adjusted


def _verdict(one: Difference, p_value: float, less_is_better: bool | None, margin: float, level: float) -> Verdict:
    if not one.enough:
        return "inconclusive"
    low, high = (1.0 / (1.0 + margin), 1.0 + margin) if one.relative else (0.0, 0.0)
    if low <= one.low and one.high <= high:
        return "ok"
    if p_value >= level:
        return "inconclusive"
    return "regressed" if (one.effect > one.neutral) == less_is_better else "improved"
