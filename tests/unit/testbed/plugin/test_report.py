"""--carico-html: the report of a session, and the verdicts in the summary of a CI job."""

import json
import re

import pytest

import testbed.requirements
from testbed.cli import main

TESTS = """
    import pytest

    pytestmark = pytest.mark.cluster

    @pytest.mark.carico("pi-2000", ["carico", "kube-scheduler:cpu=500m"])
    def test_pods(carico_results, carico_paper):
        carico_paper.row("mean PCT", 9.5, 9.55, "s", "a note")

    @pytest.mark.carico_claim("§5", "it is <b>fast</b>")
    def test_claim(carico_experiment):
        assert carico_experiment.run("pi-2000", "carico", pods=3)
"""


@pytest.fixture
def tests(pytester):
    pytester.makepyfile(test_them=TESTS)


def test_a_session_leaves_a_page(session, pytester, tests):
    result = session("-m", "cluster", "--carico-repetitions=3", "--carico-html=page.html")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"report: {pytester.path}/page.html"])
    page = (pytester.path / "page.html").read_text()
    assert "Compared with carico, the job " in page
    assert "mean PCT" in page
    assert "9.55 s" in page
    assert "--carico-repetitions=3 --carico-html=page.html" in page


def test_the_ini_file_names_a_page_and_workers_make_one(session, pytester, tests):
    pytester.makeini("[pytest]\ncarico_html = page.html\n")
    session("-m", "cluster", "-p", "xdist", "-n1").assert_outcomes(passed=2)
    assert "mean PCT" in (pytester.path / "page.html").read_text()


def test_the_rows_of_the_paper_are_in_a_report_made_later(session, pytester, tests, monkeypatch):
    session("-m", "cluster")
    monkeypatch.chdir(pytester.path)
    assert main(["report", "latest", "--html", "later.html"]) == 0
    page = (pytester.path / "later.html").read_text()
    assert "mean PCT" in page
    assert "a note" in page
    assert "it is &lt;b&gt;fast&lt;/b&gt;" in page


def test_a_report_made_later_says_what_the_gate_said(session, pytester, tests, monkeypatch, capsys):
    three = ("-m", "cluster", "--carico-repetitions=3")
    session(*three, "--carico-save-baseline=base.json")
    session(*three, "--carico-baseline=base.json", "--carico-fail-on=pod_completion_time:mean:+1%", "--carico-html=a")
    (pytester.path / "base.json").unlink()  # nothing is judged anew
    monkeypatch.chdir(pytester.path)
    capsys.readouterr()
    assert main(["report", "--html", "later.html", "-o", "json"]) == 0
    page = (pytester.path / "later.html").read_text()
    assert page == (pytester.path / "a").read_text()
    assert page.index("gate: passed (3 ok)") < page.index(">Verdicts<")
    assert "The baseline: " in page
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["gate"]["passed"]
    assert [one["outcome"] for one in run["gate"]["judgements"]] == ["ok"] * 3
    (pytester.path / ".carico" / "latest" / "gate.json").write_text("{")
    assert main(["report", "--html", "damaged.html"]) == 0
    assert "gate.json is not a record of a gate of carico-testbed" in capsys.readouterr().err
    assert ">Verdicts<" in (pytester.path / "damaged.html").read_text()


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")], ids=["one process", "two workers"])
def test_a_report_says_what_the_gates_of_single_tests_said(session, pytester, monkeypatch, capsys, workers):
    pytester.makepyfile(test_them=TESTS.replace('500m"]', '500m"], fail_on="job_completion_time:+90%"'))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    result = session("-m", "cluster", "--carico-repetitions=3", "--carico-html=a.html", *workers)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "test_them.py::test_pods: gate: passed (1 ok), judged by the reference of each",
            "  table",
            "  this gate finds*",
        ]
    )
    page = (pytester.path / "a.html").read_text()
    assert "<h2>Gate of test_them.py::test_pods</h2>" in page
    assert "gate: passed (1 ok), judged by the reference of each table" in page
    assert "\n**test\\_them.py::test\\_pods: gate: passed (1 ok)" in (pytester.path / "summary.md").read_text()
    monkeypatch.chdir(pytester.path)
    capsys.readouterr()
    assert main(["report", "--html", "later.html", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["gate"] is None
    (said,) = run["test_gates"]
    assert (said["test"], said["passed"]) == ("test_them.py::test_pods", True)
    assert (pytester.path / "later.html").read_text() == page


def test_verdicts_are_added_to_the_summary_of_a_job(session, pytester, tests, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    session("-m", "cluster", "--carico-repetitions=3")
    summary = (pytester.path / "summary.md").read_text()
    assert "| scheduler | n | JCT s | PCT s | JCT / reference | verdict |" in summary
    assert summary.count("| carico | 3 |") == 2


def test_the_summary_of_a_job_begins_with_the_gate(session, pytester, tests, monkeypatch):
    session("-m", "cluster", "--carico-repetitions=3", "--carico-save-baseline=base.json")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    session("-m", "cluster", "--carico-repetitions=3", "--carico-baseline=base.json")
    title, _, gate, *_ = (pytester.path / "summary.md").read_text().splitlines()
    assert title.startswith("### carico-testbed: ")
    assert re.fullmatch(r"\*\*gate: passed \(\d ok.*\)\*\*", gate)
    pytester.makepyfile(test_them=TESTS.replace('500m"]', '500m"], repetitions=3'))
    session("-m", "cluster", "--carico-repetitions=2", "--carico-baseline=base.json")
    summary = (pytester.path / "summary.md").read_text()
    assert "**gate: FAILED (" in summary
    assert "carico: the number of repetitions is 3 in the baseline and 2 in this run, a gate needs 3: " in summary


def test_verdicts_are_in_the_summary_of_a_job_once(session, pytester, tests, monkeypatch):
    def written(step, job):
        monkeypatch.setenv("GITHUB_JOB", job)
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / step))
        assert main(["report"]) == 0
        return (pytester.path / step).exists()

    monkeypatch.setenv("GITHUB_JOB", "gate")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "first"))
    session("-m", "cluster")
    assert (pytester.path / "first").read_text().count("### carico-testbed") == 1
    assert not written("second", "gate")
    assert written("third", "another job")


def test_unit_tests_leave_no_page(session, pytester):
    pytester.makepyfile("def test_quick(): pass")
    result = session("--carico-html=page.html")
    assert not (pytester.path / "page.html").exists()
    result.assert_outcomes(passed=1)


def test_a_page_that_cannot_be_written_is_told_before_anything_runs(session, pytester, tests):
    result = session("-m", "cluster", "--carico-html=none/page.html")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*cannot write the report to *none/page.html: there is no folder*"])
    assert not (pytester.path / ".carico").exists()


def test_a_missing_extra_is_told_before_anything_runs(session, pytester, tests, monkeypatch):
    find = testbed.requirements.find_spec
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda name: None if name == "jinja2" else find(name))
    result = session("-m", "cluster", "--carico-html=page.html")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*a report needs jinja2: pip install 'carico-testbed*report*"])


def test_an_interrupted_session_has_a_page_of_what_it_finished(session, pytester):
    pytester.makepyfile(
        test_them="""
        import pytest
        pytestmark = pytest.mark.cluster

        def test_one(carico_experiment):
            carico_experiment.run("pi-2000", "carico", pods=2)

        def test_two():
            raise KeyboardInterrupt
        """
    )
    session("-m", "cluster", "--carico-html=page.html", no_reraise_ctrlc=True)
    page = (pytester.path / "page.html").read_text()
    assert "The run was interrupted; what it had finished is shown: 1 repetition." in page
