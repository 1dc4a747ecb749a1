"""``carico-testbed sweep``: the same results wherever it runs, and none lost however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import testbed.requirements
from testbed.cli import main
from testbed.results.runs import all_runs
from testbed.sweep.execution import run_all

SMALL = ["--pods", "6", "--nodes", "2", "--set", "warm_up_s=2", "--quiet"]
OVER = ["sweep", "pi-2000", "--over", "kube-scheduler.cpu=100m,2", "--repetitions", "2", *SMALL]
TINY = ["sweep", "pi-2000", "--over", "pods=1,2", "--scheduler", "carico", "--nodes", "1", "--quiet"]
ROOT = Path(__file__).parents[4]


def without(monkeypatch, *hidden):
    find = testbed.requirements.find_spec
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda name: None if name in hidden else find(name))


@pytest.fixture
def here(tmp_path, monkeypatch):
    def go(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    go("first")
    return go


def run_of(folder):
    (run,) = all_runs(folder / ".carico" / "runs")
    return run


def results(folder):
    return run_of(folder).result.read_bytes()


def started(folder, *arguments):
    """The command in a process of its own, in a session of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, start_new_session=True)


def test_a_sweep_is_a_run_with_a_table_a_figure_and_its_numbers(here, capsys):
    folder = here("first")
    assert main([*OVER, "--csv", "numbers.csv"]) == 0
    out = capsys.readouterr().out
    assert "over kube-scheduler.cpu" in out
    assert "carico, the same everywhere" in out
    run = run_of(folder)
    assert run.read().state == "complete"
    assert run.read().finished_repetitions == 6
    names = {file.name for file in run.path.iterdir()}
    assert {"sweep.json", "result.json", "figure.svg", "points.csv", "points.json"} <= names
    assert (folder / "numbers.csv").read_bytes() == (run.path / "points.csv").read_bytes()


@pytest.mark.parametrize(
    ("drawn", "named"), [(True, "figure.svg, points.csv, points.json"), (False, "points.csv, points.json")]
)
def test_the_last_line_names_the_files_that_were_written(here, capsys, monkeypatch, drawn, named):
    folder = here("first")
    if not drawn:
        without(monkeypatch, "matplotlib")
    assert main(TINY) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == f"results, {named}: {run_of(folder).path}"
    assert ("there will be no figure: a figure needs matplotlib: pip install" in shown.err) == (not drawn)
    assert (run_of(folder).path / "figure.svg").exists() == drawn


def test_a_figure_that_is_asked_for_and_cannot_be_drawn_ends_it_before_anything_runs(here, capsys, monkeypatch):
    folder = here("first")
    without(monkeypatch, "matplotlib")
    assert main([*TINY, "--figure", "x.svg"]) == 4
    assert "a figure needs matplotlib: pip install 'carico-testbed[figures]'" in capsys.readouterr().err
    assert not (folder / ".carico").exists()


def test_a_sweep_is_drawn_again_from_its_results(here, capsys, monkeypatch):
    folder = here("first")
    with monkeypatch.context() as lacking:
        without(lacking, "matplotlib")
        assert main(TINY) == 0
    table = capsys.readouterr().out.splitlines()[:-1]
    run = run_of(folder)
    numbers = (run.path / "points.json").read_bytes()
    assert main(["redraw", "--figure", "again.pdf", "--csv", "again.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == table
    assert (run.path / "figure.svg").read_text().startswith("<?xml")
    assert (folder / "again.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "again.csv").read_bytes() == (run.path / "points.csv").read_bytes()
    assert (run.path / "points.json").read_bytes() == numbers
    assert len(all_runs(folder / ".carico" / "runs")) == 1


def test_only_sweeps_are_drawn_again(here, capsys, monkeypatch):
    here("first")
    assert main(["run", "pi-2000", "--pods", "1", "--nodes", "1", "--scheduler", "carico", "--quiet"]) == 0
    assert main(["redraw"]) == 2
    assert "is no sweep; those that are: none" in capsys.readouterr().err
    assert main(TINY) == 0
    assert main(["redraw", "latest", "--figure", "x.gif"]) == 4


def test_without_matplotlib_redraw_shows_the_table(here, capsys, monkeypatch):
    here("first")
    assert main(TINY) == 0
    table = capsys.readouterr().out.splitlines()[:-1]
    without(monkeypatch, "matplotlib")
    assert main(["redraw"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:-1] == table
    assert "there will be no figure: a figure needs matplotlib: pip install" in shown.err
    assert main(["redraw", "--figure", "x.svg"]) == 4


def test_without_distributed_no_run_is_made(here, capsys, monkeypatch):
    folder = here("first")
    without(monkeypatch, "matplotlib", "distributed")
    assert main([*TINY, "--dask", "tcp://127.0.0.1:9"]) == 4
    said = capsys.readouterr().err
    assert "a Dask cluster needs distributed: pip install 'carico-testbed[scale]'" in said
    assert "to go on" not in said
    assert not (folder / ".carico").exists()


def test_processes_do_not_change_the_bytes(here):
    one, two = here("one"), here("two")
    for folder, processes in ((one, "1"), (two, "2")):
        here(folder.name)
        assert main([*OVER, "--processes", processes]) == 0
    assert results(one) == results(two)
    for name in ("points.csv", "points.json", "figure.svg"):
        assert (run_of(one).path / name).read_bytes() == (run_of(two).path / name).read_bytes()


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGINT, "1"), (signal.SIGINT, "2"), (signal.SIGKILL, "2")])
def test_the_same_command_goes_on_after_an_early_end(here, capsys, number, processes):
    undisturbed, folder = here("undisturbed"), here("ended")
    many = [*OVER[:5], "7", *SMALL]
    process = started(folder, *many, "--processes", processes)
    log, deadline = "", time.monotonic() + 120
    while not log and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        log = next((one.read_text() for one in folder.glob(".carico/runs/*/repetitions.jsonl")), "")
        time.sleep(0.02)
    (process.send_signal if processes == "1" else lambda sent: os.killpg(process.pid, sent))(number)
    said = process.communicate()[1].decode()
    run = run_of(folder)
    assert run.read().state == ("interrupted" if number == signal.SIGINT else "failed")
    before = len(run.log)
    assert 0 < before < 21
    if number == signal.SIGINT:
        assert "finished and kept; to go on: carico-testbed sweep" in said
    assert main(many) == 0
    assert f"going on with run {run.id}: {before} of 21 are finished" in capsys.readouterr().err
    assert run_of(folder).read().state == "complete"
    here("undisturbed")
    assert main(many) == 0
    assert results(folder) == results(undisturbed)


def test_a_complete_sweep_is_not_gone_on_with_and_neither_is_another(here):
    folder = here("first")
    few = ["sweep", "pi-2000", "--over", "nodes=1,2", "--pods", "2", "--set", "warm_up_s=2", "--quiet"]
    for arguments in (few, few, [*few, "--seed", "5"]):
        assert main(arguments) == 0
    assert len(all_runs(folder / ".carico" / "runs")) == 3


@pytest.mark.parametrize("changed", ["once", "once_helper"])
def test_what_another_version_of_ones_own_scheduler_has_measured_is_not_gone_on_with(
    here, capsys, monkeypatch, changed
):
    folder = here("first")
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ["sweep", "pi-2000", "--over", "pods=1,2", "--scheduler", "once:Once", *SMALL[2:]]
    (folder / "once.py").write_text(
        "import once_helper\nfrom testbed.schedulers import Scheduler\n\n\n"
        "class Once(Scheduler):\n    score = lambda *_: 0\n"
    )
    (folder / "once_helper.py").write_text("")
    sys.path_importer_cache.clear()
    for name in ("once", "once_helper"):
        sys.modules.pop(name, None)

    def interrupted(asked, cache, pool, on_done):
        run_all(asked[:1], cache, pool, on_done)
        raise KeyboardInterrupt

    with monkeypatch.context() as ended_early:
        ended_early.setattr("testbed.commands.sweep.run_all", interrupted)
        for _ in range(2):
            assert main(arguments) == 130
    (run,) = all_runs(folder / ".carico" / "runs")
    assert len(run.log) == 2
    with (folder / f"{changed}.py").open("a") as file:
        file.write("# another\n")
    capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert f"run {run.id} of the same sweep has used another {changed}: beginning anew" in said
    assert "going on" not in said
    # Runs that begin in the same second have names in any order.
    states = sorted(one.read().state for one in all_runs(folder / ".carico" / "runs"))
    assert states == ["complete", "interrupted"]


def test_a_change_of_this_project_itself_begins_a_sweep_anew(here, capsys, monkeypatch):
    folder = here("first")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as ended_early:
        ended_early.setattr("testbed.commands.sweep.run_all", interrupted)
        assert main(TINY) == 130
    run = run_of(folder)
    (folder / "added.py").write_text("")
    monkeypatch.setattr(testbed.__spec__, "submodule_search_locations", [*testbed.__path__, str(folder)])
    assert main(TINY) == 0
    said = capsys.readouterr().err
    assert f"run {run.id} of the same sweep has used another testbed: beginning anew" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--over", "nods=1"], "did you mean 'nodes'?"),
        (["--over", "report_delay_s=soon"], "cannot set report_delay_s=soon"),
        (["--over", "kube-scheduler.cpu=lots"], "lots"),
        (["--over", "carico.hold_of_s=1"], "did you mean 'hold_off_s'?"),
        (["--over", "nodes=1", "--scheduler", "carico", "carico"], "name each scheduler once"),
        (["--over", "nodes=1", "--figure", "x.gif"], "its name ends with none of .svg"),
        (["--over", "nodes=1", "--attempts", "2"], "leave out --attempts"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_runs(here, capsys, arguments, said):
    folder = here("first")
    assert main(["sweep", "pi-2000", *arguments]) in (2, 4)
    assert said in capsys.readouterr().err
    assert not (folder / ".carico").exists()


class TestDask:
    """On a Dask cluster whose workers see neither the sweep's folder nor the user's module."""

    @pytest.fixture
    def address(self, tmp_path):
        file, folder = tmp_path / "scheduler.json", tmp_path / "first"
        folder.mkdir(exist_ok=True)
        hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        hide = f'mount -t tmpfs none "{folder}" && cd / && exec "$@"'
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        dask = [sys.executable, "-m", "distributed.cli"]
        scheduler = [f"{dask[2]}.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        worker = [f"{dask[2]}.dask_worker", "--nthreads", "1", "--nworkers", "2", "--no-dashboard"]
        running = [subprocess.Popen([*dask[:2], *scheduler, "--scheduler-file", file], **quiet)]
        try:
            wait_for(file.exists)
            command = [*dask[:2], *worker, "--scheduler-file", file, "--local-directory", tmp_path / "worker"]
            running.append(subprocess.Popen([*hidden, hide, "sh", *command], **quiet))
            import distributed

            with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
                yield client.scheduler.address
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()

    @pytest.mark.filterwarnings("ignore")
    def test_the_results_are_the_same_bytes(self, here, address, monkeypatch):
        monkeypatch.setattr(sys, "path", list(sys.path))
        folder, alone = here("first"), here("alone")
        own = "from testbed.schedulers import Scheduler\n\n\nclass Any(Scheduler):\n    score = lambda *_: 0\n"
        arguments = ["sweep", "pi-2000", "--over", "nodes=2,3", "--scheduler", "carico", "anywhere:Any", *SMALL[:2]]
        arguments += ["--set", "warm_up_s=2", "--quiet"]
        for where, more in ((folder, ["--dask", address]), (alone, [])):
            here(where.name)
            (where / "anywhere.py").write_text(own)
            assert main([*arguments, *more]) == 0
        assert results(folder) == results(alone)
        assert b"anywhere:Any" in results(folder)

    @pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "nowhere.invalid:8786"])
    def test_without_a_scheduler_it_says_so_at_once(self, here, address):
        folder = here("first")
        process = started(folder, *OVER, "--dask", address)
        said = process.communicate(timeout=30)[1].decode().splitlines()
        assert process.returncode == 4
        assert len(said) == 1
        assert f"no Dask scheduler answers at {address}: " in said[0]
        assert not (folder / ".carico").exists()


def wait_for(there, within_s=60):
    deadline = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)
