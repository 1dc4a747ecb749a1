"""The run of a session: its folder, and what is left when the session is interrupted or killed."""

import signal

import pytest

from testbed.cli import main
from testbed.results.runs import all_runs
from testbed.results.store import read_results

LONG = """
    import pytest

    @pytest.mark.cluster
    def test_long(carico_experiment):
        carico_experiment.run("pi-2000", "carico", pods=3, repetitions=5)
"""
ENDING = """
    import os
    import signal
    from testbed.testing import FakeProvider

    class Ending(FakeProvider):
        def run(self, *arguments):
            if len(self.calls) == {after}:
                os.kill(os.getpid(), {signal})
            return super().run(*arguments)

    def pytest_carico_provider(config):
        return Ending()
"""


@pytest.fixture
def runs(pytester):
    """A function that returns the runs that there are."""
    return lambda: all_runs(pytester.path / ".carico" / "runs")


@pytest.fixture
def program(session, pytester):
    """A function that runs the long test in a program of its own, which gets a signal after so many repetitions."""
    pytester.makepyfile(test_long=LONG)

    def run(number, after=2, more=""):
        (pytester.path / "conftest.py").unlink()
        pytester.makeconftest(ENDING.format(after=after, signal=int(number)) + more)
        return pytester.runpytest_subprocess("-p", "testbed.plugin", "-m", "cluster")

    return run


def test_a_complete_run_leaves_its_description_and_the_results_alone(session, pytester, mixed, runs):
    result = session("-m", "cluster", "--carico-seed=7")
    (folder,) = runs()
    result.stdout.fnmatch_lines([f"results: {pytester.path}/.carico/result.json", f"run: {folder.path}"])
    run = folder.read()
    assert (run.state, run.finished_repetitions, run.seed, run.preset) == ("complete", 1, 7, "smoke")
    assert run.command[0] == "pytest"
    assert run.command[-3:] == ["-m", "cluster", "--carico-seed=7"]
    assert run.results.path == f"{pytester.path}/.carico/result.json"
    assert [path.name for path in folder.path.iterdir()] == ["run.json"]


def test_every_session_has_a_run_of_its_own_and_the_same_results(session, pytester, mixed, runs):
    contents = set()
    for _ in range(2):
        session("-m", "cluster")
        contents.add((pytester.path / ".carico" / "result.json").read_bytes())
    assert len(runs()) == 2
    assert len(contents) == 1


@pytest.mark.parametrize(
    "arguments", [["-m", "cluster", "-k", "many"], ["-m", "not cluster"], ["-m", "cluster", "--co"]]
)
def test_a_session_that_runs_nothing_on_a_cluster_leaves_nothing(session, pytester, mixed, arguments):
    session(*arguments)
    assert not (pytester.path / ".carico").exists()


def test_ctrl_c_keeps_what_was_finished_and_says_where(program, pytester, runs):
    result = program(signal.SIGINT)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    (folder,) = runs()
    result.stdout.fnmatch_lines(
        [
            "interrupted: 2 finished repetitions are kept, what was running is not",
            f"results: {pytester.path}/.carico/result.json.partial",
            f"run: {folder.path}",
        ]
    )
    assert [one.seed for one in read_results(pytester.path / ".carico" / "result.json.partial").repetitions] == [
        1001,
        1002,
    ]
    assert (folder.read().state, folder.read().finished_repetitions) == ("interrupted", 2)


def test_ctrl_c_before_anything_was_finished_says_so(program, runs):
    program(signal.SIGINT, after=0).stdout.fnmatch_lines(["interrupted: no repetition was finished", "run: *"])


def test_a_second_ctrl_c_while_the_results_are_written_corrupts_nothing(program, pytester, runs, monkeypatch, capsys):
    again = """
    from pathlib import Path

    replace = Path.replace

    def interrupted(self, target):
        if str(target).endswith(".partial"):
            os.kill(os.getpid(), signal.SIGINT)
        return replace(self, target)

    Path.replace = interrupted
    """
    program(signal.SIGINT, more=again)
    (folder,) = runs()
    assert not list((pytester.path / ".carico").glob("*result.json*"))
    assert folder.read().state == "failed"
    assert len(folder.lines) == 2


def test_what_a_killed_session_had_finished_is_recovered(program, session, pytester, runs, monkeypatch, capsys):
    assert program(signal.SIGKILL, after=3).ret == -signal.SIGKILL
    (folder,) = runs()
    said = f"carico: an earlier run left 3 finished repetitions: carico-testbed recover {folder.id}"
    pytester.makeconftest("")
    result = session("-m", "cluster", "--collect-only")
    result.stdout.fnmatch_lines([said])
    session("-m", "cluster", "--collect-only").stdout.no_fnmatch_line("*an earlier run*")
    monkeypatch.chdir(pytester.path)
    assert main(["recover"]) == 0
    assert f"results: {folder.path}/result.json (3 repetitions of run {folder.id})" in capsys.readouterr().out
    assert [one.seed for one in read_results(folder.path / "result.json").repetitions] == [1001, 1002, 1003]


@pytest.mark.parametrize("arguments", [["test_long.py"], ["-m", "cluster", "-q"]])
def test_a_killed_run_is_named_whichever_way_cluster_tests_are_asked_for(program, session, pytester, arguments):
    program(signal.SIGKILL, after=1)
    result = session(*arguments, "--collect-only")
    result.stdout.fnmatch_lines(["carico: an earlier run left 1 finished repetition: carico-testbed recover *"])


def test_results_that_cannot_be_written_are_kept_as_lines(session, pytester, runs):
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
    assert (folder.read().state, len(folder.lines)) == ("failed", 1)
