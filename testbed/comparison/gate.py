"""The gate: whether something is worse than its reference by more than the conditions allow.

The reference is a baseline, or another scheduler of the same run.

A figure fails only if the repetitions prove that it is worse than the limit allows: the hypothesis that the true change
is within the limit is rejected, at 1 % for the whole gate (Holm). So equal schedulers fail once in a hundred sessions
at most, whatever their noise; a slowdown beyond the limit is found once there are enough repetitions to prove it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.comparison import LEAST
from testbed.comparison.conditions import Condition
from testbed.comparison.measured import Measured
from testbed.comparison.runs import Compared, Pairing, among_schedulers, compared, paired
from testbed.comparison.verdicts import holm, undecided
from testbed.errors import suggested
from testbed.measurement.metrics import METRICS

LEVEL = 0.01
"""The probability that equal schedulers fail a gate."""


Outcome = Literal["ok", "regressed", "inconclusive"]


@dataclass(frozen=True)
class Judgement:
    """What a gate says of one figure."""

    condition: Condition
    found: Compared
    outcome: Outcome
    """``inconclusive``: it cannot be shown that the change is within the limit, nor that it is not."""

    @property
    def reason(self) -> str:
        """Why the outcome is `inconclusive`; else empty."""
        one = self.found.difference
        if self.outcome != "inconclusive":
            return ""
        if not one.enough or not math.isfinite(one.error):
            return undecided(one)
        return (
            f"neither is the change certainly within what is allowed ({self.condition.allowed}), nor certainly beyond "
            f"it: more repetitions may decide"
        )


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate. It has passed only if something was judged, and nothing is worse than allowed."""

    judgements: list[Judgement]
    problems: list[str]
    """Why the gate cannot pass, whatever was judged: what the baseline has and the run lacks, and the like."""
    not_measured: list[str]
    """What the baseline has and the run lacks."""
    not_in_baseline: list[str]
    """What the run has and the baseline lacks."""
    by_baseline: bool
    """Whether a baseline is the reference; else it is another scheduler of the run."""

    @property
    def passed(self) -> bool:
        """Whether the gate lets the run pass."""
        return not self.problems and all(one.outcome != "regressed" for one in self.judgements)


def judge(
    reference: Sequence[Measured],
    candidate: Sequence[Measured],
    conditions: Iterable[Condition],
    *,
    complete: bool = True,
) -> Gate:
    """Judge a run by a baseline.

    Nothing passes that was not measured: a scenario of the baseline that the run lacks, other settings, figures that
    neither has, and too few repetitions are problems.

    Parameters
    ----------
    reference, candidate : sequence of Measured
        What the baseline and the run have.
    conditions : iterable of Condition
    complete : bool
        Whether the run was meant to measure everything that the baseline has.
    """
    pairing = paired(reference, candidate)
    problems = [f"{title} is incomparable with the baseline: {why}" for title, why in pairing.incomparable]
    if complete:
        problems += [f"{title} is in the baseline, but was not measured" for title in pairing.only_reference]
    if not pairing.pairs and not problems:
        problems.append("nothing was compared: the baseline and this run have no scenario and scheduler in common")
    return _judged(pairing, conditions, problems, by_baseline=True)


def judge_schedulers(found: Sequence[Measured], reference: str | None, conditions: Iterable[Condition]) -> Gate:
    """Judge the schedulers of one run by its reference; see `testbed.comparison.runs.among_schedulers`.

    Nothing passes that was not measured: a run of one scheduler alone, and a scenario without the reference, are
    problems.
    """
    pairing, lacking = among_schedulers(found, reference)
    problems = []
    if reference is not None:
        run = list(dict.fromkeys(one.scheduler for one in found))
        meant = suggested(reference, run, f"those that were: {', '.join(run)}")
        why = f"the reference {reference} was not run there{meant}"
        problems = [f"{title} cannot be judged: {why}" for title in lacking]
    if not pairing.pairs and not problems:
        what = "two schedulers" if reference is None else f"the reference {reference} and another scheduler"
        problems.append(f"nothing was compared: no scenario was run under {what}; a baseline judges a scheduler alone")
    return _judged(pairing, conditions, problems, by_baseline=False)


def _judged(pairing: Pairing, conditions: Iterable[Condition], problems: list[str], *, by_baseline: bool) -> Gate:
    where = "in the baseline and in this run" if by_baseline else "in this run"
    open_ones: list[tuple[Condition, Compared]] = []
    for one in conditions:
        found = [each for pair in pairing.pairs for each in compared(*pair, [one.figure], every=True)]
        if not found and pairing.pairs:
            problems.append(f"nothing has {one.figure} ({one.text}) {where}")
        open_ones += [(one, each) for each in found]
    few = {each.title: each.difference.n for _, each in open_ones if not each.difference.enough}
    problems += [_too_few(title, *few[title], by_baseline=by_baseline) for title in sorted(few)]
    adjusted = holm([_p_value(*each) for each in open_ones])
    return Gate(
        [
            Judgement(one, found, _outcome(one, found, p_value))
            for (one, found), p_value in zip(open_ones, adjusted, strict=True)
        ],
        problems,
        pairing.only_reference,
        pairing.only_candidate,
        by_baseline,
    )


def _too_few(title: str, reference: int, candidate: int, *, by_baseline: bool) -> str:
    if by_baseline:
        seen = f"the number of repetitions is {reference} in the baseline and {candidate} in this run"
    else:
        seen = f"the number of repetitions is {min(reference, candidate)}"
    remedies = []
    if candidate < LEAST or not by_baseline:
        remedies.append("measure again with --carico-repetitions=5, or repetitions=5 where the test sets the number")
    if reference < LEAST and by_baseline:
        remedies.append("make the baseline anew with --carico-repetitions=5 --carico-save-baseline")
    return f"{title}: {seen}, a gate needs {LEAST}: {'; '.join(remedies)}"


def _bound(one: Condition, found: Compared) -> float:
    """The effect that is just allowed."""
    if found.difference.relative == one.relative:
        return one.limit + found.difference.neutral
    # A ratio where the limit is an amount, or the reverse: expressed by the reference's mean.
    if one.relative:
        return one.limit * found.reference
    return (found.reference + one.limit) / found.reference


def _p_value(one: Condition, found: Compared) -> float:
    bound = _bound(one, found)
    if bound <= 0 and found.difference.relative:
        return 1.0
    return found.difference.exceeds(bound) if _less(one) else found.difference.falls_below(bound)


def _outcome(one: Condition, found: Compared, p_value: float) -> Outcome:
    if p_value < LEVEL or (found.lacking and found.difference.enough):
        return "regressed"
    bound = _bound(one, found)
    within = found.difference.high <= bound if _less(one) else found.difference.low >= bound
    return "ok" if found.difference.enough and within else "inconclusive"


def _less(one: Condition) -> bool:
    return METRICS[one.figure.metric].less_is_better is True
