"""With xdist a session prints, writes and refuses the same as without."""

import pytest

from testbed.results.runs import all_runs
from tests.kits.printed import printed

pytest.importorskip("xdist")

XDIST = ("-p", "xdist.plugin")
TESTS = """
    import pytest
    pytestmark = pytest.mark.cluster

    @pytest.mark.parametrize("pods", [30, 2])
    def test_pods(carico_experiment, carico_paper, pods):
        run, = carico_experiment.run("single-node-contention", "kube-scheduler", pods=pods)
        carico_paper.row("JCT", run.job_completion_time_s["pi-2000"], None, "s")

    @pytest.mark.carico("single-node-contention", ["kube-scheduler", "kube-scheduler:cpu=500m"])
    def test_marked(carico_results):
        assert len(carico_results) == 2

    @pytest.mark.xfail(reason="not yet")
    def test_differs():
        assert False
"""
PROVIDER = """
from testbed.requirements import Problem
from testbed.testing import FakeProvider

def pytest_carico_provider(config):
    return FakeProvider({})
"""
MISSING = "problems=[Problem('kind is not installed', 'install it')]"


def said(result):
    """Return the plugin's part of the output, without the run's name."""
    lines = [line for line in result.outlines if not line.startswith(("run: ", "results: "))]
    return lines[next(place for place, line in enumerate(lines) if "= carico =" in line) : -1]


def test_results_and_tables_are_identical(session, pytester):
    pytester.makeconftest("")  # the simulated cluster
    pytester.makepyfile(TESTS)
    outputs, contents = [], []
    for arguments in ([], ["-n2"]):
        result = session("-m", "cluster", *XDIST, *arguments)
        result.assert_outcomes(passed=3, xfailed=1)
        result.stdout.no_fnmatch_line("*tests done*")  # a short session needs no sign of life
        outputs.append(said(result))
        contents.append((pytester.path / ".carico" / "latest" / "result.json").read_bytes())
    assert contents[0] == contents[1]
    assert outputs[0] == outputs[1]
    runs = {folder.path: folder.read() for folder in all_runs(pytester.path / ".carico" / "runs")}
    assert sorted(run.command[-1] for run in runs.values()) == ["-n2", "xdist.plugin"], "all workers write to one run"
    for path, run in runs.items():
        assert (run.state, run.finished_repetitions) == ("complete", 4)
        assert sorted(file.name for file in path.iterdir()) == ["outcomes.json", "result.json", "run.json"]
    assert len({(path / "outcomes.json").read_bytes() for path in runs}) == 1


def test_an_invalid_marker_is_no_internal_error_in_workers(session, pytester):
    pytester.makepyfile(
        test_m="import pytest\n\n@pytest.mark.cluster\n@pytest.mark.carico(scenaro='x')\ndef test_one(): pass"
    )
    result = session("-m", "cluster", *XDIST, "-n1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: carico: test_m.py::test_one: the marker carico does not know scenaro, did you mean 'scenario'? *"]
    )
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


FEW = "carico: comparisons will be inconclusive: 1 repetition would be measured, a comparison needs 3: "


@pytest.mark.parametrize("arguments", [[], ["-q"]])
def test_too_few_repetitions_are_told_once_and_before_anything_runs(session, pytester, arguments):
    pytester.makepyfile(TESTS)
    shown = printed(session("-m", "cluster", *XDIST, "-n2", *arguments))
    assert shown.count(FEW) == 1
    assert shown.index(FEW) < shown.index("[100%]")
    assert FEW not in printed(session("-m", "cluster", "--carico-repetitions=3", *XDIST, "-n2", *arguments))


@pytest.fixture
def impatient(monkeypatch):
    """A log gets a line at once, although a session is short."""
    monkeypatch.setattr("testbed.experiment.progress.PERIOD_S", 0.0)


def test_the_reporting_process_shows_the_workers_progress_and_once_what_was_left_out(
    session, pytester, mixed, impatient
):
    pytester.makeconftest(PROVIDER.format(""))
    pytester.makepyfile(
        test_elsewhere="""
            import pytest

            @pytest.mark.cluster
            @pytest.mark.carico(providers=["kwok", "kind"])
            def test_elsewhere(): pass
        """
    )
    result = session("-m", "cluster", *XDIST, "-n2")
    result.assert_outcomes(passed=3)
    progress = [line for line in result.outlines if "tests done" in line]
    assert [line.partition(" tests done · 0:")[0] for line in progress] == [f"carico: {done}/3" for done in (1, 2, 3)]
    assert sum("1 cluster test is for other providers" in line for line in result.outlines) == 1


def test_a_session_without_workers_shows_no_progress_of_workers(session, mixed, impatient):
    session("-m", "cluster", *XDIST, "-n0").stdout.no_fnmatch_line("*tests done*")


def test_unit_tests_in_workers_only_report_left_out_tests_once(session, pytester, mixed, impatient):
    result = session(*XDIST, "-n1")
    result.assert_outcomes(passed=1)
    assert [line for line in result.outlines if "left out" in line] == [
        "carico: 3 cluster tests were left out; to run them: pytest -m cluster"
    ]
    result.stdout.no_fnmatch_line("*tests done*")
    assert not (pytester.path / ".carico").exists()


def test_missing_prerequisites_are_one_message(session, pytester, mixed):
    pytester.makeconftest(PROVIDER.format(MISSING))
    result = session("-m", "cluster", *XDIST, "-n1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == ["ERROR: carico: kind is not installed: install it"]
    assert not (pytester.path / ".carico").exists()


def test_what_cannot_be_measured_is_skipped_and_a_quiet_session_shows_no_progress(session, pytester, mixed, impatient):
    pytester.makeconftest(PROVIDER.format(MISSING))
    result = session("--carico-missing=skip", *XDIST, "-n1", "-q")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.no_fnmatch_line("*tests done*")


def test_runs_that_would_disturb_one_another_fail_and_name_the_right_command(session, pytester, mixed):
    pytester.makeconftest(PROVIDER.format("shared_hardware=True"))
    result = session("--carico-seed=1", *XDIST, "-n", "1")
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(
        [
            "runs on the provider fake would disturb one another in xdist's workers: "
            "pytest -p testbed.plugin --carico-seed=1 -p xdist.plugin -n0"
        ]
    )
    session("--carico-seed=1", *XDIST, "-n", "2", "-n0").assert_outcomes(passed=4)
