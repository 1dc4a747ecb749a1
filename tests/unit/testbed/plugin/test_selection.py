"""Only cluster tests that were asked for run; the others are counted, with the command that runs them."""

import pytest


@pytest.mark.parametrize("arguments", [[], ["-q"], ["."], ["-k", "test"], ["-m", "not slow"]])
def test_cluster_tests_are_left_out_unless_asked_for(session, mixed, arguments):
    result = session(*arguments)
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["carico: 3 cluster tests were left out; to run them: pytest -m cluster"])


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["-m", "cluster"], 3),
        (["-m", "cluster and not slow"], 3),
        (["test_slow.py"], 3),
        (["test_slow.py", "test_unit.py"], 4),
        (["test_slow.py::test_one"], 1),
        (["test_slow.py::test_many"], 2),
        (["test_slow.py::test_many[2]"], 1),
        (["--carico-seed=1"], 4),
        (["--carico-preset=smoke"], 4),
        (["--carico-repetitions=2", "-k", "one"], 1),
    ],
)
def test_cluster_tests_run_when_named_by_marker_file_test_or_option(session, mixed, arguments, passed):
    result = session(*arguments)
    result.assert_outcomes(passed=passed, deselected=result.parseoutcomes().get("deselected", 0))
    result.stdout.no_fnmatch_line("*left out*")


def test_only_tests_within_the_rest_of_the_selection_are_counted(session, mixed):
    session("-k", "one").stdout.fnmatch_lines(["carico: 1 cluster test was left out;*"])
    session("-m", "not cluster").stdout.no_fnmatch_line("*left out*")


def test_naming_one_cluster_test_selects_no_others(session, mixed):
    result = session("test_unit.py", "test_slow.py::test_many[1]")
    result.assert_outcomes(passed=2)


def test_cluster_tests_that_failed_last_run_again(session, pytester):
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\ndef test_broken(): assert 0")
    session("-m", "cluster").assert_outcomes(failed=1)
    session("--lf").assert_outcomes(failed=1)


def test_a_folder_named_like_the_marker_marks_nothing(session, pytester):
    pytester.mkdir("cluster").joinpath("test_unit.py").write_text("def test_quick(): pass\n")
    result = session()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*carico:*")


def test_a_session_without_cluster_tests_shows_nothing_of_the_plugin(session, pytester):
    pytester.makepyfile("def test_quick(): pass")
    before = {path.name for path in pytester.path.iterdir()}
    result = session("-W", "error", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*carico: *")
    assert {path.name for path in pytester.path.iterdir()} - before <= {"__pycache__"}
