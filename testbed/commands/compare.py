"""``carico-testbed compare``: what changed from one run to another, with verdicts that can be trusted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from carico.commands.output import of_output, print_json, wants_json
from testbed.commands import HELP
from testbed.commands.recorded_run import tell
from testbed.comparison.baseline import Baseline, is_baseline, read_baseline
from testbed.comparison.conditions import conditions
from testbed.comparison.gate import judge
from testbed.comparison.measured import Measured, measured
from testbed.comparison.runs import paired, rows_of
from testbed.errors import ResultsError, UsageError
from testbed.measurement.metrics import DEFAULT, METRICS, Figure, Metric, chosen, recorded, registered
from testbed.measurement.own import installed, own_metrics
from testbed.report.as_json import comparison_as_json
from testbed.report.comparison import changed_schedulers, comparison_table, failures, gate_line, gate_notes
from testbed.report.numbers import wrapped
from testbed.results.run import Run
from testbed.results.runs import RunFolder, run_named
from testbed.results.schema import OwnMetric, Repetition
from testbed.results.store import read_results


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    compare = commands.add_parser(
        "compare",
        help=HELP["compare"],
        description="Compares what two runs measured, scenario by scenario and scheduler by scheduler: the size of "
        "each difference with its 95 % interval, and a verdict (ok, regressed, improved, inconclusive, incomparable) "
        "that is corrected for the number of comparisons.",
        epilog="\n".join(["metrics:", *map(_described, METRICS.values())]),
    )
    for name, what in (("reference", "what the candidate is compared with"), ("candidate", "what is judged")):
        compare.add_argument(
            name, metavar=name.upper(), help=f"{what}: a results file, a baseline, a run's name or folder, or 'latest'"
        )
    compare.add_argument(
        "--metric",
        metavar="METRIC[:STATISTIC]",
        action="append",
        help="compare only this metric (repeatable), for example pod_completion_time:p90 (default: all of which "
        "one direction is better)",
    )
    compare.add_argument(
        "--fail-on",
        metavar="METRIC:STATISTIC:LIMIT",
        action="append",
        help="end with 1 if a figure is certainly worse than this allows (repeatable), such as "
        "pod_completion_time:p99:+10%% or pod_outcome:oom_killed:+0; also if what the reference has was not measured",
    )
    of_output(compare)
    compare.set_defaults(run=_run)


def _described(metric: Metric) -> str:
    better = {True: "less is better", False: "more is better", None: "neither direction is better"}
    return f"  {metric.name} ({metric.unit}): {metric.meaning}; {better[metric.less_is_better]}"


def _run(options: argparse.Namespace) -> int:
    reference, candidate = _read(options.reference), _read(options.candidate)
    # If both define a metric, the candidate's definition is the newer one.
    own = chain(candidate.own_metrics, reference.own_metrics)
    with registered(one.metric for one in installed()), recorded(own):
        return _compare(options, reference, candidate)


def _compare(options: argparse.Namespace, before: _Read, after: _Read) -> int:
    gated = conditions(options.fail_on or ())
    wanted = [figure for text in options.metric for figure in chosen(text)] if options.metric else DEFAULT
    figures = list(dict.fromkeys((*wanted, *(one.figure for one in gated))))
    run = _run_of(options.candidate)
    reference, candidate = before.measured(figures, None if run is None else run.provider), after.measured(figures)
    pairing = paired(reference, candidate)
    rows = rows_of(pairing, wanted)
    gate = judge(reference, candidate, gated) if gated else None
    if wants_json(options):
        print_json(comparison_as_json(pairing, rows, gate))
    else:
        print("\n".join(comparison_table(pairing, rows)))
        earlier = _run_of(options.reference)
        for note in changed_schedulers(earlier.schedulers if earlier else [], run.schedulers if run else []):
            print("\n".join(wrapped(note, indent="")))
    if before.file.samefile(after.file):
        tell(f"both are {after.file}, so that nothing can differ; 'carico-testbed runs' lists the runs")
    judged = gate is not None and bool(gate.judgements)
    if not any(row.compared is not None for row in rows):
        lacking = "figures of these metrics" if judged else "scenario, scheduler and settings with these metrics"
        tell(f"nothing could be compared: the runs have no {lacking} in common")
        if not judged:
            return 1
    if gate is None:
        return 0
    if not wants_json(options):
        print("\n" + "\n".join(wrapped(gate_line(gate), indent="")))
        for sentence in [*failures(gate), *gate_notes(gate)]:
            print("\n".join(wrapped(sentence)))
    return 0 if gate.passed else 1


def _run_of(name: str) -> Run | None:
    """Return what is recorded of a run; None for a file that is not in the folder of its run."""
    file = Path(name)
    try:
        folder = RunFolder(file.parent) if file.is_file() else run_named(name, Path.cwd())
        return folder.read()
    except (UsageError, ResultsError):
        return None


@dataclass(frozen=True)
class _Read:
    """What a results file, a run or a baseline has."""

    file: Path
    repetitions: Sequence[Repetition] = ()
    baseline: Baseline | None = None

    @property
    def own_metrics(self) -> Iterable[OwnMetric]:
        entries = [] if self.baseline is None else self.baseline.measured
        return chain(own_metrics(self.repetitions), *(one.own_metrics for one in entries))

    def measured(self, figures: Sequence[Figure], provider: str | None = None) -> Sequence[Measured]:
        """Return what was measured; of a baseline what the provider measured, if that is known and there is any."""
        if self.baseline is None:
            return measured(self.repetitions, figures)
        return (provider and self.baseline.measured_on(provider)) or self.baseline.measured


def _read(name: str) -> _Read:
    """Read a results file, a run or a baseline.

    Raises
    ------
    UsageError
        If there is none of that name, or it has no repetitions.
    UnusableFile
        If it cannot be read.
    """
    file = Path(name)
    if file.is_file() and is_baseline(file):
        return _Read(file, baseline=read_baseline(file))
    if not file.is_file():
        run = run_named(name, Path.cwd(), or_file=True)
        if not run.result.exists():
            raise UsageError(
                f"run {run.id} has no results: 'carico-testbed recover {run.id}' makes them, if it was killed"
            )
        file = run.result
    repetitions = read_results(file).repetitions
    if not repetitions:
        raise UsageError(f"{file} has no repetitions")
    return _Read(file, repetitions)
