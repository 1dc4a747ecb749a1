"""Statements are judged on every seed by itself, and the session says on how many each holds."""

import pytest

from testbed.cli import main
from testbed.results.runs import all_runs

CLAIMS = """
    import pytest
    from testbed.plugin.claims import claimed, depends_on_seed, not_reproduced

    pytestmark = pytest.mark.cluster
    HELD = {"always": 5, "mostly": 3, "rarely": 2, "never": 0, "undecided": 2}

    @pytest.mark.carico_claim("§5.2", "pods complete earlier")
    @pytest.mark.parametrize(("variant", "pods"), claimed(
        [(variant, 3) for variant in HELD],
        {("rarely", 3): "thesis: earlier; here later", ("never", 3): "thesis: earlier; here later"},
        {("undecided", 3): "holds on 9 of 20 seeds"},
    ))
    def test_claim(carico_seeds, carico_paper, variant, pods):
        for seed in carico_seeds:
            with seed:
                (run,) = seed.run("pi-2000", "carico", pods=pods)
                assert run.seed == seed.seed
                carico_paper.row("PCT", seed.seed, 1000, "s")
                assert seed.seed - 1000 <= HELD[variant]

    @pytest.mark.carico_calibration
    def test_fitted():
        pass
"""


@pytest.fixture
def judged(session, pytester):
    pytester.makepyfile(CLAIMS)
    return session("-m", "cluster", "--carico-preset=ci")


def test_all_but_what_was_not_expected_leave_the_session_green(judged):
    judged.assert_outcomes(passed=3, xfailed=3)
    assert judged.ret == pytest.ExitCode.OK


def test_the_summary_says_on_how_many_seeds_each_holds(judged):
    judged.stdout.fnmatch_lines(
        [
            "1 claim",
            "  always: 1 holds",
            "  mostly: 1 depends on the seed",
            "  never: 1 NOT REPRODUCED",
            "  rarely: 1 depends on the seed",
            "  undecided: 1 depends on the seed",
            "1 calibration: 1 holds",
            "DEPENDS ON THE SEED: 3",
            "  test_claim[[]mostly-3]  3/5",
            "  test_claim[[]rarely-3]  2/5",
            "    thesis: earlier; here later",
            "  test_claim[[]undecided-3]  2/5",
            "    holds on 9 of 20 seeds",
            "NOT REPRODUCED: 1",
            "  test_claim[[]never-3]  0/5",
        ]
    )


def test_a_figure_is_the_mean_of_all_seeds_with_its_extremes(judged):
    assert "    PCT                                     1000 s    1003 s   1.00    1001-1005" in judged.outlines


def test_the_table_of_claims_is_written_on_request(session, pytester):
    pytester.makepyfile(CLAIMS)
    session("-m", "cluster", "--carico-repetitions=2", "--carico-claims=claims.md")
    table = (pytester.path / "claims.md").read_text().splitlines()
    assert table[0] == "| paper | claim | holds on seeds | paper | ours |"
    assert table[2].startswith("| §5.2 | pods complete earlier (3); PCT | always 2/2; mostly 2/2; never 0/2; ")


def test_a_sessions_outcomes_are_kept_for_later_tables(session, pytester, capsys):
    pytester.makepyfile(CLAIMS)
    session("-m", "cluster", "--carico-repetitions=2", "--carico-claims=claims.md")
    (run,) = all_runs(pytester.path / ".carico" / "runs")
    capsys.readouterr()
    assert main(["claims", run.id]) == 0
    assert capsys.readouterr().out == (pytester.path / "claims.md").read_text()


def test_a_table_that_cannot_be_written_is_told_before_anything_runs(session, pytester):
    pytester.makepyfile(CLAIMS)
    result = session("-m", "cluster", "--carico-claims=none/claims.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot write the table of claims to *none/claims.md: there is no folder *"])
    assert not (pytester.path / ".carico").exists()


def test_a_statement_that_holds_on_too_few_seeds_fails_with_what_went_wrong_on_each(session, pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        def test_one(carico_seeds):
            for seed in carico_seeds:
                with seed:
                    assert seed.seed > 1002, "the limit is missed"
        """
    )
    result = session("--carico-repetitions=4")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*holds on 2 of 4 seeds", "*seed 1001: the limit is missed", "*seed 1002: *"])


def test_one_more_seed_can_be_asked_for(session, pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        def test_one(carico_seeds):
            judged = []
            for seed in carico_seeds:
                with seed:
                    judged.append(seed.seed)
            assert judged == [1001, 1002, 77]
        """
    )
    result = session("--carico-repetitions=2", "--carico-extra-seed=77")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["carico: * seed=1001 extra-seed=77 settings: defaults"])


def test_a_seed_of_the_session_is_judged_once(session, pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        def test_one(carico_seeds):
            assert len([seed.__exit__(None, None, None) for seed in carico_seeds]) == 2
        """
    )
    session("--carico-repetitions=2", "--carico-extra-seed=1002").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("seed.run", "RuntimeError: a seed was not judged: put the test's body into `with seed:`"),
        ("with seed: 1 / 0", "ZeroDivisionError*"),
    ],
)
def test_other_errors_are_no_verdict(session, pytester, body, message):
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.cluster
        @pytest.mark.xfail(strict=True, raises=AssertionError)
        def test_one(carico_seeds):
            for seed in carico_seeds:
                {body}
        """
    )
    result = session("-m", "cluster")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{message}"])
