"""The summary of a session: comparison with the thesis, medians, a verdict, and the next command."""

import pytest

from testbed.plugin.claims import claimed

CLAIMS = """
    import pytest
    pytestmark = pytest.mark.cluster

    def test_holds(carico_experiment, carico_paper):
        runs = carico_experiment.run("pi-2000", "carico", pods=3, repetitions=3)
        carico_paper.row("median PCT, carico", 51.9, 52, "s")
        carico_paper.row("no number in the thesis", 0.25, None, note="read off Fig 5.1")

    @pytest.mark.xfail(strict=True, reason="the thesis finds 3, ours is 4")
    def test_differs(carico_paper):
        carico_paper.row("pods", 4, 3)
        assert False

    def test_skipped():
        pytest.skip("needs Xen")

    def test_fails():
        assert False
"""


@pytest.fixture
def claims(session, pytester):
    pytester.makepyfile(test_claims=CLAIMS)
    return session("-m", "cluster", "--color=no")


def test_the_summary_fits_80_columns(claims):
    lines = claims.outlines
    assert max(len(line) for line in lines if not line.startswith(("results:", "run:", "rootdir:", "plugins:"))) <= 80


def test_the_tables_compare_with_the_thesis(claims):
    claims.stdout.fnmatch_lines(
        [
            "test_claims.py",
            "  test_holds",
            "    quantity * paper * ours * ratio *",
            "    median PCT, carico * 52 s * 51.9 s * 1.00",
            "    no number in the thesis *  0.25",
            "      read off Fig 5.1",
            "  test_differs",
            "    pods *  3 *  4 *  1.33",
        ]
    )


def test_medians_a_verdict_and_the_next_command_follow(claims, pytester):
    claims.stdout.fnmatch_lines(
        [
            "      n     JCT s [[]interval[]]     PCT s [[]interval[]]",
            "pi-2000 · 3 pods · 19 nodes",
            "  carico",
            "      3 * [[]*, *[]] * [[]*, *[]]",
            "",
            "4 tests: 1 passed, 1 failed as expected, 1 NOT MEASURED, 1 failed",
            "FAILED AS EXPECTED: 1",
            "  test_differs",
            "    the thesis finds 3, ours is 4",
            "NOT MEASURED: 1",
            "  test_skipped",
            "    needs Xen",
            f"results: {pytester.path}/.carico/runs/*/result.json",
            "next: pytest * -m cluster * --lf",
        ]
    )


def test_the_verdict_counts_the_outcomes_of_tests(claims):
    claims.assert_outcomes(passed=1, xfailed=1, skipped=1, failed=1)
    assert claims.ret == pytest.ExitCode.TESTS_FAILED


def test_a_claim_that_holds_unexpectedly_has_failed(session, pytester):
    pytester.makeini("[pytest]\nxfail_strict = true")
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\n@pytest.mark.xfail\ndef test_holds(): pass")
    session("-m", "cluster").stdout.fnmatch_lines(["1 test: 1 failed"])


def test_an_error_before_or_after_a_test_is_a_failure(session, pytester):
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.cluster

        @pytest.fixture
        def broken_before():
            raise RuntimeError

        @pytest.fixture
        def broken_after():
            yield
            raise RuntimeError

        def test_one(broken_before): pass
        def test_two(broken_after): pass
        """
    )
    session("-m", "cluster").stdout.fnmatch_lines(["2 tests: 2 failed"])


def test_results_that_cannot_be_written_at_the_end_fail_the_session(session, pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        def test_one(carico_experiment, tmp_path):
            carico_experiment.run("pi-2000", "carico", pods=3)
            from pathlib import Path
            Path("taken.json").mkdir()
        """
    )
    result = session("--carico-json=taken.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["cannot write the results to *taken.json: Is a directory; to write them elsewhere: carico-testbed recover *"]
    )


def test_colour_is_for_verdicts(session, pytester):
    pytester.makepyfile(test_claims=CLAIMS)
    coloured = [line for line in session("-m", "cluster", "--color=yes").outlines if "\x1b[" in line]
    assert any("4 tests:" in line for line in coloured)
    assert not any("median PCT" in line or "results:" in line for line in coloured)


def test_an_error_does_not_count_as_not_reproduced(session, pytester):
    pytester.makepyfile(
        """
        import pytest
        from testbed.plugin.claims import claimed

        @pytest.mark.cluster
        @pytest.mark.parametrize("case", claimed(["holds", "differs", "breaks"], {
            "differs": "the thesis finds 3, ours is 4", "breaks": "the thesis finds 5, ours is 6",
        }))
        def test_one(case):
            if case == "breaks":
                raise RuntimeError("no cluster")
            assert case == "holds"
        """
    )
    session("-m", "cluster").stdout.fnmatch_lines(["3 tests: 1 passed, 1 failed as expected, 1 failed"])


def test_a_reason_for_an_unknown_case_is_an_error():
    with pytest.raises(
        ValueError, match=r"reasons are given for \['literl'\], which are not among the cases: \['literal'\]"
    ):
        claimed(["literal"], {"literl": "the thesis finds 3, ours is 4"})
