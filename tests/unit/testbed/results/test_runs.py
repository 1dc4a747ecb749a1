"""The folder of runs: what a run says of itself, what is kept of it, and for how long."""

import hashlib
import json
import os
import signal
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from testbed.errors import ResultsError, UsageError
from testbed.experiment.cache import Cache
from testbed.results import runs_folder
from testbed.results.ending import end_run
from testbed.results.record import RunArguments, RunRecord
from testbed.results.run import read_run
from testbed.results.run_id import iso, new_run_id
from testbed.results.runs import all_runs, killed_run_notices, remove_all_but, run_named
from testbed.results.store import merged, read_results, write_complete
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

BEGIN = datetime(2026, 11, 20, 10, 15, 30, tzinfo=UTC)
ARGUMENTS = RunArguments(["pytest", "-m", "cluster"], "smoke", 1, 1001, {"speed": "2"})


def begin(root, after=0, finished=2):
    """A run that has measured so much, in this process."""
    record = RunRecord(root, new_run_id(BEGIN + timedelta(seconds=after), "aaa"), ARGUMENTS)
    folder = record.open(FakeProvider())
    trial = FakeProvider().check(load_scenario("pi-2000").scaled(pods=2), parse_spec("carico"), {})
    for seed in range(finished):
        Cache(folder).trial(trial).run(seed)
    return record


def end(record, state, results=None):
    entries, _ = record.folder.log.read()
    if results is not None:
        write_complete(results, merged(entry.repetition for entry in entries))
    record.close(state, entries, BEGIN + timedelta(minutes=2), results)
    return read_run(record.folder.file)


def crash(root, after=0, finished=2):
    """A run whose process has been killed."""
    if (child := os.fork()) == 0:
        begin(root, after, finished)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_names_sort_by_time_whatever_their_suffix():
    names = [
        new_run_id(BEGIN + timedelta(seconds=second), suffix)
        for second, suffix in [(0, "fff"), (0.001, "000"), (0.5, "fff"), (0.501, "000"), (1, "000"), (3600, "aaa")]
    ]
    assert names == sorted(names)
    zone = datetime.fromisoformat("2026-11-20T12:15:30+02:00")
    assert (new_run_id(zone, "fff"), iso(zone)) == ("20261120T101530Z-000fff", "2026-11-20T10:15:30Z")


def test_a_run_says_when_where_and_with_what_it_was_made(tmp_path):
    record = begin(tmp_path)
    begun = record.folder.read()
    assert (begun.state, begun.ended, begun.finished_repetitions) == ("running", None, 2)
    run = end(record, "complete", tmp_path / "r.json")
    assert (run.id, run.started, run.ended) == (
        "20261120T101530Z-000aaa",
        "2026-11-20T10:15:30Z",
        "2026-11-20T10:17:30Z",
    )
    assert (run.state, run.finished_repetitions, run.provider) == ("complete", 2, "fake")
    assert (run.command, run.preset, run.seed, run.settings) == (ARGUMENTS.command, "smoke", 1001, {"speed": "2"})
    assert [(used.text, used.name) for used in run.schedulers] == [("carico", "carico")]
    scenario = json.dumps(
        json.loads(msgspec.json.encode(load_scenario("pi-2000").scaled(pods=2))),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    assert [(used.scenario, used.sha256) for used in run.workloads] == [
        ("pi-2000", hashlib.sha256(scenario.encode()).hexdigest())
    ]
    assert run.results.sha256 == hashlib.sha256((tmp_path / "r.json").read_bytes()).hexdigest()
    assert run.kubernetes_version is None
    assert run.packages["numpy"]
    assert run.machine.cpus >= 1


@pytest.mark.parametrize("state", ["complete", "interrupted", "failed"])
def test_lines_become_the_runs_own_results(tmp_path, state):
    record = begin(tmp_path)
    ending = end_run(record, state, None, BEGIN)
    assert ending.file == record.folder.result
    assert {path.name for path in record.folder.path.iterdir()} == {"run.json", "result.json"}
    assert len(read_results(record.folder.result).repetitions) == 2


def test_a_file_that_was_asked_for_is_written_besides(tmp_path):
    complete, interrupted = begin(tmp_path, 0), begin(tmp_path, 1)
    assert end_run(complete, "complete", tmp_path / "r.json", BEGIN).file == tmp_path / "r.json"
    assert (tmp_path / "r.json").read_bytes() == complete.folder.result.read_bytes()
    assert end_run(interrupted, "interrupted", tmp_path / "r.json", BEGIN).file == tmp_path / "r.json.partial"
    assert (tmp_path / "r.json").read_bytes() == complete.folder.result.read_bytes()


def test_results_that_cannot_be_written_leave_the_lines(tmp_path):
    record = begin(tmp_path)
    record.folder.result.mkdir()
    with pytest.raises(ResultsError, match=r"cannot write the results to .*; to write them elsewhere: carico-testbed"):
        end_run(record, "complete", None, BEGIN)
    assert record.folder.log.path.exists()
    assert read_run(record.folder.file).state == "failed"


def test_the_folder_ignores_itself(tmp_path):
    begin(tmp_path)
    assert (tmp_path / ".carico" / ".gitignore").read_text() == "*\n"


def test_two_processes_of_a_run_share_its_folder(tmp_path):
    first, second = (RunRecord(tmp_path, "20261120T101530Z-000aaa", ARGUMENTS) for _ in range(2))
    first.open(FakeProvider())
    begun = first.folder.file.read_bytes()
    assert second.open("another").path == first.folder.path
    assert first.folder.file.read_bytes() == begun


def test_a_newer_version_is_refused_and_unknown_keys_are_ignored(tmp_path):
    file = begin(tmp_path).folder.file
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written | {"weather": "fair"}))
    assert read_run(file).id == written["id"]
    file.write_text(json.dumps(written | {"schema_version": 2}))
    with pytest.raises(ResultsError, match=r"run\.json has schema_version 2, .*reads up to 1: update carico-testbed"):
        read_run(file)


def test_a_run_that_was_killed_is_told_of_once_with_the_command_that_recovers_it(tmp_path, monkeypatch):
    crash(tmp_path)
    folder = runs_folder(tmp_path)
    assert all_runs(folder)[0].read().state == "failed"
    run = "20261120T101530Z-000aaa"
    notice = f"an earlier run left 2 finished repetitions: carico-testbed recover {folder / run}"
    assert killed_run_notices(folder) == [notice]
    assert killed_run_notices(folder) == []
    assert read_run(folder / run / "run.json").finished_repetitions == 2
    monkeypatch.chdir(tmp_path)
    assert all_runs(folder)[0].recovery() == f"carico-testbed recover {run}"


def test_a_run_that_goes_on_has_left_nothing(tmp_path):
    record = begin(tmp_path)
    assert killed_run_notices(runs_folder(tmp_path)) == []
    end(record, "interrupted")
    assert killed_run_notices(runs_folder(tmp_path)) == []


def test_a_run_that_was_killed_before_anything_was_finished_is_not_worth_a_word(tmp_path):
    crash(tmp_path, finished=0)
    assert killed_run_notices(runs_folder(tmp_path)) == []
    assert all_runs(runs_folder(tmp_path))[0].read().state == "failed"


def test_only_the_user_removes_runs_and_none_that_goes_on(tmp_path):
    for after in range(3):
        end_run(begin(tmp_path, after), "complete", None, BEGIN)
    going_on = begin(tmp_path, after=3)
    end_run(begin(tmp_path, after=4), "complete", None, BEGIN)
    folder = runs_folder(tmp_path)
    assert len(all_runs(folder)) == 5
    removed = remove_all_but(folder, 1)
    assert [run.id[13:15] for run in removed] == ["30", "31", "32"]
    assert [run.id[13:15] for run in all_runs(folder)] == ["33", "34"]
    assert remove_all_but(folder, 9) == []
    end_run(going_on, "complete", None, BEGIN)


def test_a_run_is_named_by_its_id_its_folder_or_as_the_latest(tmp_path):
    with pytest.raises(UsageError, match=r"no run in .* has repetitions to recover"):
        run_named(None, tmp_path)
    crash(tmp_path, 0)
    with pytest.raises(UsageError, match=r"no run in .* has results"):
        run_named("latest", tmp_path)
    first, second = begin(tmp_path, 1), begin(tmp_path, 2)
    end_run(second, "complete", None, BEGIN)
    end_run(first, "interrupted", None, BEGIN)
    assert run_named(None, tmp_path).id.startswith("20261120T101530Z")
    assert run_named("latest", tmp_path).id == second.folder.id
    assert (tmp_path / ".carico" / "latest").resolve() == second.folder.path
    assert run_named(second.folder.id, tmp_path).id == second.folder.id
    assert run_named(str(second.folder.path), tmp_path / "elsewhere").id == second.folder.id
    with pytest.raises(UsageError, match="is named 'x'; 'carico-testbed runs' lists"):
        run_named("x", tmp_path)
    with pytest.raises(UsageError, match=f"did you mean '{first.folder.id}'"):
        run_named(first.folder.id.replace("Z", "z"), tmp_path)


def test_a_folder_that_cannot_be_created_is_one_message(tmp_path):
    (tmp_path / ".carico").write_text("a file")
    with pytest.raises(ResultsError, match=r"cannot record the run in .*: (Not a directory|File exists)"):
        begin(tmp_path)
