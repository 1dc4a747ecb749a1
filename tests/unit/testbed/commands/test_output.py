"""``-o json``: one document on standard output, with the fields that docs/reference/json.md names."""

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.results.outcomes import Outcome, Row, Statement
from testbed.results.outcomes_file import write_outcomes

PAGE = (Path(__file__).parents[4] / "docs/reference/json.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def printed(capsys):
    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([*arguments, "-o", "json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def run(printed):
    def start(*arguments, repetitions=3):
        return printed(
            "run",
            "pi-2000",
            "--pods",
            "2",
            "--scheduler",
            "carico",
            "--repetitions",
            str(repetitions),
            "--quiet",
            *arguments,
        )

    return start


def documented(command, names):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| `{command}` |"))
    return not [name for name in names if f"`{name}`" not in line]


def test_list(printed):
    listed = printed("list")
    assert documented("list", listed)
    assert "pi-2000" in {scenario["name"] for scenario in listed["scenarios"]}
    assert printed("list", "presets") == {"presets": listed["presets"]}
    assert all(entry.keys() == {"name", "description"} for entries in listed.values() for entry in entries)


def test_a_run_prints_its_results_file_and_is_listed(run, printed):
    results = run()
    assert results == json.loads((Path(".carico") / "latest" / "result.json").read_text(encoding="utf-8"))
    (listed,) = printed("runs")["runs"]
    assert documented("runs", listed)
    assert (listed["state"], listed["finished_repetitions"], listed["to_recover"]) == ("complete", 3, False)
    assert listed["command"][:2] == ["carico-testbed", "run"]


def test_a_sweep_and_its_redrawing_print_the_numbers_of_the_figure(printed):
    swept = printed("sweep", "pi-2000", "--over", "pods=1,2", "--scheduler", "carico", "--nodes", "1", "--quiet")
    assert swept == json.loads((Path(".carico") / "latest" / "points.json").read_text(encoding="utf-8"))
    (series,) = swept["series"]
    first, _ = series["points"]
    names = [*swept, *series, *first, *first["job_completion_s"]]
    assert documented("sweep`, `redraw", names)
    assert printed("redraw") == swept


def test_a_report_prints_its_verdicts(run, printed):
    run("--scheduler", "kube-scheduler")
    said = printed("report")
    (one,) = said["runs"]
    reference, other = one["rows"]
    assert documented("report", [*said, *one, *reference])
    assert Path(said["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (reference["is_reference"], reference["verdict"]) == (True, None)
    assert (other["scheduler"], other["repetitions"], other["is_ratio"]) == ("kube-scheduler", 3, True)
    assert other["verdict"] in ("ok", "regressed", "improved", "inconclusive")


def test_a_run_that_cannot_be_read_is_listed_with_its_error(run, printed):
    run()
    (folder,) = Path(".carico/runs").iterdir()
    (folder / "run.json").write_text("{")
    (listed,) = printed("runs")["runs"]
    assert listed["run"] == folder.name
    assert listed["error"]
    assert listed["state"] is None


def test_a_comparison_with_a_gate(run, printed):
    run("--json", "a.json")
    run("--json", "b.json", "--seed", "7")
    found = printed("compare", "a.json", "b.json", "--metric", "job_completion_time")
    assert documented("compare", [*found, *found["rows"][0]])
    assert found["gate"] is None
    assert {row["metric"] for row in found["rows"]} == {"job_completion_time"}
    assert all(bool(row["reason"]) == (row["verdict"] == "inconclusive") for row in found["rows"])
    gated = printed("compare", "a.json", "a.json", "--fail-on", "job_completion_time:value:+10%")["gate"]
    assert documented("compare", [*gated, *gated["judgements"][0]])
    assert gated["passed"]
    assert [one["reason"] for one in gated["judgements"]] == [None]


@pytest.mark.parametrize(
    ("metric", "repetitions", "reason"),
    [
        ("job_completion_time", 2, "n = 2 is too small: each side needs 3 repetitions or more"),
        ("pod_wait_time", 3, "neither direction of the metric is better"),
    ],
)
def test_an_inconclusive_verdict_says_why(run, printed, metric, repetitions, reason):
    run("--json", "a.json", repetitions=repetitions)
    run("--json", "b.json", "--seed", "7", repetitions=repetitions)
    rows = printed("compare", "a.json", "b.json", "--metric", metric)["rows"]
    assert {row["reason"] for row in rows if row["verdict"] == "inconclusive"} == {reason}


@pytest.mark.parametrize(
    ("repetitions", "reason"),
    [
        (2, "n = 2 is too small: each side needs 3 repetitions or more"),
        (
            3,
            "neither is the change certainly within what is allowed (+1%), nor certainly beyond it: more repetitions "
            "may decide",
        ),
    ],
)
def test_so_does_that_of_a_gate(run, printed, repetitions, reason):
    run("--json", "a.json", repetitions=repetitions)
    run("--json", "b.json", "--seed", "7", repetitions=repetitions)
    limit = ("--fail-on", "job_completion_time:+1%")
    gate = printed("compare", "a.json", "b.json", *limit, code=int(repetitions < 3))["gate"]
    assert [(one["outcome"], one["reason"]) for one in gate["judgements"]] == [("inconclusive", reason)]


def test_so_does_that_of_a_report(run, printed):
    run("--scheduler", "kube-scheduler", repetitions=2)
    ((reference, other),) = [one["rows"] for one in printed("report")["runs"]]
    assert (reference["reason"], other["verdict"]) == (None, "inconclusive")
    assert other["reason"] == "n = 2 is too small: each side needs 3 repetitions or more"


def test_what_is_not_finite_is_null(run, printed):
    run("--json", "a.json", repetitions=1)
    rows = printed("compare", "a.json", "a.json")["rows"]
    assert any(row["high"] is None for row in rows), "one repetition has no interval"


def test_claims(run, printed):
    run()
    (folder,) = Path(".carico/runs").iterdir()
    claim = Statement("claim", "§5.2", "pods complete earlier", "thesis-rebased", "100 pods")
    other = Statement("claim", "§5.6", "agents cost little")
    rows = [Row("PCT", [1.0, 2.0], 2.0, "s")]
    outcomes = [Outcome("a", claim, "holds", held=2, seeds=2, rows=rows), Outcome("b", other, "not measured")]
    write_outcomes(folder / "outcomes.json", outcomes)
    first, second = printed("claims", folder.name)["claims"]
    assert documented("claims", first)
    assert (first["variant"], first["held_on_seeds"], first["paper"], first["ours"]) == ("thesis-rebased", 2, 2.0, 1.5)
    assert (second["held_on_seeds"], second["ours"]) == (None, None)
