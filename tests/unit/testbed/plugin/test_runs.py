"""The run of a session: its folder, and the results of interrupted and killed sessions."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from testbed.cli import main
from testbed.errors import ResultsError
from testbed.results.repetition_log import RepetitionLog
from testbed.results.runs import all_runs
from testbed.results.store import read_results

LONG = """
    import pytest

    @pytest.mark.cluster
    def test_long(carico_experiment):
        carico_experiment.run("pi-2000", "carico", pods=3, repetitions=5)
"""
CTRL_C = """
    from testbed.testing import FakeProvider

    def pytest_carico_provider(config):
        return FakeProvider(interrupt_after={after})
"""
SIGNALLED = """
    import os
    import signal
    from testbed.testing import FakeProvider

    class Signalled(FakeProvider):
        def run(self, *arguments):
            if len(self.calls) == {after}:
                os.kill(os.getpid(), {signal})
            return super().run(*arguments)

    def pytest_carico_provider(config):
        return Signalled()
"""


@pytest.fixture
def runs(pytester):
    """A function that returns all runs."""
    return lambda: all_runs(pytester.path / ".carico" / "runs")


@pytest.fixture
def interrupted(session, pytester):
    """A function that runs the long test with a Ctrl-C after a number of repetitions."""
    pytester.makepyfile(test_long=LONG)

    def run(after):
        pytester.makeconftest(CTRL_C.format(after=after))
        return session("-m", "cluster", no_reraise_ctrlc=True)

    return run


def program(folder, number, after, more=""):
    """Run the long test in another process with a signal after a number of repetitions; return its exit code."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(dedent(SIGNALLED.format(after=after, signal=int(number)) + more))
    (folder / "test_long.py").write_text(dedent(LONG))
    command = [sys.executable, "-m", "pytest", "-p", "testbed.plugin", "-m", "cluster"]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=folder, env=os.environ | alone, capture_output=True, check=False).returncode


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    assert program(folder, signal.SIGKILL, after=3) == -signal.SIGKILL
    return folder


@pytest.fixture
def killed(killed_once, session, pytester):
    """The folder of a session that was killed after three repetitions."""
    shutil.copytree(killed_once, pytester.path, dirs_exist_ok=True)


def test_a_complete_run_leaves_only_its_records_and_the_results(session, pytester, mixed, runs):
    result = session("-m", "cluster", "--carico-seed=7")
    (folder,) = runs()
    result.stdout.fnmatch_lines([f"results: {folder.result}", f"run: {folder.path}"])
    run = folder.read()
    assert (run.state, run.finished_repetitions, run.seed, run.preset) == ("complete", 1, 7, "smoke")
    assert run.command[0] == "pytest"
    assert run.command[-3:] == ["-m", "cluster", "--carico-seed=7"]
    assert run.results.path == str(folder.result)
    assert sorted(path.name for path in folder.path.iterdir()) == ["outcomes.json", "result.json", "run.json"]
    assert (pytester.path / ".carico" / "latest").resolve() == folder.path


def test_every_session_has_its_own_run_and_the_same_results(session, pytester, mixed, runs):
    for _ in range(2):
        session("-m", "cluster")
    first, second = runs()
    assert first.result.read_bytes() == second.result.read_bytes()
    assert (pytester.path / ".carico" / "latest").resolve() == second.path


@pytest.mark.parametrize(
    "arguments", [["-m", "cluster", "-k", "many"], ["-m", "not cluster"], ["-m", "cluster", "--co"]]
)
def test_a_session_that_runs_nothing_on_a_cluster_leaves_nothing(session, pytester, mixed, arguments):
    session(*arguments)
    assert not (pytester.path / ".carico").exists()


def test_ctrl_c_keeps_finished_repetitions_and_says_where(interrupted, pytester, runs):
    result = interrupted(after=2)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    (folder,) = runs()
    result.stdout.fnmatch_lines(
        [
            "  carico",
            "      2 *",
            "interrupted: 2 finished repetitions are kept, what was running is not",
            f"results: {folder.result}",
            f"run: {folder.path}",
        ]
    )
    assert [one.seed for one in read_results(folder.result).repetitions] == [1001, 1002]
    assert (folder.read().state, folder.read().finished_repetitions) == ("interrupted", 2)


def test_a_session_that_stops_at_a_failure_is_not_complete(session, pytester, runs):
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.cluster

        def test_fails(carico_experiment):
            assert not carico_experiment.run("pi-2000", "carico", pods=3)

        def test_more(carico_experiment):
            carico_experiment.run("pi-2000", "carico", pods=4)
        """
    )
    session("-m", "cluster", "-x").stdout.fnmatch_lines(["interrupted: 1 finished repetition is kept, *"])
    session("-m", "cluster")
    assert sorted(folder.read().state for folder in runs()) == ["complete", "interrupted"]


def test_ctrl_c_before_the_first_repetition_says_so(interrupted):
    interrupted(after=0).stdout.fnmatch_lines(["interrupted: no repetition was finished", "run: *"])


def test_a_second_ctrl_c_while_the_results_are_written_corrupts_nothing(tmp_path):
    again = """
    from pathlib import Path

    replace = Path.replace

    def interrupted(self, target):
        if str(target).endswith("result.json"):
            os.kill(os.getpid(), signal.SIGINT)
        return replace(self, target)

    Path.replace = interrupted
    """
    assert program(tmp_path, signal.SIGINT, after=2, more=again) == -signal.SIGINT
    (folder,) = all_runs(tmp_path / ".carico" / "runs")
    assert not list(folder.path.glob("*result.json*"))
    assert folder.read().state == "failed"
    assert len(folder.log) == 2


@pytest.mark.usefixtures("killed")
def test_finished_repetitions_of_a_killed_session_are_recovered(session, pytester, runs, monkeypatch, capsys):
    (folder,) = runs()
    said = f"carico: an earlier run left 3 finished repetitions: carico-testbed recover {folder.id}"
    result = session("-m", "cluster", "--collect-only")
    result.stdout.fnmatch_lines([said])
    session("-m", "cluster", "--collect-only").stdout.no_fnmatch_line("*an earlier run*")
    monkeypatch.chdir(pytester.path)
    assert main(["recover"]) == 0
    assert f"results: {folder.path}/result.json (3 repetitions of run {folder.id})" in capsys.readouterr().out
    assert [one.seed for one in read_results(folder.path / "result.json").repetitions] == [1001, 1002, 1003]


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize("arguments", [["test_long.py"], ["-m", "cluster", "-q"]])
def test_a_killed_run_is_reported_however_cluster_tests_are_asked_for(session, arguments):
    result = session(*arguments, "--collect-only")
    result.stdout.fnmatch_lines(["carico: an earlier run left 3 finished repetitions: carico-testbed recover *"])


def test_a_disk_that_is_full_before_the_first_repetition_is_one_message(session, pytester, monkeypatch, runs):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("testbed.results.record.write_run", full)
    pytester.makepyfile(test_long=LONG)
    result = session("-m", "cluster")
    result.stdout.fnmatch_lines(["cannot record the run in *: No space left on device", "1 test: 1 failed"])
    for line in ("*Traceback*", "*testbed/results/*", "*run.json*", "run: *"):
        result.stdout.no_fnmatch_line(line)
    assert not runs()


def test_a_disk_that_fills_up_keeps_what_is_finished(session, pytester, monkeypatch, runs):
    append = RepetitionLog.append

    def full_after_three(log, entry):
        if len(log) == 3:
            raise ResultsError("cannot write a finished repetition: No space left on device; make room for it")
        append(log, entry)

    monkeypatch.setattr(RepetitionLog, "append", full_after_three)
    pytester.makepyfile(test_long=LONG)
    result = session("-m", "cluster")
    result.stdout.fnmatch_lines(["cannot write a finished repetition: No space left on device; make room for it"])
    result.stdout.no_fnmatch_line("*testbed/results/*")
    (folder,) = runs()
    assert len(read_results(folder.result).repetitions) == 3


def test_a_disk_without_room_for_the_results_says_how_to_recover_what_is_finished(session, pytester, monkeypatch, runs):
    append = RepetitionLog.append

    def full(*_):
        raise ResultsError("cannot write: No space left on device")

    def full_after_two(log, entry):
        if len(log) == 2:
            for name in ("testbed.results.ending.write_results", "testbed.results.record.RunRecord.close"):
                monkeypatch.setattr(name, full)
            full()
        append(log, entry)

    monkeypatch.setattr(RepetitionLog, "append", full_after_two)
    pytester.makepyfile(test_long=LONG)
    result = session("-m", "cluster")
    (folder,) = runs()
    command = f"carico-testbed recover {folder.id} --json FILE"
    result.stdout.fnmatch_lines(
        [
            f"failed: 2 finished repetitions are kept: {command}",
            f"cannot write: No space left on device; to write them elsewhere: {command}",
        ]
    )


def test_results_that_cannot_be_written_stay_in_the_runs_folder(session, pytester, runs):
    pytester.makepyfile(
        """
        import pytest
        from pathlib import Path

        @pytest.mark.cluster
        def test_one(carico_experiment):
            carico_experiment.run("pi-2000", "carico", pods=3)
            Path("taken.json").mkdir()
        """
    )
    session("--carico-json=taken.json")
    (folder,) = runs()
    assert (folder.read().state, len(folder.log)) == ("failed", 1)
