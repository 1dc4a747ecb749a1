"""The preflight: everything that would fail later is reported at once, and nothing is created."""

from pathlib import Path

import pytest

import testbed.requirements

PROBLEMS = """
from testbed.requirements import Problem
from testbed.testing import FakeProvider

def pytest_carico_provider(config):
    return FakeProvider(
        problems=[Problem("kind is not installed", "install it"), Problem("Docker does not answer", "start it")]
    )
"""
WRONG = """
import pytest
pytestmark = pytest.mark.cluster

@pytest.mark.carico("pi-3000")
@pytest.mark.parametrize("case", [1, 2])
def test_one(case): pass

@pytest.mark.carico("pi-2000", repetitions=0)
def test_two(): pass
"""


def test_all_problems_are_listed_at_once_each_with_its_remedy(session, pytester):
    pytester.makeconftest(PROBLEMS)
    pytester.makepyfile(test_wrong=WRONG)
    result = session("-m", "cluster", "--carico-json=gone/r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: carico: 5 problems, nothing was run:",
            "  - test_wrong.py::test_one: marker carico: no scenario is named 'pi-3000', did you mean 'pi-2000'? K*",
            "  - test_wrong.py::test_two: the marker carico needs repetitions from 1 on, got 0",
            "  - cannot write the results to *gone/r.json: there is no folder *; create it first",
            "  - kind is not installed: install it",
            "  - Docker does not answer: start it",
        ]
    )
    assert not (pytester.path / ".carico").exists()


@pytest.mark.parametrize("package", ["kubernetes", "msgspec"])
def test_missing_files_are_listed_beside_missing_packages(session, pytester, monkeypatch, mixed, package):
    find = testbed.requirements.find_spec
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda name: None if name == package else find(name))
    result = session("-m", "cluster", "--carico-provider=external", "--carico-kubeconfig=gone")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: carico: 2 problems, nothing was run:",
            f"  - a real cluster needs {package}: pip install 'carico-testbed[[]cluster[]]', or in a clone *",
            f"  - there is no kubeconfig {pytester.path}/gone: name another with --kubeconfig (pytest: --carico-kube*",
        ]
    )


def test_a_session_without_cluster_tests_runs_no_preflight(session, pytester):
    pytester.makeconftest("def pytest_carico_provider(config): raise RuntimeError")
    pytester.makepyfile("def test_quick(): pass")
    session().assert_outcomes(passed=1)


def test_tests_can_be_listed_without_their_prerequisites(session, pytester):
    pytester.makeconftest(PROBLEMS)
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\ndef test_one(): pass")
    assert session("-m", "cluster", "--collect-only").ret == pytest.ExitCode.OK


def test_one_case_of_a_parametrised_test_is_named_as_such(session, pytester):
    pytester.makepyfile(
        test_m="""
        import pytest

        @pytest.mark.cluster
        @pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.carico("pi-3000"))])
        def test_one(case): pass
        """
    )
    session("-m", "cluster").stderr.fnmatch_lines(
        ["ERROR: carico: test_m.py::test_one[[]2[]]: marker carico: *pi-3000*"]
    )


def test_a_folder_that_cannot_be_written_is_one_problem(session, pytester, mixed):
    (pytester.path / ".carico").write_text("a file")
    result = session("-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: carico: cannot record the run in *.carico/runs: *"])
    result.stderr.no_fnmatch_line("*problems*")


def test_a_full_disk_is_one_problem(session, pytester, mixed, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115  the caller
    result = session("-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot record the run in *: No space left on device; make it a folder *has room*"])
    assert not (pytester.path / ".carico").exists()


def test_a_run_that_cannot_be_recorded_is_a_problem_even_with_another_results_file(session, pytester, mixed):
    (pytester.path / ".carico").write_text("a file")
    session("--carico-json=r.json").stderr.fnmatch_lines(
        ["ERROR: carico: cannot record the run in *.carico/runs: *: Not a directory; make it a folder *"]
    )


def test_so_is_a_folder_for_runs_that_is_a_link_to_nothing(session, pytester, mixed):
    (pytester.path / ".carico").symlink_to(pytester.path / "unmounted")
    result = session("-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot record the run in *: */.carico: No such file or directory; make it a *"])


def test_the_provider_of_the_hook_is_used(session, pytester):
    pytester.makeconftest(
        """
        from testbed.testing import FakeProvider

        def pytest_carico_provider(config):
            return FakeProvider()
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("pi-2000", "carico")
        def test_one(carico_results, carico_provider):
            assert carico_provider.calls == ["pi-2000 carico 1001"]
        """
    )
    session("-m", "cluster").assert_outcomes(passed=1)
