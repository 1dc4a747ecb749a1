"""--carico-missing: a missing prerequisite is an error, unless skips are asked for, which are counted."""

import pytest

CONFTEST = """
from testbed.requirements import Problem
from testbed.testing import FakeProvider

def pytest_carico_provider(config):
    return FakeProvider(problems=[Problem("kind is not installed", "install it")])
"""


@pytest.fixture
def lacking(session, pytester, mixed):
    """A function that runs a session whose provider lacks something."""
    pytester.makeconftest(CONFTEST)
    return session


def test_a_missing_prerequisite_is_an_error_by_default(lacking):
    for arguments in (["-m", "cluster"], ["--carico-missing=fail"]):
        result = lacking(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: carico: kind is not installed: install it"])


def test_skips_are_counted_with_their_reason(lacking, pytester):
    result = lacking("--carico-missing=skip")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(
        [
            "carico: provider=simulated preset=smoke (1 rep) seed=1001 missing=skip settings:",
            "  defaults",
            "3 tests: 3 NOT MEASURED",
            "NOT MEASURED: 3",
            "  test_one",
            "  test_many[[]1[]]",
            "  test_many[[]2[]]",
            "    kind is not installed: install it",
        ]
    )
    assert not (pytester.path / ".carico").exists()


def test_the_ini_file_may_ask_for_skips(lacking, pytester):
    pytester.makeini("[pytest]\ncarico_missing = skip")
    lacking("-m", "cluster").assert_outcomes(skipped=3, deselected=1)
    assert lacking("-m", "cluster", "--carico-missing=fail").ret == pytest.ExitCode.USAGE_ERROR
    pytester.makeini("[pytest]\ncarico_missing = ignore")
    lacking("-m", "cluster").stderr.fnmatch_lines(
        ["ERROR: carico: carico_missing: no such value: 'ignore'; known: fail, skip"]
    )


def test_an_invalid_marker_stays_an_error(lacking, pytester):
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\n@pytest.mark.carico('pi-3000')\ndef test_wrong(): pass")
    result = lacking("--carico-missing=skip")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: carico: *::test_wrong: marker carico: no scenario is named*"])


def test_a_folder_that_cannot_be_written_stays_an_error(lacking):
    result = lacking("--carico-missing=skip", "--carico-json=gone/r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: carico: cannot write the results*"])


@pytest.mark.parametrize(("also", "colour"), [("", "\x1b[31m"), ("def test_more(): pass", "\x1b[33m")])
def test_a_session_without_measurements_is_not_green(session, pytester, also, colour):
    pytester.makepyfile(
        f"import pytest\npytestmark = pytest.mark.cluster\n\ndef test_one(): pytest.skip('no Xen')\n\n{also}"
    )
    lines = session("-m", "cluster", "--color=yes").outlines
    verdict = next(line for line in lines if "1 NOT MEASURED" in line)
    assert verdict.startswith(colour)
