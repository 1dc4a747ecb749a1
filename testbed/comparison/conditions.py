"""The conditions of a gate, as users write them: which statistic of a metric may get worse by how much.

This module needs no package of an extra, so that a wrong condition is told before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.measurement.metrics import METRICS, Figure, chosen, metric_named

_LIMIT = re.compile(r"([+-])(\d+(?:\.\d+)?) ?(%?)")


@dataclass(frozen=True)
class Condition:
    """A limit that a user set for one statistic of a metric."""

    figure: Figure
    limit: float
    """The largest change that is allowed: a share of the reference, or an amount in the metric's unit; positive for
    metrics of which less is better, else negative."""
    relative: bool
    text: str
    """As the user wrote it."""

    @property
    def allowed(self) -> str:
        """The limit as the user wrote it."""
        return self.text.rpartition(":")[2]


def condition(text: str) -> list[Condition]:
    """Parse an expression such as ``pod_completion_time:p99:+10%``; without a statistic it is for all usual ones.

    Raises
    ------
    UsageError
        If it is no such expression, or the limit is on the better side.

    Examples
    --------
    >>> [(str(one.figure), one.limit) for one in condition("pod_completion_time:p99:+10%")]
    [('pod_completion_time p99', 0.1)]
    """
    what, _, limit = text.strip().rpartition(":")
    match = _LIMIT.fullmatch(limit)
    if not what or match is None:
        raise UsageError(
            f"a gate is METRIC:STATISTIC:LIMIT, such as pod_completion_time:p99:+10% or pod_outcome:oom_killed:+0, "
            f"got {text!r}"
        )
    sign, amount, percent = match.groups()
    metric = metric_named(what.partition(":")[0])
    if metric.less_is_better is None:
        judged = ", ".join(one.name for one in METRICS.values() if one.less_is_better is not None)
        raise UsageError(
            f"{metric.name} cannot regress, because neither direction is better ({metric.meaning}): "
            f"'carico-testbed compare --metric {metric.name}' shows how it differs, and a gate can judge {judged}"
        )
    worse = "+" if metric.less_is_better else "-"
    if sign != worse:
        better = "less" if metric.less_is_better else "more"
        raise UsageError(
            f"of {metric.name} {better} is better, so the limit is {worse}{amount}{percent}, got {limit!r}"
        )
    if percent and not metric.relative:
        raise UsageError(f"{metric.name} may be 0, so its limit is an amount such as {worse}{amount}, got {limit!r}")
    if percent and sign == "-" and float(amount) >= 100:
        raise UsageError(f"{metric.name} cannot lose {amount} %, it would always pass; got {limit!r}")
    value = float(f"{sign}{amount}") / (100.0 if percent else 1.0)
    return [Condition(figure, value, bool(percent), text.strip()) for figure in chosen(what)]


def conditions(texts: Iterable[str]) -> list[Condition]:
    """Parse several expressions; see `condition`."""
    return [one for text in texts for one in condition(text)]
