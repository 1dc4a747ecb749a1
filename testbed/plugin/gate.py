"""The gate of a pytest session: what it is judged by, and the failed reports of what has regressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from testbed.comparison.conditions import USUAL, conditions
from testbed.errors import TestbedError
from testbed.plugin.markers import experiment_of
from testbed.plugin.options import Options
from testbed.plugin.state import STATE, State
from testbed.requirements import Problem

if TYPE_CHECKING:
    from testbed.comparison.measured import Measured
    from testbed.measurement.metrics import Figure

NAME = "carico gate"
"""The name of the session's gate among the failed tests; several failures are numbered, as JUnit joins equal names."""
MEASURED: pytest.StashKey[Mapping[str, Sequence[Any]]] = pytest.StashKey()
"""What the fixture `carico_results` gave a test."""


def gate_problems(items: Sequence[pytest.Item], options: Options) -> list[Problem]:
    """Return why the gate could not judge, before anything runs for minutes; needs the testbed's packages."""
    from testbed.comparison.baseline import read_baseline
    from testbed.results.store import check_writable

    found = []
    try:
        if options.baseline is not None and not options.baseline.exists():
            makes = f"pytest -m cluster --carico-save-baseline={options.baseline} makes it of a session that passes"
            found.append(Problem(f"there is no baseline {options.baseline}", makes))
        elif options.baseline is not None:
            read_baseline(options.baseline)
        if options.save_baseline is not None:
            check_writable(options.save_baseline)
    except TestbedError as error:
        found.append(Problem(str(error)))
    if options.baseline is None and options.save_baseline is None:
        found += [
            Problem(
                f"{item.nodeid}: fail_on needs --carico-baseline FILE, or carico_baseline in the ini file; "
                f"--carico-save-baseline FILE makes one"
            )
            for item in items
            if (asked := experiment_of(item)) is not None and asked.fail_on
        ]
    return found


def judge_test(item: pytest.Item) -> None:
    """Fail a test whose marker has `fail_on` if what it measured has regressed."""
    asked, options = experiment_of(item), item.config.stash[STATE].options
    if asked is None or not asked.fail_on or options.baseline is None:
        return
    if MEASURED not in item.stash:
        pytest.fail(
            "fail_on judges what carico_results measured, and the test does not use this fixture", pytrace=False
        )
    from testbed.comparison.baseline import read_baseline
    from testbed.comparison.gate import judge
    from testbed.comparison.measured import measured
    from testbed.report.comparison import failures

    wanted = conditions(asked.fail_on)
    repetitions = [one for runs in item.stash[MEASURED].values() for one in runs]
    ours = measured(repetitions, [one.figure for one in wanted])
    kinds = {(one.scenario, one.scheduler) for one in ours}
    theirs = [one for one in read_baseline(options.baseline).measured if (one.scenario, one.scheduler) in kinds]
    if sentences := failures(judge(theirs, ours, wanted)):
        pytest.fail("\n".join(sentences), pytrace=False)


def judge_session(config: pytest.Config, state: State) -> list[pytest.TestReport]:
    """Judge what the session measured, and return a failed report for every regression.

    If only a part of the tests was chosen, what the baseline has besides is not missed. A session without cluster tests
    is not judged.
    """
    options = state.options
    if options.baseline is None or state.ended not in (None, "complete") or not state.outcomes.in_order(state.order):
        return []
    from testbed.comparison.baseline import read_baseline
    from testbed.comparison.gate import judge
    from testbed.report.comparison import failures, gate_line

    wanted = conditions(options.fail_on or USUAL)
    ours = _measured(state, [one.figure for one in wanted])
    gate = judge(read_baseline(options.baseline).measured, ours, wanted, complete=not _is_part(config))
    state.messages.append(gate_line(gate))
    state.gate_failed = not gate.passed
    sentences = failures(gate)
    names = [NAME] if len(sentences) == 1 else [f"{NAME} {number}" for number in range(1, len(sentences) + 1)]
    return [_failed(name, sentence) for name, sentence in zip(names, sentences, strict=True)]


def save_baseline(state: State, *, passed: bool) -> None:
    """Save what the session measured as a baseline, if one is wanted, unless a test failed.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    file = state.options.save_baseline
    if file is None:
        return
    from testbed.comparison.baseline import baseline_of, write_baseline
    from testbed.measurement.metrics import EVERY

    found = _measured(state, EVERY)  # so that the baseline serves any condition, markers' included
    if not passed or not found:
        state.messages.append(f"no baseline was saved to {file}: only a session that measures and passes makes one")
        return
    write_baseline(file, baseline_of(state.record.folder.read(), found))
    state.messages.append(f"baseline: {file}")


def _measured(state: State, figures: Sequence[Figure]) -> list[Measured]:
    from testbed.comparison.measured import measured

    return [] if state.results is None else measured(state.results.repetitions, figures)


def _is_part(config: pytest.Config) -> bool:
    """Whether the user chose a part of the tests."""
    chosen = config.option.keyword or config.option.markexpr not in ("", "cluster") or config.getoption("lf", False)
    return bool(chosen) or any("::" in str(argument) for argument in config.args)


def _failed(name: str, sentence: str) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=name,
        location=(name, None, name),
        keywords={},
        outcome="failed",
        longrepr=sentence,
        when="call",
    )
