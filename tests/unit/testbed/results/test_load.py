"""Loading results as frames: every number is there, and what is damaged spares the rest."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import testbed.requirements
from testbed.errors import DamagedResults, MissingExtra, ResultsError, UnusableFile, UsageError
from testbed.experiment.cache import Cache
from testbed.experiment.plan import Plan
from testbed.results import load
from testbed.results.ending import end_run
from testbed.results.frames import KEYS
from testbed.results.reading import read_all
from testbed.results.record import RunArguments, RunRecord
from testbed.results.store import merged, write_results
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

RUN_ID = "20261120T101530Z-aaaaaa"


def simulated(scenario="pi-2000", pods=6, nodes=2, scheduler="carico", seed=1):
    scaled = load_scenario(scenario).scaled(pods, nodes)
    return SimulatedCluster(scaled, parse_spec(scheduler), seed, parameters_from({})).run()


@pytest.fixture(scope="module")
def measured():
    isolated = load_scenario("isolation-one-node")
    return [
        *(simulated(seed=seed) for seed in (1, 2)),
        SimulatedCluster(isolated, parse_spec("kube-scheduler"), 1, parameters_from({})).run(),
    ]


@pytest.fixture
def file(tmp_path, measured, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "r.json"
    write_results(path, merged(measured))
    return path


def fake(repetitions=3, outcome="succeeded"):
    plan = Plan(load_scenario("pi-2000").scaled(pods=2), (parse_spec("carico"),), repetitions, 1, {})
    return plan.check(FakeProvider(outcome)).run()


def begun_run(root, run_id=RUN_ID, repetitions=2):
    record = RunRecord(root, run_id, RunArguments(["pytest"], "smoke", repetitions, 1, {}))
    folder = record.open(FakeProvider())
    trial = FakeProvider().check(load_scenario("pi-2000").scaled(pods=2), parse_spec("carico"), {})
    for seed in range(repetitions):
        Cache(folder).trial(trial).run(seed)
    return record


def test_every_number_of_a_file_is_in_a_frame(file, measured):
    found = load(file)
    assert len(found.repetitions) == 3
    assert len(found.pods) == sum(len(one.pods) for one in measured)
    assert len(found.nodes) == sum(len(node.time_s) for one in measured for node in one.nodes)
    assert len(found.requests) == sum(len(series.sent_s) for one in measured for series in one.requests) > 0
    assert len(found.data_items) == sum(len(item.data) for one in measured for item in one.data_items)
    assert len(found.costs) == 0, "only the variant demand learns what pods take"
    for frame in (
        found.repetitions,
        found.jobs,
        found.pods,
        found.nodes,
        found.costs,
        found.requests,
        found.data_items,
    ):
        assert tuple(frame.columns[: len(KEYS)]) == KEYS


def test_frames_agree_with_what_was_measured(file, measured):
    found = load(file)
    pi = found.repetitions[found.repetitions.scenario == "pi-2000"].set_index("seed")
    assert {seed: pi.jct_s[seed] for seed in (1, 2)} == {
        one.seed: one.job_completion_time_s["pi-2000"] for one in measured[:2]
    }
    assert (pi.succeeded == 6).all()
    items = found.data_items.query("metric == 'pod_completion_time' and statistic == 'mean' and job == 'pi-2000'")
    of_pods = found.pods[found.pods.job == "pi-2000"].groupby("repetition").pct_s.mean()
    assert list(items["value"]) == pytest.approx(list(of_pods), abs=1e-6)
    assert set(found.data_items[found.data_items.metric == "request_latency"].phase) == {"before", "during"}
    assert found.settings[pi.settings[1]]["nodes"] == 2
    assert found.pods.cpu_s.dtype == "float64"  # simulated pods print nothing


def test_what_nodes_have_learned_is_a_frame_of_its_own(tmp_path):
    learned = simulated(scheduler="carico:variant=demand")
    write_results(tmp_path / "r.json", merged([learned]))
    costs = load(tmp_path / "r.json").costs
    assert len(costs) == sum(len(cost.cores) for node in learned.nodes for cost in node.costs) > 0
    assert set(costs.workload) == {"pi-2000"}
    assert costs.cores.dtype == costs.gib.dtype == "float64"


def test_a_job_that_did_not_complete_has_no_time(tmp_path):
    write_results(tmp_path / "r.json", merged(fake(1, outcome="evicted")))
    found = load(tmp_path / "r.json").repetitions
    assert found.jct_s.isna().all()
    assert list(found.evicted) == [1]


def test_runs_are_named_as_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = begun_run(tmp_path)
    end_run(record, "complete", None, datetime(2026, 11, 20, tzinfo=UTC))
    folder = tmp_path / ".carico/runs" / RUN_ID
    for name in ("latest", RUN_ID, folder, str(folder), folder / "result.json", ".carico/latest"):
        assert set(load(name).repetitions.run) == {RUN_ID}
    assert set(load().repetitions.provider) == {"fake"}
    assert len(load("latest", RUN_ID, folder / "result.json").repetitions) == 2  # each once


def test_several_runs_stand_in_one_frame(tmp_path, file):
    write_results(tmp_path / "other.json", merged(fake(1)))
    found = load(file, tmp_path / "other.json").repetitions
    assert list(found.groupby("run", sort=False).size()) == [3, 1]
    assert list(found.repetition) == [0, 1, 2, 3]


def test_a_killed_run_has_what_it_had_finished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = begun_run(tmp_path).folder.log.path
    log.write_bytes(log.read_bytes()[:-20])
    with pytest.warns(DamagedResults, match=r"repetitions\.jsonl:2 is not a"):
        assert len(load(RUN_ID).repetitions) == 1


def test_a_killed_run_has_failed_and_one_that_goes_on_says_so(tmp_path):
    record = begun_run(tmp_path)
    assert [one.run.state for one in read_all([record.folder.path], tmp_path)] == ["running"]
    record.folder.processes.leave()
    assert [one.run.state for one in read_all([record.folder.path], tmp_path)] == ["failed"]


DAMAGES = {
    "a bad record": (lambda lines: [lines[0], lines[1].replace(b'"seed":', b'"seed":"x'), *lines[2:]], 2),
    "a wrong type": (lambda lines: [lines[0], lines[1].replace(b'"seed":', b'"seed":1.5,"s":'), *lines[2:]], 2),
    "cut off within a line": (lambda lines: [*lines[:3], lines[3][:50]], 4),
    "cut off between lines": (lambda lines: lines[:3], 3),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_spares_the_rest_and_is_told_with_its_line(tmp_path, damage):
    change, line = DAMAGES[damage]
    path = tmp_path / "r.json"
    write_results(path, merged(fake(3)))
    path.write_bytes(b"\n".join(change(path.read_bytes().splitlines())))
    with pytest.warns(DamagedResults, match=rf"r\.json:{line} "):
        assert len(load(path).repetitions) == 2


def test_a_newer_file_spares_the_others(tmp_path, file):
    newer = tmp_path / "newer.json"
    newer.write_bytes(file.read_bytes().replace(b'"schema_version":1', b'"schema_version":2', 1))
    with pytest.warns(DamagedResults, match=r"newer\.json has schema_version 2.*update carico-testbed"):
        assert len(load(newer, file).repetitions) == 3
    with pytest.raises(UnusableFile, match=r"no results in .*newer\.json: .*schema_version 2"):
        load(newer)


def test_entries_of_a_newer_version_spare_the_others(tmp_path):
    log = begun_run(tmp_path).folder.log.path
    first, second = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join([first, second.replace(b'"schema_version":1', b'"schema_version":9'), b""]))
    (reading,) = read_all([log.parent], tmp_path)
    assert len(reading.repetitions) == 1
    assert "repetitions.jsonl:2 has schema_version 9" in reading.problems[0]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", UnusableFile, "no results in .*r.json: .*is not a results file"),
        (b"\x00\xff", UnusableFile, "no results in .*is not a results file"),
        (b'{"schema_version":1,"repetitions":[]}', UsageError, "no results in .*r.json"),
    ],
)
def test_nothing_to_load_is_one_message(tmp_path, content, kind, message):
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(kind, match=message):
        load(path)


def test_an_unknown_name_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"neither a file nor a run in .* is named 'x'"):
        load("x")
    with pytest.raises(UsageError, match=r"no run in .* has results"):
        load()


def test_a_record_that_cannot_be_read_spares_the_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    end_run(begun_run(tmp_path), "complete", None, datetime(2026, 11, 20, tzinfo=UTC))
    (tmp_path / ".carico/latest/run.json").write_text("{")
    with pytest.warns(DamagedResults, match=r"run\.json is not a description of a run"):
        assert len(load("latest").repetitions) == 2


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda module: None if module == "pandas" else 1)
    with pytest.raises(MissingExtra, match=r"frames need pandas: pip install 'carico-testbed\[analysis\]'"):
        load("latest")


def test_the_package_does_not_import_pandas():
    code = "import sys, testbed.results, testbed.results.store; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path.cwd())


def test_a_moved_run_keeps_its_name(tmp_path, monkeypatch):
    end_run(begun_run(tmp_path), "complete", None, datetime(2026, 11, 20, tzinfo=UTC))
    moved = tmp_path / "elsewhere" / RUN_ID
    shutil.copytree(tmp_path / ".carico/runs" / RUN_ID, moved)
    assert set(load(moved).repetitions.run) == {RUN_ID}


def test_what_is_judged_is_read_strictly(tmp_path):
    from testbed.results.store import read_results

    path = tmp_path / "r.json"
    write_results(path, merged(fake(2)))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ResultsError, match="is not a results file"):
        read_results(path)
