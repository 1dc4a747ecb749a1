"""The testbed's own files, and what programs print."""

import tempfile
from pathlib import Path

import msgspec

from testbed.comparison import USUAL
from testbed.comparison.baseline import Baseline, MadeBy, read_baseline, write_baseline
from testbed.comparison.conditions import conditions
from testbed.comparison.gate import judge
from testbed.comparison.measured import measured
from testbed.errors import ResultsError
from testbed.real.program_pods import dated_by_program, printed_times, request_series
from testbed.report.comparison import failures, gate_line, gate_notes
from testbed.report.kept_gate import compared
from testbed.results.gate_file import BaselineUsed, GateFile, JudgedFigure, read_gate, write_gate
from testbed.results.outcomes_file import read_outcomes, write_outcomes
from testbed.results.reading import read_repetitions
from testbed.results.repetition_log import LogEntry, RepetitionLog
from testbed.results.schema import DataItem, NodeSeries, PodResult, Repetition, RequestSeries, Results
from testbed.results.store import merged, read_results, write_results
from tests.fuzz.target import Target

FOLDER = Path(tempfile.mkdtemp())
FILE = FOLDER / "result.json"
POD = PodResult("pi-0", "pi", "node-0", 0.0, 0.1, 1.0, 4.0, "succeeded", 2.5)
REPETITION = Repetition(
    scenario="pi-2000",
    scheduler="carico",
    seed=1,
    settings={"jobs": [{"name": "pi", "pods": 1, "disturbance": False}]},
    job_completion_time_s={"pi": 4.0},
    pods=[POD],
    nodes=[NodeSeries("node-0", [1.0], [1], *([[0.5]] * 3), *([[None]] * 4))],
    data_items=[DataItem({"mean": 1.0}, "s", {"job": "pi"})],
    requests=[RequestSeries("web-0", "web", "node-0", [1.0], [0.01])],
)

JUDGED = JudgedFigure(
    title="pi-2000",
    condition="pod_completion_time:mean:+10%",
    outcome="ok",
    against="",
    metric="pod_completion_time",
    statistic="mean",
    of=["pi"],
    unit="s",
    reference=4.0,
    candidate=None,
    effect=None,
    is_ratio=True,
    low=None,
    high=1.5,
    repetitions=[3, 3],
    paired=True,
    lacking=0,
)
GATE = GateFile(True, "gate: passed (1 ok)", [], [], [], [JUDGED], [], [], BaselineUsed("base.json", "0" * 64))
MADE_BY = MadeBy("20261120T101530Z-a", "2026-11-20T10:15:30Z", ["pytest"], "simulated", "3.11", {"numpy": "2"}, None)
BASELINE = Baseline(MADE_BY, measured([msgspec.structs.replace(REPETITION, seed=seed) for seed in range(3)]))


def read_file(data):
    FILE.write_bytes(data)
    return read_results(FILE)


def read_damaged(data):
    (FOLDER / "damaged.jsonl").write_bytes(data)
    FILE.write_bytes(data)
    return [read_repetitions(place) for place in (FILE, FOLDER / "damaged.jsonl")]


def what_is_left_can_be_written(read):
    for repetitions, problems in read:
        assert all(problem.startswith(str(FOLDER)) for problem in problems)
        write_results(FILE, merged(repetitions))
        assert read_repetitions(FILE) == (merged(repetitions).repetitions, [])


def results_come_back(results):
    write_results(FILE, results)
    assert read_results(FILE) == results


def read_log(data):
    path = FOLDER / "log.jsonl"
    path.write_bytes(data)
    log = RepetitionLog(path, FOLDER / "log.lock")
    return log, log.read()


def log_is_consistent(read):
    log, (entries, cut_off) = read
    assert cut_off >= 0
    assert len(log) <= len(entries) + cut_off
    before = len(log)
    log.append(LogEntry("a new key", "0" * 64, REPETITION))
    assert log.find("a new key") is not None
    assert len(log) >= before
    assert len(log.read()[0]) == len(entries) + 1


def read_outcomes_of(data):
    FILE.write_bytes(data)
    return read_outcomes(FILE)


def outcomes_come_back(outcomes):
    write_outcomes(FILE, outcomes)
    assert read_outcomes(FILE) == outcomes


def read_gate_of(data):
    FILE.write_bytes(data)
    return read_gate(FILE)


def gates_come_back(gate):
    write_gate(FILE, gate)
    assert read_gate(FILE) == gate
    for one in gate.judgements:
        compared(one)


def read_baseline_of(data):
    FILE.write_bytes(data)
    return read_baseline(FILE)


def baselines_come_back(baseline):
    write_baseline(FILE, baseline)
    assert read_baseline(FILE) == baseline
    gate = judge(baseline.measured, baseline.measured, conditions(USUAL))
    told = [baseline.when, gate_line(gate), *failures(gate), *gate_notes(gate)]
    assert "".join("".join(told).split()).isprintable()


def read_printed(data):
    text = data.decode(errors="replace")
    return text, printed_times(text)


def times_are_in_order(read):
    text, printed = read
    series = request_series(POD, text, 100.0)
    assert len(series.sent_s) == len(series.latency_s)
    if printed is not None:
        pod = dated_by_program(POD, printed, 100.0)
        assert POD.scheduled_s <= pod.started_s <= pod.finished_s <= POD.finished_s


TARGETS = [
    Target(
        "results.file",
        "a results file",
        read_file,
        (ResultsError,),
        results_come_back,
        (msgspec.json.encode(merged([REPETITION])), msgspec.json.encode(Results([]))),
        form="json",
        longest=8192,
    ),
    Target(
        "results.damaged",
        "results that may be damaged",
        read_damaged,
        (),
        what_is_left_can_be_written,
        (
            b'{"schema_version":1,"repetitions":[\n' + msgspec.json.encode(REPETITION) + b',\n{"scena',
            msgspec.json.encode(LogEntry("k", "0" * 64, REPETITION)) + b'\n{"key":"a","repet',
        ),
        form="lines",
        longest=8192,
    ),
    Target(
        "results.log",
        "a log of repetitions",
        read_log,
        (ResultsError,),
        log_is_consistent,
        (msgspec.json.encode(LogEntry("k", "0" * 64, REPETITION)) + b"\n", b'{"key":"a","repet'),
        form="lines",
        longest=8192,
    ),
    Target(
        "results.outcomes",
        "the outcomes of a session",
        read_outcomes_of,
        (ResultsError,),
        outcomes_come_back,
        (b'{"outcomes":[],"schema_version":1}',),
        form="json",
    ),
    Target(
        "results.gate",
        "what a gate has said",
        read_gate_of,
        (ResultsError,),
        gates_come_back,
        (msgspec.json.encode(GATE),),
        form="json",
    ),
    Target(
        "results.baseline",
        "a baseline",
        read_baseline_of,
        (ResultsError,),
        baselines_come_back,
        (msgspec.json.encode(BASELINE),),
        form="json",
        longest=8192,
    ),
    Target(
        "results.printed",
        "what a pod's program prints",
        read_printed,
        (),
        times_are_in_order,
        (
            b"accuracy=0.9 cpu_s=1.250 began_unix_s=100.500 ended_unix_s=103.000",
            b"due_unix_s=102.500000 latency_s=0.001200\n",
        ),
        longest=1024,
    ),
]
