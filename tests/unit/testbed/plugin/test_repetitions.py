"""Too few repetitions to judge by are told before anything runs, by what each test and the baseline really have."""

import pytest

from tests.kits.printed import printed

TEST = """
    import pytest

    @pytest.mark.cluster
    @pytest.mark.carico("pi-2000", {schedulers!r}{marker})
    def test_{name}(carico_results): pass
"""
UNMARKED = """
    import pytest

    @pytest.mark.cluster
    def test_more(carico_experiment):
        carico_experiment.run("sklearn", "carico", pods=3)
"""
BOTH = ["carico", "kube-scheduler"]
GATE = "--carico-fail-on=pod_completion_time:mean:+10%"


@pytest.fixture
def write(pytester):
    """Write a test of its own file."""

    def of(name, marker="", schedulers="carico"):
        pytester.makepyfile(**{f"test_{name}": TEST.format(name=name, marker=marker, schedulers=schedulers)})

    return of


def refused(result, pytester, *sentences):
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    for sentence in sentences:
        assert sentence in printed(result)
    assert not list(pytester.path.glob(".carico/runs/*"))


class TestAGateThatCanJudgeNothingRunsNothing:
    FEW = "1 repetition would be measured, a gate needs 3: --carico-repetitions=5 or --carico-preset=ci"

    @pytest.fixture
    def saved(self, session, pytester):
        """A function that saves a baseline, and forgets the session that made it."""

        def save(*arguments):
            result = session("-m", "cluster", "--carico-save-baseline=base.json", *arguments)
            assert result.ret == pytest.ExitCode.OK
            (pytester.path / ".carico").rename(pytester.path / "earlier")
            return result

        return save

    def test_by_a_baseline(self, session, pytester, write, saved):
        write("pods")
        saved("--carico-repetitions=5")
        refused(session("-m", "cluster", "--carico-baseline=base.json"), pytester, f"carico: {self.FEW}")

    def test_without_a_marker(self, session, pytester, saved):
        pytester.makepyfile(test_more=UNMARKED)
        saved("--carico-repetitions=5")
        refused(session("-m", "cluster", "--carico-baseline=base.json"), pytester, self.FEW)

    def test_by_another_scheduler(self, session, pytester, write):
        write("both", schedulers=BOTH)
        refused(session("-m", "cluster", GATE), pytester, self.FEW)

    def test_of_a_marker(self, session, pytester, write):
        write("both", ", fail_on='pod_completion_time:mean:+10%', repetitions=2", BOTH)
        refused(
            session("-m", "cluster", "--carico-repetitions=5"),
            pytester,
            "the marker of test_both.py::test_both sets 2 repetitions, a gate needs 3: write repetitions=5 there",
        )

    def test_by_a_baseline_of_one_repetition(self, session, pytester, write, saved):
        write("pods")
        saved()
        result = session("-m", "cluster", "--carico-baseline=base.json", "--carico-repetitions=5")
        refused(
            result,
            pytester,
            "base.json has 1 repetition of pi-2000 · 1000 pods · 19 nodes · carico, a gate needs 3: make it anew with "
            f"--carico-repetitions=5 --carico-save-baseline={pytester.path}/base.json",
        )
        assert "would be measured" not in printed(result)

    def test_a_marker_with_enough_repetitions_is_judged(self, session, write, saved):
        write("pods", ", repetitions=3")
        saved()
        result = session("-m", "cluster", "--carico-baseline=base.json")
        assert result.ret == pytest.ExitCode.OK
        assert "a gate needs" not in printed(result)

    @pytest.mark.parametrize("arguments", [[], ["-q"]])
    def test_what_cannot_be_judged_beside_other_things_is_named(self, session, pytester, write, saved, arguments):
        write("pods", ", repetitions=3")
        pytester.makepyfile(test_more=UNMARKED)
        saved("--carico-repetitions=3")
        result = session("-m", "cluster", "--carico-baseline=base.json", *arguments)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        shown = printed(result)
        warning = (
            "carico: WARNING: the gate cannot judge everything: 1 repetition would be measured by "
            "test_more.py::test_more, a gate needs 3: --carico-repetitions=5 or --carico-preset=ci"
        )
        assert shown.count(warning) == 1
        assert shown.index(warning) < shown.index("gate: FAILED")


class TestABaselineThatIsTooSmall:
    @pytest.mark.parametrize("arguments", [[], ["-q"]])
    def test_is_told_before_and_after(self, session, pytester, write, arguments):
        write("pods")
        result = session("-m", "cluster", "--carico-save-baseline=base.json", *arguments)
        assert result.ret == pytest.ExitCode.OK
        before, _, after = printed(result).partition("(1 written)")
        assert "WARNING: 1 repetition would be measured, a gate by the baseline needs 3: --carico-rep" in before
        assert "base.json has 1 repetition of pi-2000 · 1000 pods · 19 nodes · carico, a gate needs 3: make" in after
        assert f"--carico-repetitions=5 --carico-save-baseline={pytester.path}/base.json" in after
        lines = [line for line in result.outlines if not line.startswith("next: ")]  # a command stays whole
        assert all(len(line) <= 80 for line in lines if "repetition" in line and "/" not in line)

    def test_is_no_other_one(self, session, write):
        write("pods")
        result = session("-m", "cluster", "--carico-save-baseline=base.json", "--carico-repetitions=3")
        assert "WARNING" not in printed(result)


class TestWithoutAGate:
    FEW = "carico: comparisons will be inconclusive: 1 repetition would be measured, a comparison needs 3: --carico-"

    @pytest.mark.parametrize("arguments", [[], ["-q"], ["test_both.py"]])
    def test_inconclusive_comparisons_are_announced(self, session, write, arguments):
        write("both", schedulers=BOTH)
        assert printed(session("-m", "cluster", *arguments)).count(self.FEW) == 1

    def test_a_marker_with_enough_repetitions_announces_nothing(self, session, write):
        write("both", ", repetitions=3", BOTH)
        assert "will be inconclusive" not in printed(session("-m", "cluster"))

    def test_the_inconclusive_ones_are_named(self, session, write):
        write("both", ", repetitions=3", BOTH)
        write("few", ", repetitions=2", ["carico:hold_off_s=1", "carico:hold_off_s=2"])
        assert (
            "carico: some comparisons will be inconclusive: the marker of test_few.py::test_few sets 2 repetitions, "
            "a comparison needs 3: write repetitions=5 there" in printed(session("-m", "cluster"))
        )

    def test_one_scheduler_alone_is_compared_with_nothing(self, session, write):
        write("pods")
        assert "will be inconclusive" not in printed(session("-m", "cluster"))
