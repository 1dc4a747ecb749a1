"""``carico-testbed report``."""

import re
from pathlib import Path

import pytest

import testbed.requirements
from testbed.cli import main
from testbed.comparison.baseline import Baseline, MadeBy, write_baseline
from testbed.comparison.measured import measured
from testbed.experiment.plan import Plan
from testbed.results.schema import Results
from testbed.results.store import read_results, write_results
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

SCHEDULERS = ("carico", "kube-scheduler:cpu=100m", "kube-scheduler:cpu=500m")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(folder):
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), tuple(map(parse_spec, SCHEDULERS)), 3, settings={})
    write_results(folder / "r.json", Results(plan.check(FakeProvider()).run()))
    return folder / "r.json"


def test_a_run_becomes_a_page(capsys):
    assert main(["run", "pi-2000", "--pods", "2", "--nodes", "1", "--scheduler", "carico", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["report"]) == 0
    assert capsys.readouterr().out == "report: report.html\n"
    assert "pi-2000 · 2 pods · 1 node" in Path("report.html").read_text()


def test_files_become_the_page_that_is_asked_for(file, capsys):
    assert main(["report", "r.json", "--html", "page.html", "--reference", SCHEDULERS[1]]) == 0
    assert f"Compared with {SCHEDULERS[1]}, " in Path("page.html").read_text()


def test_a_reference_that_was_not_run_is_a_wrong_argument(file, capsys):
    assert main(["report", "r.json", "--reference", "carica"]) == 2
    assert "no such scheduler was run, did you mean 'carico'? Those that were: carico, " in capsys.readouterr().err
    assert not Path("report.html").exists()


def test_what_is_damaged_is_told_on_the_page_too(file, capsys):
    file.write_bytes(file.read_bytes()[:-200])
    assert main(["report", "r.json"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("carico-testbed: left out: r.json:10 is not a whole repetition: ")
    assert "Left out: r.json:10 is not a whole repetition" in Path("report.html").read_text()


def test_verdicts_are_added_to_the_summary_of_a_job(file, folder, monkeypatch):
    summary = folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["report", "r.json"]) == 0
    before, title, _, heading, _, head, _, carico, *_ = summary.read_text().splitlines()
    assert (before, title, heading) == ("before", "### carico-testbed: r.json", "**pi-2000 · 4 pods · 19 nodes**")
    assert head == "| scheduler | n | JCT s | PCT s | JCT / reference | verdict |"
    assert carico.startswith("| carico | 3 | ")
    assert carico.endswith(" | reference |  |")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["x"], 2, "neither a file nor a run in .* is named 'x'"),
        (["latst"], 2, "neither a file nor a run in .* is named 'latst', did you mean 'latest'\\?"),
        (["latest"], 2, "no run in .* has results"),
        (["empty.json"], 2, "no results in empty.json; 'carico-testbed runs' lists the runs"),
        (["broken.json"], 4, "no results in broken.json: broken.json is not a results file"),
        (["r.json", "--html", "none/r.html"], 4, "cannot write the report to .*none/r.html: there is no folder"),
        (["r.json", "--html", "."], 4, "cannot write the report to .*: it is a folder; name a file"),
        (["r.json", "base.json"], 2, "base.json is a baseline: .*: carico-testbed compare base.json latest"),
    ],
)
def test_what_cannot_be_done_is_one_message(file, capsys, arguments, code, message):
    write_results(Path("empty.json"), Results([]))
    Path("broken.json").write_text("{")
    made_by = MadeBy("20261120T101530Z-a", "2026-11-20T10:15:30Z", ["pytest"], "fake", "3.11", {}, None)
    write_baseline(Path("base.json"), Baseline(made_by, measured(read_results(file).repetitions)))
    assert main(["report", *arguments]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
    assert not Path("report.html").exists()


def test_a_summary_that_cannot_be_written_is_one_message(file, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "none/summary.md")
    assert main(["report", "r.json"]) == 1
    assert "cannot add the verdicts to $GITHUB_STEP_SUMMARY, none/summary.md: No such file" in capsys.readouterr().err
    assert Path("report.html").exists()


def test_a_missing_extra_is_named(file, capsys, monkeypatch):
    find = testbed.requirements.find_spec
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda name: None if name == "jinja2" else find(name))
    assert main(["report", "r.json"]) == 4
    assert "a report needs jinja2: pip install 'carico-testbed[report]'" in capsys.readouterr().err
    assert not Path("report.html").exists()
