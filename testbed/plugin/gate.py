"""The gate of a pytest session: what it is judged by, and the failed reports of what is worse than allowed.

A session is judged by a baseline; without one, its schedulers are judged by the reference of their table.
"""

from __future__ import annotations

import hashlib
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from testbed.comparison import LEAST, USUAL
from testbed.comparison.conditions import conditions
from testbed.errors import TestbedError
from testbed.measurement.metrics import metric_named
from testbed.plugin.marked import MarkedExperiment, experiment_of
from testbed.plugin.options import Options
from testbed.plugin.repetitions import ENOUGH
from testbed.plugin.selection import leaves_out_files
from testbed.plugin.state import STATE, State, provider_name, provider_of
from testbed.providers import EXTERNAL, SIMULATED
from testbed.report.numbers import wrapped
from testbed.requirements import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.comparison.baseline import Baseline
    from testbed.comparison.gate import Gate
    from testbed.comparison.measured import Measured
    from testbed.measurement.metrics import Figure

NAME = "carico gate"
"""The name of the session's gate among the failed tests; several failures are numbered, as JUnit joins equal names."""
AA_NAME = "carico A/A check"
MEASURED: pytest.StashKey[Mapping[str, Sequence[Any]]] = pytest.StashKey()
"""What the fixture `carico_results` gave a test."""
NOT_PASSED: pytest.StashKey[Sentences] = pytest.StashKey()
"""Why a test has not passed its own gate."""


def gate_problems(items: Sequence[pytest.Item], options: Options) -> list[Problem]:
    """Return why the gate could not judge, before anything runs for minutes; needs the testbed's packages."""
    from testbed.comparison.baseline import read_baseline
    from testbed.results.store import check_writable

    found = []
    try:
        if options.judged_by is not None and not options.judged_by.exists():
            found.append(Problem(f"there is no baseline {options.baseline}", _makes(items, options)))
        elif options.judged_by is not None:
            read_baseline(options.judged_by)
        if options.save_baseline is not None:
            check_writable(options.save_baseline, "the baseline")
            found += _occupied(options.save_baseline)
    except TestbedError as error:
        found.append(Problem(str(error)))
    if not options.judges_schedulers:
        return found
    for item in items:
        asked = experiment_of(item)
        if asked is not None and asked.fail_on and len(asked.schedulers) == 1:
            found.append(
                Problem(
                    f"{item.nodeid}: fail_on has nothing to judge {asked.schedulers[0]} by: name a second scheduler "
                    f"(the first is the reference), or give --carico-baseline FILE; --carico-save-baseline=FILE makes "
                    f"one"
                )
            )
    return found


def unmeasured_problems(items: Sequence[pytest.Item], options: Options, provider: str) -> list[Problem]:
    """Return which conditions no figure will meet, because the simulated cluster does not measure their metric."""
    if provider != SIMULATED or (options.judged_by is None and not options.judges_schedulers):
        return []
    marked = [text for item in items if (one := experiment_of(item)) is not None for text in one.fail_on]
    return [
        Problem(
            f"the gate {text} has nothing to judge: {metric.name} is measured on real clusters only",
            "leave it out, or choose one with --carico-provider",
        )
        for text in dict.fromkeys([*options.fail_on, *marked])
        if not (metric := metric_named(text.partition(":")[0])).simulated
    ]


def _makes(items: Sequence[pytest.Item], options: Options) -> str:
    """Say which command makes the baseline that is lacking: the session's own, with repetitions that a gate accepts."""
    more = [f"--carico-save-baseline={options.baseline}"]
    if options.repetitions < LEAST:
        more.insert(0, f"--carico-repetitions={ENOUGH}")
    given = items[0].config.invocation_params.args if items else ("-m", "cluster")
    return f"{shlex.join(['pytest', *map(str, given), *more])} makes it of a session that passes"


def _occupied(file: Path) -> list[Problem]:
    """Return why a file that exists cannot be saved to: of a baseline, what this session does not measure is kept."""
    from testbed.comparison.baseline import read_baseline

    try:
        if file.exists():
            read_baseline(file)
    except TestbedError as error:
        return [Problem(str(error), "only a baseline is made anew: name another file, or delete this one first")]
    return []


def other_machine_notices(config: pytest.Config) -> Iterator[str]:
    """Yield a warning if the baseline comes from another machine, where figures depend on the machine."""
    file = config.stash[STATE].options.judged_by
    if file is None:
        return
    from testbed.comparison.baseline import differing_machines, read_baseline
    from testbed.results.provenance import machine

    with suppress(TestbedError):  # the preflight tells it, and ends the session
        provider = provider_of(config)
        if not provider.shared_hardware or provider.name == EXTERNAL:
            return
        for differs in differing_machines(read_baseline(file), provider.name, machine()):
            yield (
                f"WARNING: the baseline {file} was made on another machine ({differs}): its figures are no measure for "
                f"this one. Make it anew here, or leave it out: --carico-fail-on then judges schedulers within this "
                f"session"
            )


def judge_test(item: pytest.Item) -> None:
    """Fail a test whose marker has `fail_on` if what it measured is worse than that."""
    asked, options = experiment_of(item), item.config.stash[STATE].options
    if asked is None or not asked.fail_on or (options.judged_by is None and not options.judges_schedulers):
        return
    if MEASURED not in item.stash:
        pytest.fail(
            "fail_on judges what carico_results measured, and the test does not use this fixture", pytrace=False
        )
    from testbed.report.comparison import failures

    gate = _gate_of_test(item, asked)
    if sentences := [*failures(gate), *_keep_of_test(item, gate)]:
        item.stash[NOT_PASSED] = Sentences("\n".join(map(_in_one_line, sentences)))
        pytest.fail(item.stash[NOT_PASSED], pytrace=False)


def _gate_of_test(item: pytest.Item, asked: MarkedExperiment) -> Gate:
    from testbed.comparison.baseline import read_baseline
    from testbed.comparison.gate import judge, judge_schedulers
    from testbed.comparison.measured import measured

    wanted, options = conditions(asked.fail_on), item.config.stash[STATE].options
    results = item.stash[MEASURED]
    ours = measured([one for runs in results.values() for one in runs], [one.figure for one in wanted])
    if options.judged_by is None:
        named = options.reference if options.reference in asked.schedulers else None
        return judge_schedulers(ours, named or asked.schedulers[0], wanted)
    kinds = {(one.scenario, one.scheduler) for one in ours}
    reference = _reference(item.config, read_baseline(options.judged_by))
    theirs = [one for one in reference if (one.scenario, one.scheduler) in kinds]
    return judge(theirs, ours, wanted, complete=False)  # another test may measure the same with other settings


def tell_test_gates(state: State) -> None:
    """Tell in the summary what the gates of single tests have said; why one has not passed, the failed test tells."""
    if state.ended is None:
        return
    from testbed.results.gate_file import read_gate

    files = state.record.folder.test_gates.glob("*.json")
    state.test_gates = sorted(map(read_gate, files), key=lambda one: one.test)
    for one in state.test_gates:
        state.messages += wrapped(f"{one.test}: {one.line}", indent="")
        state.messages += [line for said in one.notes for line in wrapped(said)]


def judge_session(config: pytest.Config, state: State) -> list[pytest.TestReport]:
    """Judge what the session measured, and return a failed report for everything that is worse than allowed.

    If only a part of the tests was chosen, by files too, what the baseline has besides is not missed. A session without
    cluster tests is not judged.
    """
    options = state.options
    if state.ended not in (None, "complete") or not state.outcomes.in_order(state.order):
        return []
    if options.judged_by is None and not (options.judges_schedulers and options.fail_on):
        return []
    from testbed.comparison.baseline import lacking, read_baseline
    from testbed.comparison.gate import judge, judge_schedulers
    from testbed.report.comparison import failures, gate_line, gate_notes

    wanted = conditions(options.fail_on or USUAL)
    ours = measured_by(state, [one.figure for one in wanted])
    if options.judged_by is None:
        gate = judge_schedulers(ours, options.reference, wanted)
        notes = []
    else:
        baseline = read_baseline(options.judged_by)
        if options.only_new:
            new = lacking(baseline, ours)
            ours = [one for one in ours if one not in new]
        is_part = is_part_of(config, state, baseline)
        reference = _reference(config, baseline)
        gate = judge(reference, ours, wanted, complete=not is_part)
        notes = list(other_machine_notices(config))
        if elsewhere := len(baseline.measured) - len(reference):
            of_all = f"{elsewhere} of {len(baseline.measured)} entries of the baseline"
            notes.insert(0, f"not asked for, as another provider measured them: {of_all}")
        if is_part and gate.not_measured:
            of_all = f"{len(gate.not_measured)} of {len(baseline.measured)} entries of the baseline"
            notes.insert(0, f"not asked for, as only a part of the tests was chosen: {of_all}")
    state.messages += wrapped(gate_line(gate), indent="")
    state.messages += [line for said in gate_notes(gate) for line in wrapped(said)]
    state.messages += [line for said in notes for line in wrapped(said, indent="")]
    state.gate = gate
    _keep(state, gate)
    sentences = failures(gate)
    names = [NAME] if len(sentences) == 1 else [f"{NAME} {number}" for number in range(1, len(sentences) + 1)]
    return [failed_report(name, sentence) for name, sentence in zip(names, sentences, strict=True)]


def is_part_of(config: pytest.Config, state: State, baseline: Baseline) -> bool:
    """Whether the user chose only a part of the tests that a baseline was made of."""
    return state.is_part or leaves_out_files(config, [one.command for one in baseline.makers])


def _reference(config: pytest.Config, baseline: Baseline) -> Sequence[Measured]:
    """Return what a baseline has of the session's provider; if it has nothing, all, so that it is told what differs."""
    return baseline.measured_on(provider_name(config)) or baseline.measured


def _keep(state: State, gate: Gate) -> None:
    """Keep what the gate has said in the run's folder, if there was a run, for reports that are made later."""
    if state.ended is None:
        return
    try:
        _write(state.record.folder.gate, gate, state.options)
    except OSError as error:
        state.error = f"cannot keep what the gate said in {state.run_path}: {error.strerror}"


def _keep_of_test(item: pytest.Item, gate: Gate) -> list[str]:
    """Keep what a test's gate has said, and return why that was not possible.

    Every test has a file of its own, as any of xdist's processes may run it.
    """
    state = item.config.stash[STATE]
    folder = state.record.folder.test_gates
    try:
        folder.mkdir(exist_ok=True)
        _write(folder / f"{zlib.crc32(item.nodeid.encode()):08x}.json", gate, state.options, item.nodeid)
    except OSError as error:
        return [f"cannot keep what the gate said in {folder}: {error.strerror}"]
    return []


def _write(path: Path, gate: Gate, options: Options, test: str = "") -> None:
    from testbed.report.kept_gate import kept
    from testbed.results.gate_file import BaselineUsed, write_gate

    file = options.judged_by
    used = None if file is None else BaselineUsed(str(file), hashlib.sha256(file.read_bytes()).hexdigest())
    write_gate(path, kept(gate, used, test))


def judge_noise(state: State) -> list[pytest.TestReport]:
    """Return a failed report if the A/A check has found that a scheduler differs from itself."""
    if not state.options.aa or state.results is None or state.ended != "complete":
        return []
    from testbed.comparison.aa import aa_rows, aa_verdict
    from testbed.report.aa import aa_sentence

    rows = aa_rows(state.results.repetitions)
    return [failed_report(AA_NAME, aa_sentence(rows))] if aa_verdict(rows) == "regressed" else []


def measured_by(state: State, figures: Sequence[Figure]) -> list[Measured]:
    """Return what a session measured; nothing if it measured nothing."""
    from testbed.comparison.measured import measured

    return [] if state.results is None else measured(state.results.repetitions, figures)


def failed_report(name: str, sentence: str) -> pytest.TestReport:
    """Return the report of something that failed and is no test."""
    return pytest.TestReport(
        nodeid=name,
        location=(name, None, name),
        keywords={},
        outcome="failed",
        longrepr=Sentences(_in_one_line(sentence)),
        when="call",
    )


def _in_one_line(sentence: str) -> str:
    """Return a sentence without the line breaks that a name in it may have: each line is told as one of ours."""
    return " ".join(sentence.split())


class Sentences(str):
    """What a report says: whole in files such as JUnit's, wrapped on the terminal."""

    __slots__ = ()

    @property
    def reprcrash(self) -> SimpleNamespace:
        """What a line of the short summary says: pytest 8 shows it only if it finds it here."""
        return SimpleNamespace(message=str(self))

    def toterminal(self, writer: Any) -> None:
        """Write the sentences, as pytest asks of what a report holds."""
        for sentence in self.splitlines():
            for line in wrapped(sentence, indent=""):
                writer.line(line)
