"""The summary at the end of a pytest session: measurements, the verdict on the cluster tests, and the next command."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.comparison import LEAST
from testbed.measurement.metrics import Figure
from testbed.plugin.repetitions import ENOUGH
from testbed.plugin.state import State
from testbed.providers import SIMULATED
from testbed.report.numbers import WIDTH, counted

if TYPE_CHECKING:
    from testbed.results.outcomes import Outcome
    from testbed.results.schema import Repetition

NEXT = {
    "smoke": "pytest -m cluster --carico-preset=ci",
    "ci": "pytest -m cluster --carico-preset=full",
    "full": "carico-testbed run --help",
}
"""The command to run after each preset."""


def summarise(reporter: pytest.TerminalReporter, state: State) -> None:
    """Write the summary; nothing for a session without cluster tests."""
    outcomes = state.outcomes.in_order(state.order)
    if outcomes or state.ended or state.error:
        reporter.ensure_newline()
        reporter.section("carico", sep="=", bold=True)
        reporter.write_line(f"carico: {state.options}")
        _write_tables(reporter, state, outcomes)
        if state.options.aa and outcomes and not state.skip_reason:
            _write_aa_check(reporter, [] if state.results is None else state.results.repetitions)
        if outcomes:
            _write_verdict(reporter, outcomes)
        if state.ended in ("interrupted", "failed"):
            reporter.write_line(f"{state.ended}: {_kept(state)}", yellow=True)
        if state.options.claims is not None:
            _write_claims(state.options.claims, outcomes, state)
        if state.written is not None:
            reporter.write_line(f"results: {state.written}")
        if state.ended is not None:
            reporter.write_line(f"run: {state.run_path}")
        if state.error:
            reporter.write_line(state.error, red=True)
        for message in state.messages:
            reporter.write_line(message)
        reporter.write_line(f"next: {_next(state, outcomes)}")
    if state.for_other_providers:
        count = sum(state.for_other_providers.values())
        tests = f"{counted(count, 'cluster test')} {'is' if count == 1 else 'are'}"
        others = " or ".join(f"--carico-provider={name}" for name in sorted(state.for_other_providers))
        reporter.write_line(f"carico: {tests} for other providers; to run them:")
        reporter.write_line(f"  pytest -m cluster {others}")
    if state.left_out:
        tests = f"{counted(state.left_out, 'cluster test')} {'was' if state.left_out == 1 else 'were'}"
        reporter.write_line(f"carico: {tests} left out; to run them: pytest -m cluster")


def _next(state: State, outcomes: Sequence[Outcome]) -> str:
    """Return the command that a user is most likely to want now."""
    options = state.options
    failed = {one.test for one in outcomes if one.verdict == "failed"}
    by_own_gates = {one.test for one in state.test_gates if not one.passed}
    gate_failed = (state.gate is not None and not state.gate.passed) or (bool(failed) and failed <= by_own_gates)
    if gate_failed and state.written is not None:
        return _comparison(state)
    if failed:
        return _again(state)
    if state.saved is not None and _too_few(state):
        return _more_repetitions(state)
    if state.saved is not None:
        command = f"pytest -m cluster --carico-repetitions={options.repetitions}{_gate_options(state)}"
    else:
        command = NEXT[options.preset.name]
        if command.startswith("pytest"):
            command += _gate_options(state)
        elif state.gate is not None and state.written is not None:  # no session says more
            command = _comparison(state)
    pytest_on_another = options.provider != SIMULATED and command.startswith("pytest")
    return f"{command} --carico-provider={options.provider}" if pytest_on_another else command


def _again(state: State) -> str:
    """Return the command that runs what failed as it was run, and judges it by the same baseline.

    A baseline needs all tests.
    """
    only_failed = state.options.save_baseline is None and not {"--lf", "--last-failed"} & set(state.command)
    return shlex.join([*state.command, *(["--lf"] if only_failed else [])])


def _too_few(state: State) -> bool:
    """Whether a gate would refuse everything that was measured, as more repetitions are needed."""
    repetitions = [] if state.results is None else state.results.repetitions
    most = Counter((one.scenario, one.scheduler) for one in repetitions).most_common(1)
    return state.options.repetitions < LEAST and all(count < LEAST for _, count in most)


def _more_repetitions(state: State) -> str:
    """Return the command that makes the session's baseline anew, with as many repetitions as a gate needs."""
    anew = [f"--carico-save-baseline={state.saved}"] if state.options.only_new else []
    return shlex.join([*state.command, f"--carico-repetitions={ENOUGH}", *anew])


def _comparison(state: State) -> str:
    """Return the command that shows by how much figures differ: those that a gate has found worse, if there are any."""
    baseline = state.options.judged_by
    if baseline is None:
        return f"carico-testbed report {state.run_id}"
    of_session = [] if state.gate is None else state.gate.judgements
    regressed = [one.found.figure for one in of_session if one.outcome == "regressed"]
    regressed += [
        Figure(one.metric, one.statistic)
        for gate in state.test_gates
        for one in gate.judgements
        if one.outcome == "regressed"
    ]
    metrics = "".join(f" --metric {shlex.quote(name)}" for name in dict.fromkeys(one.name for one in regressed))
    return f"carico-testbed compare {shlex.quote(str(baseline))} {state.run_id}{metrics}"


def _gate_options(state: State) -> str:
    """Return the options with which another session is judged as this one is, or by the baseline that it saved."""
    options = state.options
    baseline = state.saved or options.judged_by
    given = [] if baseline is None else [f"--carico-baseline={baseline}"]
    given += [f"--carico-fail-on={text}" for text in options.fail_on]
    if options.fail_on and baseline is None and options.reference is not None:
        given.append(f"--carico-reference={options.reference}")
    return "".join(f" {shlex.quote(one)}" for one in given)


def _kept(state: State) -> str:
    """Say what is left of a session that ended early; results may not have been written, as on a full disk."""
    folder = state.record.folder
    to_recover = state.results is None and folder.to_recover
    count = len(folder.log) if to_recover else 0 if state.results is None else len(state.results.repetitions)
    if not count:
        return "no repetition was finished"
    kept = f"{counted(count, 'finished repetition')} {'is' if count == 1 else 'are'} kept"
    return f"{kept}: {folder.recovery()} --json FILE" if to_recover else f"{kept}, what was running is not"


def _write_tables(reporter: pytest.TerminalReporter, state: State, outcomes: list[Outcome]) -> None:
    if state.results is None and not any(one.rows for one in outcomes):
        return  # the tables need packages that may not be installed
    from testbed.report.claims import paper_table
    from testbed.report.tables import medians

    for module, of_module in groupby((one for one in outcomes if one.rows), _module):
        reporter.write_line("")
        reporter.write_line(module)
        for one in of_module:
            for line in [f"  {_name(one)}", *paper_table(one.rows)]:
                reporter.write_line(line)
    if state.results is not None and state.results.repetitions:
        _write_verdicts(reporter, ["", *medians(state.results.repetitions, state.options.reference)])


def _write_verdicts(reporter: pytest.TerminalReporter, lines: Iterable[str]) -> None:
    """Write a table; only the verdicts, at the ends of lines, are coloured."""
    from testbed.comparison.verdicts import GOOD

    for line in lines:
        verdict = line.rpartition(" ")[2]
        good = GOOD.get(verdict)
        reporter.write(line.removesuffix(verdict))
        reporter.write_line(verdict, green=good is True, red=good is False)


def _write_aa_check(reporter: pytest.TerminalReporter, repetitions: Sequence[Repetition]) -> None:
    from testbed.comparison.aa import aa_rows, aa_verdict
    from testbed.report.aa import aa_sentence, aa_table

    rows = aa_rows(repetitions)
    if rows:
        _write_verdicts(reporter, ["", *aa_table(rows)])
    colour = {"ok": "green", "regressed": "red"}.get(aa_verdict(rows), "yellow")
    for line in textwrap.wrap(aa_sentence(rows), WIDTH, break_on_hyphens=False):
        reporter.write_line(line, **{colour: True})


def _write_verdict(reporter: pytest.TerminalReporter, outcomes: list[Outcome]) -> None:
    from testbed.report.claims import counts, heading

    verdicts = [one.verdict for one in outcomes]
    # The lines must not be green if a test failed or was not measured.
    unmeasured = verdicts.count("not measured")
    bad = "failed" in verdicts or unmeasured == len(outcomes) > 0
    reporter.write_line("")
    for line in counts(outcomes):
        reporter.write_line(line, red=bad, yellow=not bad and unmeasured > 0, green=not bad and not unmeasured)
    for verdict in ("depends on the seed", "not reproduced", "not measured"):
        found = [one for one in outcomes if one.verdict == verdict]
        if not found:
            continue
        reporter.write_line(f"{heading(verdict, outcomes)}: {len(found)}", yellow=True, bold=verdict == "not measured")
        for reason, alike in groupby(found, lambda one: one.reason):
            for one in alike:
                reporter.write_line(f"  {_name(one)}" + (f"  {one.share}" if one.share else ""))
            for paragraph in reason.splitlines():
                for line in textwrap.wrap(paragraph, WIDTH, initial_indent="    ", subsequent_indent="    "):
                    reporter.write_line(line)


def _write_claims(file: Path, outcomes: list[Outcome], state: State) -> None:
    from testbed.report.claims import claims_table

    try:
        file.write_text("\n".join(claims_table({state.options.provider: outcomes})) + "\n", encoding="utf-8")
    except OSError as error:
        state.error = f"cannot write the table of claims to {file}: {error.strerror}"


def _module(outcome: Outcome) -> str:
    return outcome.test.partition("::")[0]


def _name(outcome: Outcome) -> str:
    return outcome.test.partition("::")[2]
