"""Whether a session's repetitions are enough to judge by, as far as that is known before anything runs.

A test without a marker is taken to use the session's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.comparison import LEAST
from testbed.plugin.options import Options
from testbed.plugin.planned import Planned
from testbed.report.numbers import counted
from testbed.requirements import Problem

if TYPE_CHECKING:
    from testbed.comparison.measured import Measured

ENOUGH = 5
"""The number of repetitions that messages recommend."""
NAMED = 3
"""The most tests or experiments that a message names."""


Pair = tuple[Planned, "Measured | None"]
"""What will be measured, with what a baseline has of it."""


def repetitions_told(plans: Sequence[Planned], options: Options) -> tuple[list[Problem], list[str]]:
    """Return why a gate could judge nothing, and else warnings of what cannot be judged.

    Raises
    ------
    UnusableFile
        If the baseline cannot be read.
    """
    from testbed.comparison.baseline import read_baseline

    file = options.judged_by
    baseline = None if file is None else read_baseline(file).measured
    gates = []
    if file is not None or (options.judges_schedulers and options.fail_on):
        gates.append(_pairs(plans, baseline))
    if file is not None or options.judges_schedulers:
        own = dict.fromkeys(one.test for one in plans if one.gated)
        gates += [_pairs([one for one in plans if one.test == test], baseline) for test in own]
    # Nothing is named if it is true of everything.
    name_tests = any(one.repetitions >= LEAST for one in plans)
    idle = [pair for gate in gates if not any(map(_enough, gate)) for pair in gate]
    if idle:
        return [Problem(said) for said in _sentences(idle, "a gate", options, name_tests)], []
    if gates:
        said = _sentences([pair for gate in gates for pair in gate], "a gate", options, name_tests)
        return [], [f"WARNING: the gate cannot judge everything: {one}" for one in said]
    if options.save_baseline is not None:
        said = _sentences([(one, None) for one in plans], "a gate by the baseline", options, name_tests)
        return [], [f"WARNING: {one}" for one in said]
    said = _sentences(_pairs(plans, None), "a comparison", options, name_tests)
    what = "some comparisons" if name_tests else "comparisons"
    return [], [f"{what} will be inconclusive: {one}" for one in said]


def too_few_in_baseline(measured: Iterable[Measured], file: Path) -> list[str]:
    """Return a sentence for every number of repetitions in a baseline that is too small for a gate."""
    few: dict[int, dict[str, None]] = {}
    for one in measured:
        if len(one.seeds) < LEAST:
            few.setdefault(len(one.seeds), {})[one.title] = None
    return [
        f"the baseline {file} has {counted(number, 'repetition')} of {named(titles)}, a gate needs {LEAST}: make it "
        f"anew with --carico-repetitions={ENOUGH} --carico-save-baseline={file}"
        for number, titles in few.items()
    ]


def _pairs(plans: Sequence[Planned], baseline: Sequence[Measured] | None) -> list[Pair]:
    """Return what may be judged: by the baseline, or else by another scheduler in the same scenario."""
    if baseline is not None:
        return [
            (one, each)
            for one in plans
            for each in baseline
            if not one.scenario or (one.scenario, one.scheduler) == (each.scenario, each.scheduler)
        ]
    kinds = {(one.scenario, one.scheduler) for one in plans}
    scenarios = [scenario for scenario, _ in kinds]
    return [(one, None) for one in plans if not one.scenario or scenarios.count(one.scenario) > 1]


def _enough(pair: Pair) -> bool:
    ours, theirs = pair
    return ours.repetitions >= LEAST and (theirs is None or len(theirs.seeds) >= LEAST)


def _sentences(pairs: Sequence[Pair], what: str, options: Options, name_tests: bool) -> list[str]:
    """Return a sentence for every number of repetitions that is too small."""
    measured = {(one.scenario, one.scheduler) for one, _ in pairs if one.scenario and one.repetitions >= LEAST}
    few: dict[tuple[int, bool], dict[str, None]] = {}
    for one, _ in pairs:
        # Another test may measure the same more often.
        if one.repetitions < LEAST and (one.scenario, one.scheduler) not in measured:
            few.setdefault((one.repetitions, one.by_marker), {})[one.test] = None
    said = []
    for (number, by_marker), tests in few.items():
        times = counted(number, "repetition")
        if by_marker:
            asks = "the marker of" if len(tests) == 1 else "the markers of"
            said.append(
                f"{asks} {named(tests)} set{'s' * (len(tests) == 1)} {times}, {what} needs {LEAST}: write "
                f"repetitions={ENOUGH} there"
            )
        else:
            by = f" by {named(tests)}" if name_tests else ""
            or_preset = " or --carico-preset=ci" if options.repetitions == options.preset.repetitions else ""
            said.append(
                f"{times} would be measured{by}, {what} needs {LEAST}: --carico-repetitions={ENOUGH}{or_preset}"
            )
    file = options.judged_by
    return said if file is None else said + too_few_in_baseline((each for _, each in pairs if each is not None), file)


def named(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
