"""The command `carico-testbed`: its output, files and exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import testbed.requirements
from testbed.cli import main
from testbed.experiment.cache import Cache
from testbed.requirements import Problem
from testbed.results.record import RunArguments, RunRecord
from testbed.results.run import write_run
from testbed.results.runs import all_runs
from testbed.results.store import read_results
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import catalogue, load_scenario


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs are recorded in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def use(monkeypatch):
    """A function that puts a provider in place of the simulated one, whose settings are still checked."""

    def provide(provider):
        monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: provider)
        return provider

    return provide


@pytest.fixture
def provider(use):
    """A cluster that takes no time."""
    return use(FakeProvider())


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_run_ends_with_a_table_of_80_columns_and_the_results_file(provider, capsys, tmp_path):
    file = tmp_path / "r.json"
    long = ["carico:variant=thesis-literal", "kube-scheduler:cpu=100m,memory=750Mi"]
    assert main(["run", "pi-and-sklearn", "--scheduler", *long, "--repetitions", "3", "--json", str(file)]) == 0
    table = lines(capsys)
    assert max(map(len, table[:-1])) <= 80
    assert table[0] == "pi-and-sklearn · pi-2000 · 500 pods · 19 nodes"
    assert table[-1] == f"results: {file}"
    for expected in (
        "mean ± std",
        "min    p25    p50    p75    max  JCT s",
        *long,
        "sklearn · 20 pods",
        "3 repetitions",
    ):
        assert any(expected in line for line in table), expected


def test_schedulers_keep_the_order_of_the_command_line(provider, capsys):
    main(["run", "pi-2000", "--scheduler", "kube-scheduler", "--scheduler", "carico"])
    named = [line.split()[0] for line in lines(capsys) if line.startswith("  ")]
    assert named == ["scheduler", "kube-scheduler", "carico"]


def test_both_schedulers_run_where_none_is_named(provider):
    main(["run", "pi-2000"])
    assert provider.calls == ["pi-2000 carico 1001", "pi-2000 kube-scheduler 1001"]


def test_sizes_seed_and_repetitions_can_be_chosen(provider, tmp_path):
    file = tmp_path / "r.json"
    arguments = ["--pods", "7", "--nodes", "3", "--seed", "5", "--repetitions", "2", "--json", str(file)]
    main(["run", "pi-2000", "--scheduler", "carico", *arguments])
    runs = read_results(file).repetitions
    assert [(one.seed, len(one.pods), one.settings["nodes"]) for one in runs] == [(5, 7, 3), (6, 7, 3)]


def test_the_file_is_the_same_on_every_run_and_for_any_number_of_processes(tmp_path):
    arguments = ["run", "single-node-contention", "--pods", "2", "--scheduler", "kube-scheduler", "--repetitions", "2"]
    contents = set()
    for number, extra in enumerate([[], ["--processes", "2"]]):
        file = tmp_path / f"{number}.json"
        assert main([*arguments, *extra, "--json", str(file)]) == 0
        contents.add(file.read_bytes())
    assert len(contents) == 1


def test_a_setting_reaches_the_cluster(tmp_path):
    file = tmp_path / "r.json"
    run = ["run", "single-node-contention", "--pods", "1", "--scheduler", "kube-scheduler", "--json", str(file)]
    assert main([*run, "--set", "pressure=at-least-one-waiting", "--set", "warm_up_s=5"]) == 0
    settings = json.loads(file.read_text())["repetitions"][0]["settings"]
    assert (settings["pressure"], settings["warm_up_s"]) == ("at-least-one-waiting", 5.0)


def test_a_job_that_does_not_complete_fails_the_run_and_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: FakeProvider(outcome="oom_killed"))
    file = tmp_path / "r.json"
    assert main(["run", "sklearn", "--scheduler", "carico", "--json", str(file)]) == 1
    said = capsys.readouterr()
    assert "1 oom_killed" in said.out
    assert "job sklearn did not complete under carico with seed 1001: 99 of 100 pods succeeded" in said.err
    assert read_results(file).repetitions[0].job_completion_time_s == {"sklearn": None}


def test_a_disturbance_need_not_complete(monkeypatch):
    class Endless(FakeProvider):
        def run(self, *arguments):
            repetition = super().run(*arguments)
            assert "light-cpu" not in repetition.job_completion_time_s
            pods = [
                pod if pod.job != "light-cpu" else msgspec.structs.replace(pod, finished_s=None, outcome="unfinished")
                for pod in repetition.pods
            ]
            assert pods != repetition.pods
            return msgspec.structs.replace(repetition, pods=pods)

    monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: Endless())
    assert main(["run", "conflicting-capacity"]) == 0


def test_an_interruption_saves_what_was_finished(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: FakeProvider(interrupt_after=3))
    file = tmp_path / "r.json"
    assert main(["run", "pi-2000", "--repetitions", "4", "--json", str(file)]) == 130
    assert f"interrupted after 3 of 8 runs; they are in {file}.partial" in capsys.readouterr().err
    assert len(read_results(tmp_path / "r.json.partial").repetitions) == 3
    assert not file.exists()


def test_sigterm_is_an_interruption_too(monkeypatch, capsys, tmp_path):
    class Terminated(FakeProvider):
        runs = 0

        def run(self, *arguments):
            self.runs += 1
            if self.runs == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().run(*arguments)

    one = Terminated()
    monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: one)
    file, before = tmp_path / "r.json", signal.getsignal(signal.SIGTERM)
    assert main(["run", "pi-2000", "--repetitions", "4", "--json", str(file)]) == 143
    assert f"interrupted after 2 of 8 runs; they are in {file}.partial" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interruption_without_a_file_says_so(monkeypatch, capsys):
    monkeypatch.setattr("testbed.commands.run.provider_named", lambda name, options: FakeProvider(interrupt_after=0))
    assert main(["run", "pi-2000"]) == 130
    assert capsys.readouterr().err.endswith("interrupted after 0 of 2 runs\n")


def test_progress_is_on_standard_error_unless_quiet(provider, capsys):
    main(["run", "pi-2000", "--scheduler", "carico"])
    assert re.fullmatch(r"pi-2000 × carico · rep 1/1 · 1000/1000 bound · \d:\d\d\n", capsys.readouterr().err)
    main(["run", "pi-2000", "--scheduler", "carico", "--quiet"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pi-3000"], "no scenario is named 'pi-3000', did you mean 'pi-2000'\\? Known: .*pi-2000"),
        (["gone.yaml"], "cannot read the scenario gone.yaml"),
        (["pi-2000", "--pods", "0"], "--pods: a whole number from 1 on is needed, got '0'"),
        (["pi-2000", "--pods", "many"], "--pods: .* got 'many'"),
        (["pi-2000", "--nodes", "-3"], "--nodes: a whole number from 1 on is needed, got '-3'"),
        (["pi-2000", "--repetitions", "0"], "--repetitions: .* got '0'"),
        (["pi-2000", "--processes", "0"], "--processes: .* got '0'"),
        (["pi-2000", "--seed", "-1"], "--seed: a whole number from 0 on is needed, got '-1'"),
        (["pi-and-sklearn", "--pods", "5"], "has several jobs \\(pi-2000, sklearn\\)"),
        (["pi-2000", "--scheduler", "volcano"], "no scheduler is named 'volcano'; write carico"),
        (["pi-2000", "--scheduler", "carico", "carico"], "name each scheduler once"),
        (["pi-2000", "--set", "pressure"], "--set: a setting is written key=value, got 'pressure'"),
        (
            ["pi-2000", "--set", "warp=9"],
            "no setting is named 'warp', did you mean 'warm_up_s'\\? Known: parameters, pressure",
        ),
        (
            ["pi-2000", "--set", "pressure=psi"],
            "pressure: one of at-least-one-waiting, kernel is needed, got 'psi'; 'carico-testbed list settings' shows",
        ),
        (["pi-2000", "--set", "tick_s=0.1", "--set", "tick_s=0.05"], "tick_s is set twice, to 0.1 and to 0.05"),
        (["pi-2000", "--provider", "cloud"], "invalid choice: 'cloud'"),
        ([], "SCENARIO"),
    ],
)
def test_wrong_arguments_end_with_2_and_one_message_before_anything_runs(
    arguments, message, provider, capsys, tmp_path
):
    try:
        code = main(["run", *arguments])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(message, said.err.splitlines()[-1])
    assert not provider.calls
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kubeconfig", "some"], "kubeconfig: only for the provider external, the provider is simulated"),
        (["--provider", "external"], "the provider external needs the kubeconfig of a cluster"),
    ],
)
def test_the_users_own_cluster_is_named_if_and_only_if_it_is_used(options, said, capsys):
    assert main(["run", "pi-2000", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_scenario_can_come_from_a_file(provider, tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(
        "{name: mine, description: two pods, jobs: [{name: twins, workload: pi, pods: 2}]}"
    )
    assert main(["run", str(tmp_path / "mine.yaml")]) == 0
    assert lines(capsys)[0] == "mine · twins · 2 pods · 19 nodes"


def test_malformed_yaml_is_one_message(provider, tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text("name: [")
    assert main(["run", str(tmp_path / "bad.yaml")]) == 2
    said = capsys.readouterr().err
    assert "bad.yaml is not YAML" in said
    assert len(said.splitlines()) == 1


def test_results_that_cannot_be_written_at_the_end_fail_the_run(provider, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("testbed.commands.recorded_run.output_problems", lambda file, root: [])
    assert main(["run", "pi-2000", "--json", str(tmp_path / "gone" / "r.json")]) == 1
    said = capsys.readouterr()
    assert "JCT" in said.out
    assert "cannot write the results" in said.err


def test_one_kind_can_be_listed(capsys):
    assert main(["list", "presets"]) == 0
    heading, *entries = lines(capsys)
    assert heading.startswith("Presets")
    assert [entry for entry in entries if not entry.startswith("    ")] == ["  smoke", "  ci", "  full"]
    with pytest.raises(SystemExit, match="2"):
        main(["list", "preset"])
    assert "did you mean 'presets'?" in capsys.readouterr().err


def test_the_list_names_everything_in_80_columns(capsys):
    assert main(["list"]) == 0
    shown = lines(capsys)
    assert max(map(len, shown)) <= 80
    assert not [line for line in shown if line.endswith("-")], "a name is broken"
    for scenario in catalogue():
        assert f"  {scenario.name}" in shown
    for entry in ("  carico:variant=thesis-literal", "  kube-scheduler", "  smoke", "  pressure=kernel"):
        assert entry in shown
    assert any("One of kernel, at-least-one-waiting." in line for line in shown)
    settings = shown[next(place for place, line in enumerate(shown) if line.startswith("Settings")) + 1 :]
    for entry, after in pairwise([*settings, ""]):
        assert not entry.startswith("  ") or entry.startswith("      ") or after.startswith("      "), entry


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["list", "--help"], ["recover", "--help"], ["completion", "--help"], ["--version"]],
)
def test_every_command_has_help(arguments, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    assert any("carico-testbed" in line for line in lines(capsys))


def test_a_reader_that_has_gone_is_no_error():
    piped = f"set -o pipefail; {sys.executable} -m testbed list | head -n 1; echo $?"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("Scenarios")


def test_a_full_disk_under_the_output_is_one_message():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "testbed", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "carico-testbed: cannot write the output: No space left on device\n")


@pytest.fixture
def run():
    """A function that returns the only run."""
    return lambda: all_runs(Path(".carico/runs"))[-1]


def test_a_disturbed_repetition_is_run_again_and_reported(use, run, capsys):
    provider = use(FakeProvider(stolen=[0.3, 0.0]))
    assert main(["run", "pi-2000", "--scheduler", "carico", "--attempts", "2"]) == 0
    assert len(provider.calls) == 2
    assert "more to others: carico 1." in " ".join(lines(capsys))
    assert (run().read().attempts, len(run().disturbed_log)) == (2, 1)


def test_a_run_is_recorded_and_listed(provider, run, capsys):
    assert main(["runs"]) == 0
    assert "no runs yet" in lines(capsys)[0]
    arguments = ["run", "pi-2000", "--scheduler", "carico", "--seed", "5", "--json", "r.json"]
    assert main(arguments) == 0
    recorded = run().read()
    assert (recorded.state, recorded.seed, recorded.preset) == ("complete", 5, None)
    assert recorded.command == ["carico-testbed", *arguments]
    assert recorded.results.path == str(run().result.absolute())
    assert Path("r.json").read_bytes() == run().result.read_bytes()
    capsys.readouterr()
    main(["runs"])
    assert re.match(rf"{run().id}  complete +0:0\d +1 +-$", lines(capsys)[1])
    main(["runs"])
    assert "    carico-testbed run pi-2000 --scheduler carico --seed 5" in lines(capsys)[2]


def test_a_list_of_runs_fits_a_terminal_of_80_columns(provider, run, capsys):
    main(["run", "pi-2000", "--scheduler", "carico", "kube-scheduler:cpu=100m,memory=750Mi", "kube-scheduler:cpu=250m"])
    capsys.readouterr()
    main(["runs"])
    assert max(map(len, lines(capsys))) <= 80


def test_every_run_keeps_its_results(provider, run, capsys):
    assert main(["run", "pi-2000", "--scheduler", "carico"]) == 0
    assert lines(capsys)[-1] == f"results: {run().result.absolute()}"
    main(["run", "pi-2000", "--scheduler", "carico", "--json", "r.json"])
    assert len(list(Path(".carico/runs").iterdir())) == 2
    assert Path(".carico/latest/result.json").read_bytes() == Path("r.json").read_bytes()


def test_an_interrupted_run_keeps_what_was_finished(use, run, capsys):
    use(FakeProvider(interrupt_after=3))
    assert main(["run", "pi-2000", "--repetitions", "4"]) == 130
    assert capsys.readouterr().err.endswith(f"interrupted after 3 of 8 runs; they are in {run().result.absolute()}\n")
    assert len(read_results(run().result).repetitions) == 3


def test_old_runs_are_removed_when_the_user_says_so(provider, run, capsys):
    for _ in range(2):
        main(["run", "pi-2000", "--scheduler", "carico"])
    capsys.readouterr()
    newest = max(Path(".carico/runs").iterdir()).name
    assert main(["runs", "--remove-all-but", "1"]) == 0
    assert lines(capsys)[0].startswith("removed: 2")
    assert run().id == newest


def killed(after=2):
    """Let a run be killed after that many repetitions."""
    if (child := os.fork()) == 0:
        scenario, spec = load_scenario("pi-2000"), parse_spec("carico")
        record = RunRecord(Path.cwd(), "20261120T101530Z-aaaaaa", RunArguments(["x"], None, 1, 1, {}))
        trial = Cache(record.open(FakeProvider())).trial(FakeProvider().check(scenario, spec, {}))
        for seed in range(after):
            trial.run(seed)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_line_that_a_crash_cut_off_is_reported(run, capsys):
    killed()
    with run().log.path.open("ab") as file:
        file.write(b'{"key":"x","repe')
    capsys.readouterr()
    assert main(["recover"]) == 0
    said = capsys.readouterr()
    assert "(2 repetitions of run " in said.out
    assert re.fullmatch(
        r"carico-testbed: left out: \S+/repetitions\.jsonl:3 is not an entry of a repetition log of carico-testbed: "
        r"Input data was truncated\n",
        said.err,
    )


def test_a_bad_record_spares_the_rest(run, capsys):
    killed()
    log = run().log.path
    log.write_bytes(log.read_bytes().replace(b'"seed":0', b'"seed":"none"'))
    capsys.readouterr()
    assert main(["recover"]) == 0
    said = capsys.readouterr()
    assert "(1 repetition of run " in said.out
    assert "repetitions.jsonl:1 is not an entry" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no run in .* has repetitions to recover; 'carico-testbed runs' lists the runs"),
        (["x"], "no run in .* is named 'x'"),
    ],
)
def test_an_unknown_run_is_an_error(arguments, message, capsys):
    assert main(["recover", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_running_run_is_not_recovered(provider, run, capsys):
    main(["run", "pi-2000", "--json", "r.json"])
    assert main(["recover", run().id]) == 2
    assert f"has nothing to recover: its results are in {run().result.absolute()}" in capsys.readouterr().err
    write_run(run().file, msgspec.structs.replace(run().read(), state="running"))
    going_on = run().processes
    going_on.join()
    assert main(["recover", run().id]) == 2
    assert "is still going on" in capsys.readouterr().err
    going_on.leave()


def test_a_run_of_a_newer_version_is_listed_as_such(run, capsys):
    killed()
    run().file.write_text('{"schema_version": 99}')
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert "has schema_version 99" in " ".join(lines(capsys))
    assert main(["recover"]) == 4


def test_a_file_that_cannot_be_recovered_to_is_told_first(run, capsys):
    killed()
    assert main(["recover", "--json", "gone/r.json"]) == 4
    assert re.search(r"cannot write the results to .*gone/r.json: there is no folder", capsys.readouterr().err)


def test_a_run_of_which_nothing_can_be_read_is_told_apart_from_an_empty_one(run, capsys):
    killed()
    run().log.path.write_text("{\n")
    assert main(["recover"]) == 4
    run().log.path.write_text("")
    assert main(["recover"]) == 2


def test_missing_prerequisites_are_listed_at_once_and_end_with_4(use, capsys, tmp_path):
    fake = use(FakeProvider(problems=[Problem("kind is not installed", "install it")]))
    assert main(["run", "pi-2000", "--json", "gone/r.json"]) == 4
    said = capsys.readouterr().err
    assert said.startswith("carico-testbed: 2 problems, nothing was run:\n  - kind is not installed: install it\n")
    assert re.search(r"  - cannot write the results to .*gone/r.json: .*create it first\n$", said)
    assert main(["run", "pi-2000", "--json", "."]) == 4
    assert not fake.calls
    assert not list(tmp_path.iterdir())


class TestWhyAJobDidNotComplete:
    def told(self, capsys, tmp_path, *lines):
        file = tmp_path / "scenario.yaml"
        file.write_text("\n".join(["name: s", "description: d", "cluster: {nodes: 2}", *lines]))
        assert main(["run", str(file), "--scheduler", "kube-scheduler", "--quiet"]) == 1
        return capsys.readouterr().err

    def test_the_run_was_cut_off(self, capsys, tmp_path):
        told = self.told(capsys, tmp_path, "limit_s: 20", "jobs: [{name: pi, workload: pi, pods: 900}]")
        assert "pods succeeded until the run was cut off at limit_s = 20" in told

    def test_too_many_pods_were_lost(self, capsys, tmp_path):
        told = self.told(
            capsys,
            tmp_path,
            "jobs: [{name: pi, workload: pi, pods: 60, backoff_limit: 2}]",
            "node_changes: [{at_s: 10, node: node-1, change: removed}]",
        )
        assert "pods succeeded; its Job gave up (" in told
        assert " evicted" in told
        assert "backoff_limit is 2, on_oom_kill count, on_disruption count)" in told


def test_a_wrong_kubeconfig_is_something_that_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    named = ["--provider", "external", "--kubeconfig", "gone", "--workload-image", "workloads:1"]
    assert main(["run", "pi-2000", *named]) == 4
    assert "the kubeconfig gone leads to no cluster: there is no such file" in capsys.readouterr().err
    assert not Path(".carico").exists()


@pytest.mark.parametrize("command", [["run", "pi-2000"], ["sweep", "pi-2000", "--over", "nodes=1,2"]])
def test_missing_files_are_listed_beside_missing_packages(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    find = testbed.requirements.find_spec
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda name: None if name == "kubernetes" else find(name))
    assert main([*command, "--provider", "external", "--kubeconfig", "gone", "--workload-image", "workloads:1"]) == 4
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "carico-testbed: 2 problems, nothing was run:"
    assert said[1].startswith("  - a real cluster needs kubernetes: pip install 'carico-testbed[cluster]'")
    assert said[2].startswith("  - there is no kubeconfig gone: name another with --kubeconfig")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b: c", 'it is not YAML: mapping values are not allowed here in "mine", line 1, column 5'),
        ("only words", "it has not the form of a kubeconfig (TypeError: "),
    ],
)
def test_a_kubeconfig_that_is_none_says_what_is_wrong_on_one_line(text, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(text)
    named = ["--provider", "external", "--kubeconfig", "mine", "--workload-image", "workloads:1"]
    assert main(["run", "pi-2000", *named]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the kubeconfig mine leads to no cluster: {problem}" in line


def test_a_run_that_was_recovered_is_not_listed_as_one_to_recover(run, capsys):
    killed()
    assert main(["runs"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(" yes")
    assert main(["recover"]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(" -")
