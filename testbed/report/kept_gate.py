"""What a gate has said, as a run's folder keeps it and as a report shows it."""

from __future__ import annotations

import math

from testbed.comparison.difference import Difference
from testbed.comparison.gate import Gate, Judgement
from testbed.comparison.runs import Compared
from testbed.measurement.metrics import METRICS, Figure
from testbed.report.comparison import gate_line, gate_notes, regressions
from testbed.results.gate_file import BaselineUsed, GateFile, JudgedFigure


def kept(gate: Gate, baseline: BaselineUsed | None = None, test: str = "") -> GateFile:
    """Return what is kept of a gate; see `GateFile`."""
    return GateFile(
        passed=gate.passed,
        line=gate_line(gate),
        regressions=regressions(gate),
        problems=gate.problems,
        notes=gate_notes(gate),
        judgements=[_figure(one) for one in gate.judgements],
        not_measured=gate.not_measured,
        not_in_baseline=gate.not_in_baseline,
        baseline=baseline,
        test=test,
    )


def _figure(one: Judgement) -> JudgedFigure:
    found, difference = one.found, one.found.difference
    return JudgedFigure(
        title=found.title,
        condition=one.condition.text,
        outcome=one.outcome,
        against=found.against,
        metric=found.figure.metric,
        statistic=found.figure.statistic,
        of=list(found.figure.of),
        unit=METRICS[found.figure.metric].unit,
        reference=_finite(found.reference),
        candidate=_finite(found.candidate),
        effect=_finite(difference.effect),
        is_ratio=difference.relative,
        low=_finite(difference.low),
        high=_finite(difference.high),
        repetitions=list(difference.n),
        paired=difference.paired,
        lacking=found.lacking,
        reason=one.reason or None,
    )


def compared(one: JudgedFigure) -> Compared:
    """Return the comparison that was judged, without what only a judgement needs."""
    return Compared(
        one.title,
        one.against,
        Figure(one.metric, one.statistic, tuple(one.of)),
        math.nan if one.reference is None else one.reference,
        math.nan if one.candidate is None else one.candidate,
        Difference(
            math.nan if one.effect is None else one.effect,
            -math.inf if one.low is None else one.low,
            math.inf if one.high is None else one.high,
            math.nan,
            (one.repetitions[0], one.repetitions[1]),
            one.paired,
            one.is_ratio,
        ),
        one.lacking,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
