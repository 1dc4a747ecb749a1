"""``carico-testbed compare``."""

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from testbed.cli import main
from testbed.comparison.baseline import Baseline, MadeBy, write_baseline
from testbed.comparison.measured import measured
from testbed.experiment.plan import Plan
from testbed.measurement.metrics import EVERY, METRICS, Figure, registered
from testbed.measurement.own import Measurement
from testbed.results.schema import Results
from testbed.results.store import read_results, write_results
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

MADE_BY = MadeBy("20261120T101530Z-a", "2026-11-20T10:15:30Z", ["pytest"], "fake", "3.11", {}, None)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(file, repetitions=4, scheduler="carico", outcome="succeeded", **settings):
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), (parse_spec(scheduler),), repetitions, settings=settings)
    write_results(file, Results(plan.check(FakeProvider(outcome)).run()))


def test_two_files_are_compared(folder, capsys):
    write(folder / "a.json")
    write(folder / "b.json")
    assert main(["compare", "a.json", "b.json"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert any(re.search(r"1\.000 +ok$", line) for line in table)


@pytest.mark.parametrize(("candidate", "same"), [("./a.json", True), ("b.json", False)])
def test_a_run_that_is_compared_with_itself_is_told(folder, capsys, candidate, same):
    write(folder / "a.json")
    write(folder / "b.json")
    assert main(["compare", "a.json", candidate]) == 0
    assert ("both are a.json, so that nothing can differ" in capsys.readouterr().err) is same


def test_runs_are_compared_by_name(capsys):
    for seed in ("1", "2"):
        main(
            ["run", "pi-2000", "--pods", "2", "--repetitions", "3", "--seed", seed, "--scheduler", "carico", "--quiet"]
        )
    first = min(Path(".carico/runs").iterdir()).name
    capsys.readouterr()
    assert main(["compare", first, "latest", "--metric", "pod_completion_time:p90"]) == 0
    assert "pod_completion_time p90 (pi-2000)" in capsys.readouterr().out


class TestMetricsThatOnlyTheSessionKnew:
    OWN = Measurement("idle_s", "s", "idle time", lambda _: {"pi-2000": [1.0, 2.0]}, True, ("max",))

    @pytest.fixture(autouse=True)
    def files(self, folder):
        write(folder / "plain.json")
        found = [
            replace(one, data_items=[*one.data_items, *self.OWN.items(one)])
            for one in read_results(folder / "plain.json").repetitions
        ]
        write_results(folder / "own.json", Results(found))
        with registered([self.OWN.metric]):
            made = measured(read_results(folder / "own.json").repetitions, EVERY)
        write_baseline(folder / "base.json", Baseline(MADE_BY, made))

    @pytest.mark.parametrize("reference", ["own.json", "base.json"])
    def test_they_are_compared_like_the_testbeds_own(self, capsys, reference):
        assert main(["compare", reference, "own.json"]) == 0
        assert "    idle_s max (pi-2000)\n             2 s         2 s" in capsys.readouterr().out
        assert main(["compare", reference, "own.json", "--metric", "idle_s:p99", "--fail-on", "idle_s:max:+1%"]) == 0
        assert "gate: passed (1 ok)" in capsys.readouterr().out
        assert "idle_s" not in METRICS

    def test_a_report_compares_them_too(self, folder, capsys):
        (folder / "again.json").write_bytes((folder / "own.json").read_bytes())
        assert main(["report", "own.json", "again.json"]) == 0
        assert "<span>idle_s max (pi-2000)</span>" in Path("report.html").read_text()

    def test_other_files_do_not_know_them(self, capsys):
        assert main(["compare", "plain.json", "plain.json", "--metric", "idle_s"]) == 2
        assert "no metric is named 'idle_s'" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["-o", "json"]], ids=["table", "json"])
def test_what_a_file_says_does_not_reach_a_terminal_unless_it_is_printable(folder, capsys, options):
    hostile = "pi-\x1b[31m\x1b]0;title\x07\u009b2J\u202e"
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), (parse_spec("carico"),), 4)
    found = [replace(one, scenario=hostile, scheduler=hostile) for one in plan.check(FakeProvider()).run()]
    write_results(folder / "a.json", Results(found))
    for arguments in (["a.json", "a.json"], ["a.json", hostile]):
        main(["compare", *arguments, *options])
        printed = capsys.readouterr()
        text = printed.out + printed.err
        assert "31m" in text
        assert text.replace("\n", "").isprintable()
        if options and printed.out:
            assert json.loads(printed.out)["rows"][0]["title"].startswith(hostile)


@pytest.mark.parametrize(("limit", "code"), [("+5%", 0), ("+1%", 1)])
def test_a_gate_judges_where_the_table_has_nothing_to_compare(folder, capsys, limit, code):
    write(folder / "a.json")
    figures = [Figure("job_completion_time", "value")]
    made = measured(read_results(folder / "a.json").repetitions, figures)
    slower = [replace(one, values=[value / 1.03 for value in one.values]) for one in made[0].series]
    write_baseline(folder / "base.json", Baseline(MADE_BY, [replace(made[0], series=slower)]))
    gate = ["--metric", "cpu_utilisation", "--fail-on", f"job_completion_time:{limit}"]
    assert main(["compare", "base.json", "a.json", *gate]) == code
    said = capsys.readouterr()
    assert "the runs have no figures of these metrics in common" in said.err
    assert f"gate: {'FAILED (1 regressed)' if code else 'passed (1 ok)'}" in said.out


def test_nothing_in_common_is_never_green(folder, capsys):
    write(folder / "a.json")
    write(folder / "b.json", scheduler="kube-scheduler")
    assert main(["compare", "a.json", "b.json"]) == 1
    said = capsys.readouterr()
    assert "nothing could be compared" in said.err
    assert "verdict" not in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.json", "x"], "neither a file nor a run in .* is named 'x'; 'carico-testbed runs' lists"),
        (
            ["emty.json", "latest"],
            "neither a file nor a run in .* is named 'emty.json', did you mean 'empty.json'\\? 'carico",
        ),
        (["a.json", "latst"], "neither a file nor a run in .* is named 'latst', did you mean 'latest'\\? 'carico"),
        (["a.json", "latest"], "no run in .* has results"),
        (["a.json", "empty.json"], r"empty\.json has no repetitions"),
        (["a.json", "a.json", "--metric", "pod"], "no metric is named 'pod'"),
    ],
)
def test_wrong_arguments_end_with_2(folder, capsys, arguments, message):
    write(folder / "a.json")
    write_results(folder / "empty.json", Results([]))
    assert main(["compare", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_damaged_file_ends_with_the_same_code_in_every_command(folder, capsys):
    write(folder / "a.json")
    (folder / "b.json").write_text("{}")
    assert {main(["compare", "a.json", "b.json"]), main(["report", "b.json"])} == {4}


def test_a_file_that_holds_no_results_ends_with_4_unlike_a_regression(folder, capsys):
    write(folder / "a.json")
    (folder / "b.json").write_text("{}")
    assert main(["compare", "a.json", "b.json"]) == 4
    assert "is not a results file" in capsys.readouterr().err


class TestGate:
    def test_a_run_passes_beside_itself(self, folder, capsys):
        write(folder / "a.json")
        assert main(["compare", "a.json", "a.json", "--fail-on", "pod_completion_time:p99:+10%"]) == 0
        assert "gate: passed (1 ok)" in capsys.readouterr().out

    def test_a_regression_ends_with_1_and_a_sentence(self, folder, capsys):
        write(folder / "a.json")
        write(folder / "b.json", outcome="failed")
        assert main(["compare", "a.json", "b.json", "--fail-on", "pod_outcome:failed:+0"]) == 1
        said = capsys.readouterr().out
        assert "gate: FAILED (1 regressed)" in said
        assert max(map(len, said.splitlines())) <= 80

    def test_a_baseline_is_a_reference(self, folder, capsys):
        write(folder / "a.json")
        made = measured(read_results(folder / "a.json").repetitions)
        write_baseline(folder / "base.json", Baseline(MADE_BY, made))
        assert main(["compare", "base.json", "a.json", "--fail-on", "job_completion_time:+5%"]) == 0
        assert "gate: passed (1 ok)" in capsys.readouterr().out

    def test_what_another_provider_measured_is_not_missed(self, capsys):
        main(["run", "pi-2000", "--pods", "2", "--repetitions", "3", "--scheduler", "carico", "--quiet"])
        (entry,) = measured(read_results(next(Path(".carico/runs").glob("*/result.json"))).repetitions)
        other = replace(entry, scheduler="kube-scheduler", by="20261121T101530Z-b")
        simulated = replace(MADE_BY, provider="simulated")
        made = Baseline(simulated, [entry, other], [replace(MADE_BY, run="20261121T101530Z-b", provider="kind")])
        write_baseline(Path("base.json"), made)
        assert main(["compare", "base.json", "latest", "--fail-on", "job_completion_time:+5%"]) == 0
        assert "gate: passed (1 ok)" in capsys.readouterr().out

    def test_an_impossible_condition_ends_with_2(self, folder, capsys):
        write(folder / "a.json")
        assert main(["compare", "a.json", "a.json", "--fail-on", "job_completion_time:-5%"]) == 2
        assert "less is better, so the limit is +5%" in capsys.readouterr().err
