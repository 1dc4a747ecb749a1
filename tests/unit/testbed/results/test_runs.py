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
from testbed.results.record import RunArguments, RunRecord
from testbed.results.run import read_run
from testbed.results.run_id import iso, new_run_id
from testbed.results.runs import KEPT, all_runs, killed_run_notices, remove_old, run_named
from testbed.results.store import merged, write_complete
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

BEGIN = datetime(2026, 11, 20, 10, 15, 30, tzinfo=UTC)
ARGUMENTS = RunArguments(["pytest", "-m", "cluster"], "smoke", 1, 1001, {"speed": "2"})


def begin(root, after=0, finished=2):
    """A run that has measured so much, in this process."""
    record = RunRecord(root, new_run_id(BEGIN + timedelta(seconds=after), "aaaaaa"), ARGUMENTS)
    folder = record.open("fake")
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
        new_run_id(BEGIN + timedelta(seconds=second), suffix) for second, suffix in [(0, "f"), (1, "0"), (3600, "a")]
    ]
    assert names == sorted(names)
    zone = datetime.fromisoformat("2026-11-20T12:15:30+02:00")
    assert (new_run_id(zone, "f"), iso(zone)) == ("20261120T101530Z-f", "2026-11-20T10:15:30Z")


def test_a_run_says_when_where_and_with_what_it_was_made(tmp_path):
    record = begin(tmp_path)
    begun = record.folder.read()
    assert (begun.state, begun.ended, begun.finished_repetitions) == ("running", None, 2)
    run = end(record, "complete", tmp_path / "r.json")
    assert (run.id, run.started, run.ended) == (
        "20261120T101530Z-aaaaaa",
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


def test_lines_are_removed_where_the_results_have_them_and_kept_otherwise(tmp_path):
    for after, (state, file, kept) in enumerate(
        [
            ("complete", "r.json", False),
            ("complete", None, True),
            ("interrupted", "r.json", True),
            ("failed", None, True),
        ]
    ):
        record = begin(tmp_path, after)
        end(record, state, None if file is None else tmp_path / file)
        assert record.folder.log.path.exists() == kept
        left = {path.name for path in record.folder.path.iterdir()}
        assert left == {"run.json", "repetitions.jsonl"} if kept else {"run.json"}


def test_the_folder_ignores_itself(tmp_path):
    begin(tmp_path)
    assert (tmp_path / ".carico" / ".gitignore").read_text() == "*\n"


def test_two_processes_of_a_run_share_its_folder(tmp_path):
    first, second = (RunRecord(tmp_path, "20261120T101530Z-aaaaaa", ARGUMENTS) for _ in range(2))
    first.open("fake")
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
    run = "20261120T101530Z-aaaaaa"
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


def test_old_runs_are_removed_unless_something_would_be_lost(tmp_path):
    crash(tmp_path, after=0)
    crash(tmp_path, after=1, finished=0)
    killed_run_notices(runs_folder(tmp_path))
    end(begin(tmp_path, after=2), "interrupted", tmp_path / "r.json.partial")
    end(begin(tmp_path, after=3), "complete", tmp_path / "r.json")
    going_on = begin(tmp_path, after=4)
    for after in range(5, 5 + KEPT):
        end(begin(tmp_path, after, finished=0), "complete")
    remove_old(runs_folder(tmp_path))
    kept = [int(run.id[13:15]) - 30 for run in all_runs(runs_folder(tmp_path))]
    assert kept == [0, 2, 4, *range(5, 5 + KEPT)]
    end(going_on, "complete")


def test_a_run_is_named_by_its_id_or_its_folder_or_is_the_latest_with_anything_to_recover(tmp_path):
    with pytest.raises(UsageError, match=r"no run in .* has repetitions to recover"):
        run_named(None, tmp_path)
    first, second = begin(tmp_path, 0), begin(tmp_path, 1)
    end(first, "interrupted")
    end(second, "complete", tmp_path / "r.json")
    assert run_named(None, tmp_path).id == first.folder.id
    assert run_named(second.folder.id, tmp_path).id == second.folder.id
    assert run_named(str(second.folder.path), tmp_path / "elsewhere").id == second.folder.id
    with pytest.raises(UsageError, match="is named 'x'; 'carico-testbed runs' lists"):
        run_named("x", tmp_path)


def test_a_folder_that_cannot_be_created_is_one_message(tmp_path):
    (tmp_path / ".carico").write_text("a file")
    with pytest.raises(ResultsError, match=r"cannot record the run in .*: (Not a directory|File exists)"):
        begin(tmp_path)
