"""A project may have packages of its own called `testbed` or `workloads`: pytest works, and the clash is told."""

import sys

import pytest


@pytest.fixture
def project(pytester):
    """A function that runs ``python -m pytest`` in a project that has a package of a given name."""

    def run(package, test, *arguments):
        pytester.mkpydir(package).joinpath("__init__.py").write_text("ours = True\n")
        pytester.makeini("[pytest]")
        pytester.makepyfile(test)
        # With -m, Python finds packages of the current folder first; without, it finds installed ones first.
        return pytester.run(sys.executable, "-m", "pytest", "-p", "pytest_carico", *arguments)

    return run


OWN = "from testbed import ours\n\ndef test_one(): assert ours"
CLUSTER = """
import pytest
from workloads import ours

@pytest.mark.cluster
@pytest.mark.carico("pi-2000", "carico")
def test_one(carico_results): pass

def test_two(): assert ours
"""


def test_a_project_with_a_package_testbed_works(project):
    result = project("testbed", OWN)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["carico: the package testbed that Python finds here (*) hides carico-testbed's (*"])


USER = """
import pytest

@pytest.mark.cluster
def test_one(carico_experiment): pass
"""


@pytest.mark.parametrize("quiet", [[], ["-q"], ["-qq"], ["--no-header"]])
def test_a_missing_fixture_is_explained_once_however_quiet_the_session(project, quiet):
    result = project("testbed", USER, "-m", "cluster", *quiet)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*fixture 'carico_experiment' not found*"])
    result.stdout.re_match_lines_random([r"^carico: the package testbed that Python finds here"])
    assert sum(line.startswith("carico: ") for line in result.outlines) == 1


def test_options_are_refused_in_one_sentence_where_the_plugin_is_hidden(project):
    result = project("testbed", OWN, "--carico-seed=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: carico: the package testbed that Python finds here *: rename yours, or run *"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_project_with_a_package_workloads_works_without_cluster_tests(project):
    result = project("workloads", CLUSTER)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.no_fnmatch_line("*hides*")


def test_cluster_tests_are_refused_in_one_sentence_where_workloads_is_hidden(project):
    result = project("workloads", CLUSTER, "-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: carico: the package workloads that Python finds here (*) hides *: rename yours*"]
    )


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--carico-sed=3", "ERROR: carico: there is no option --carico-sed*"),
        ("--carico-preset=smok", "*--carico-preset: no such value: 'smok'*"),
    ],
)
def test_wrong_options_are_told_where_workloads_is_hidden(project, option, told):
    result = project("workloads", CLUSTER, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_the_plugin_can_be_left_out(project):
    result = project("testbed", OWN, "-p", "no:testbed.plugin")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*carico: *")


def test_conftest_files_keep_their_hooks_where_the_plugin_is_left_out(pytester):
    pytester.makeconftest("def pytest_carico_schedulers(config): return {}")
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_subprocess("-p", "pytest_carico", "-p", "no:testbed.plugin").assert_outcomes(passed=1)


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_package_that_the_plugin_hides_is_told(pytester, quiet):
    (pytester.path / "src" / "testbed").mkdir(parents=True)
    (pytester.path / "src" / "testbed" / "__init__.py").write_text("ours = True")
    pytester.makepyfile("from testbed import ours")
    result = pytester.runpytest_subprocess("-p", "pytest_carico", *quiet)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*ImportError: cannot import name 'ours'*"])
    result.stdout.fnmatch_lines_random(
        ["carico: carico-testbed's package testbed hides */src/testbed: *-p no:testbed.plugin*"]
    )
