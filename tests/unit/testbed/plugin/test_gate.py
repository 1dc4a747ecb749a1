"""The gate of a session: a baseline that is saved and judged by, and nothing that is green unmeasured."""

import json
import re
import shlex
from fnmatch import fnmatch
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from tests.kits.printed import printed

TESTS = """
    import pytest

    pytestmark = pytest.mark.cluster

    @pytest.mark.carico("pi-2000", "carico"{marker})
    def test_pods(carico_results):
        assert carico_results

    def test_more(carico_experiment):
        carico_experiment.run("sklearn", "carico", pods=3)
"""
SLOWER = """
import msgspec
import pytest
from testbed.testing import FakeProvider

class Slower(FakeProvider):
    def run(self, *arguments):
        one = super().run(*arguments)
        items = [
            msgspec.structs.replace(item, data={name: 1.2 * value for name, value in item.data.items()})
            if item.unit == "s" else item
            for item in one.data_items
        ]
        return msgspec.structs.replace(one, data_items=items)

@pytest.fixture(scope="session")
def carico_provider():
    return Slower()

def pytest_carico_provider(config):
    return Slower()
"""
THREE = ("-m", "cluster", "--carico-repetitions=3")


@pytest.fixture
def tests(pytester):
    """Write the tests, with more arguments for the marker of the first."""

    def write(marker=""):
        pytester.makepyfile(test_them=TESTS.format(marker=marker))

    write()
    return write


@pytest.fixture
def baseline(session, pytester, tests):
    """A baseline of a session."""
    result = session(*THREE, "--carico-save-baseline=base.json")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            f"baseline: {pytester.path}/base.json (2 written)",
            "  pi-2000 · 1000 pods · 19 nodes · carico",
            "  sklearn · 3 pods · 19 nodes · carico",
            f"next: pytest -m cluster --carico-repetitions=3 --carico-baseline={pytester.path}/base.json",
        ]
    )
    return pytester.path / "base.json"


def test_a_session_passes_beside_itself(session, baseline):
    result = session(*THREE, f"--carico-baseline={baseline}")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["gate: passed (6 ok)", f"next: pytest -m cluster --carico-preset=ci --carico-baseline={baseline}"]
    )


def test_the_command_after_a_gate_that_passed_has_its_conditions(session, baseline):
    limits = ("--carico-fail-on=pod_completion_time:p99:+10%", "--carico-fail-on=pod_outcome:failed:+0")
    result = session(*THREE, f"--carico-baseline={baseline}", *limits)
    result.stdout.fnmatch_lines(
        [f"next: pytest -m cluster --carico-preset=ci --carico-baseline={baseline} {limits[0]} {limits[1]}"]
    )
    result = session(*THREE, *limits, "--carico-save-baseline=again.json")
    again = baseline.with_name("again.json")
    result.stdout.fnmatch_lines([f"next: pytest * --carico-baseline={again} {limits[0]} {limits[1]}"])


def test_after_a_gate_of_the_largest_preset_the_changes_are_shown(session, baseline):
    result = session(*THREE, "--carico-preset=full", f"--carico-baseline={baseline}")
    result.stdout.fnmatch_lines(["gate: passed (6 ok)", "next: carico-testbed compare *base.json 2*"])


@pytest.mark.parametrize("given", [("--carico-preset=ci",), ("--carico-repetitions=4",), ()])
def test_the_command_that_makes_a_baseline_makes_one_that_judges(session, pytester, tests, given):
    judged = ("-m", "cluster", *given, "--carico-baseline=base.json")
    refused = session(*judged)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    said = " ".join(line.strip() for line in refused.errlines)
    makes = shlex.split(said[said.index("pytest ") : said.index(" makes it of")].removeprefix("pytest "))
    assert set(given) <= set(makes)
    made = session(*makes)
    assert made.ret == pytest.ExitCode.OK
    (command,) = [line.removeprefix("next: pytest ") for line in made.outlines if line.startswith("next: ")]
    assert session(*shlex.split(command)).ret == pytest.ExitCode.OK


def test_after_a_baseline_of_one_repetition_the_next_command_makes_another(session, pytester, tests):
    made = session("-m", "cluster", "--carico-save-baseline=base.json")
    (command,) = [line.removeprefix("next: pytest ") for line in made.outlines if line.startswith("next: ")]
    assert session(*shlex.split(command)).ret == pytest.ExitCode.OK
    assert len(json.loads((pytester.path / "base.json").read_text())["measured"][0]["seeds"]) == 5


def test_a_baseline_is_small_and_says_what_made_it(baseline):
    assert baseline.stat().st_size < 10_000
    made_by = json.loads(baseline.read_text())["made_by"]
    assert made_by["provider"] == "fake"
    assert made_by["command"][-1] == "--carico-save-baseline=base.json"


def test_a_regression_is_a_failed_report_with_one_sentence(session, pytester, baseline):
    pytester.makeconftest(SLOWER)
    result = session(*THREE, f"--carico-baseline={baseline}", "--carico-fail-on=pod_completion_time:p99:+10%")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["test_them.py ..* [[]100%[]]"])
    result.stdout.fnmatch_lines(
        [
            "*carico gate*",
            "pi-2000 · 1000 pods · 19 nodes · carico: pod_completion_time p99 (pi-2000) went",
            "  from a mean of * s to * s (+20.0 %, n = 3; allowed +10%)",
            "gate: FAILED (2 regressed)",
            f"next: carico-testbed compare {baseline} 2* --metric pod_completion_time:p99",
            "FAILED carico gate 1 - *",
            "FAILED carico gate 2 - *",
        ]
    )


def test_names_in_a_baseline_move_no_cursor_and_forge_no_line(session, pytester, baseline):
    found = json.loads(baseline.read_text())
    for one in found["measured"]:
        one["scheduler"] = f"\x1b[2J{one['scheduler']}\x07"
        one["title"] = f"{one['title']}\x1b]0;title\x07\nPASSED everything"
    baseline.write_text(json.dumps(found))
    result = session(*THREE, f"--carico-baseline={baseline}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "?]0;title? PASSED everything is in" in printed(result)
    assert text.replace("\n", "").isprintable()
    assert not [line for line in text.splitlines() if line.startswith("PASSED")]


def test_junit_has_a_failed_case_for_every_regression(session, pytester, baseline):
    pytester.makeconftest(SLOWER)
    session(
        *THREE,
        f"--carico-baseline={baseline}",
        "--carico-fail-on=pod_completion_time:p99:+10%",
        "--junitxml=junit.xml",
    )
    cases = ElementTree.parse(pytester.path / "junit.xml").findall(".//testcase")
    failed = {case.get("name"): [one.get("message") for one in case.findall("failure")] for case in cases}
    for name in ("carico gate 1", "carico gate 2"):
        (message,) = failed[name]
        assert re.search(r"went from a mean of \S+ s to \S+ s \(\+20.0 %, n = 3; allowed \+10%\)$", message), "one line"


def test_the_sentences_of_a_gate_fit_80_columns(session, pytester, baseline, tests):
    tests(marker=", fail_on='pod_completion_time:mean:+10%'")
    pytester.makeconftest(SLOWER)
    limits = ("--carico-fail-on=pod_completion_time:mean:+20%", "--carico-fail-on=job_completion_time:+5%")
    result = session(*THREE, *limits, "--carico-seed=2", f"--carico-baseline={baseline}", "--junitxml=junit.xml")
    shown = printed(result)
    for words in ("went from a mean of", "this gate finds +", "inconclusive: pi-2000 · "):
        assert words in shown
    assert [line for line in result.outlines if len(line) > 80 and str(pytester.path) not in line] == []
    cases = ElementTree.parse(pytester.path / "junit.xml").findall(".//testcase[@name='test_pods']/failure")
    assert [one.get("message").count("\n") for one in cases] == [0]
    part = session(*THREE, *limits, f"--carico-baseline={baseline}", "test_them.py::test_pods")
    assert "not asked for, as only a part of the tests was chosen" in printed(part)
    assert [line for line in part.outlines if len(line) > 80 and str(pytester.path) not in line] == []


def test_experiments_that_all_failed_leave_no_table(session, pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        def test_one(carico_experiment):
            carico_experiment.run("pi-2000", "carico", pods=0)
        """
    )
    result = session(*THREE)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*JCT s*")
    result.stdout.no_fnmatch_line("*Medians over n repetitions*")


def test_the_page_of_a_session_shows_the_gate_that_failed(session, pytester, baseline):
    pytester.makeconftest(SLOWER)
    result = session(*THREE, f"--carico-baseline={baseline}", "--carico-html=page.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate: FAILED (2 ok, 4 regressed)"])
    body = (pytester.path / "page.html").read_text().partition("<body>")[2].partition('<section id="measured">')[0]
    assert "gate: FAILED (2 ok, 4 regressed)" in body
    assert "pod_completion_time mean (pi-2000) went from " in body
    assert "(+20.0 %, n = 3; allowed +5%)" in body
    assert body.count('<span class="badge regressed">') == 4
    assert body.index(">Gate<") < body.index(">Verdicts<")


def test_a_worse_figure_within_the_limit_passes(session, pytester, baseline):
    pytester.makeconftest(SLOWER)
    result = session(*THREE, f"--carico-baseline={baseline}", "--carico-fail-on=pod_completion_time:p99:+30%")
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n1")], ids=["one process", "a worker"])
def test_a_marker_has_a_gate_of_its_own(session, pytester, baseline, tests, workers):
    tests(marker=", fail_on='pod_completion_time:mean:+10%'")
    pytester.makeconftest(SLOWER)
    asked = f"--carico-baseline={baseline}", "--carico-fail-on=pod_completion_time:p99:+90%"
    result = session(*THREE, *asked, *workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "pi-2000 · 1000 pods · 19 nodes · carico: pod_completion_time mean (pi-2000) went",
            "  from a mean of * (+20.0 %, n = 3; allowed +10%)",
            f"next: carico-testbed compare {baseline} 2* --metric pod_completion_time:mean",
            "FAILED test_them.py::test_pods - *",
        ]
    )


def test_a_full_disk_does_not_hide_what_a_tests_gate_says(session, pytester, baseline, tests, monkeypatch):
    def write_gate(path, gate):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("testbed.results.gate_file.write_gate", write_gate)
    tests(marker=", fail_on='pod_completion_time:mean:+10%'")
    pytester.makeconftest(SLOWER)
    result = session(*THREE, f"--carico-baseline={baseline}", "--carico-fail-on=pod_completion_time:p99:+90%")
    shown = printed(result)
    assert "pod_completion_time mean (pi-2000) went from a mean of" in shown
    assert fnmatch(shown, "*cannot keep what the gate said in */gates: No space left on device*")


class TestATestThatFailedByItselfIsRunAgain:
    FAILS = """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("sklearn", "carico")
        def test_it(carico_results): assert {passes}
    """

    @pytest.fixture
    def judged(self, session, pytester, tests):
        """A function that runs everything, with one test that fails, beside a baseline of a session that passed."""
        given = (*THREE, "--carico-fail-on=pod_completion_time:p99:+10%")
        pytester.makepyfile(test_other=self.FAILS.format(passes=True))
        assert session(*given, "--carico-save-baseline=base.json").ret == pytest.ExitCode.OK
        pytester.makepyfile(test_other=self.FAILS.format(passes=False))
        return lambda *more: session(*given, *(more or ["--carico-baseline=base.json"]))

    def next_of(self, result):
        (command,) = [line.removeprefix("next: pytest ") for line in result.outlines if line.startswith("next: ")]
        return shlex.split(command.removeprefix("-p testbed.plugin "))

    def test_by_the_same_baseline(self, session, pytester, judged):
        again = self.next_of(judged())
        assert again[-2:] == ["--carico-baseline=base.json", "--lf"]
        assert self.next_of(session(*again)) == again
        pytester.makepyfile(test_other=self.FAILS.format(passes=True))
        result = session(*again)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(
            [
                "gate: passed (1 ok; not measured, but in the baseline: 2)",
                "not asked for, as only a part of the tests was chosen: 2 of 3 entries of the",
                "  baseline",
            ]
        )

    def test_and_may_have_become_slower(self, session, pytester, judged):
        again = self.next_of(judged())
        pytester.makepyfile(test_other=self.FAILS.format(passes=True))
        pytester.makeconftest(SLOWER)
        result = session(*again)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["gate: FAILED (1 regressed; not measured, but in the baseline: 2)"])

    def test_also_beside_a_test_whose_own_gate_failed(self, session, pytester, judged, tests):
        tests(marker=", fail_on='pod_completion_time:mean:+10%'")
        pytester.makeconftest(SLOWER)
        result = session(*THREE, "--carico-baseline=base.json", "--carico-fail-on=pod_completion_time:p99:+90%")
        result.assert_outcomes(passed=1, failed=2)
        assert self.next_of(result)[-1] == "--lf"

    def test_with_all_others_if_a_baseline_is_to_be_made(self, judged):
        assert self.next_of(judged("--carico-save-baseline=new.json"))[-1] == "--carico-save-baseline=new.json"

    def test_unless_none_has_failed_but_the_gate(self, session, pytester, baseline):
        pytester.makepyfile(test_them=TESTS.format(marker="").replace("pi-2000", "long-pods"))
        for more in ([], ["--lf"]):
            result = session(*THREE, f"--carico-baseline={baseline}", *more)
            result.assert_outcomes(passed=2, failed=1)
            result.stdout.fnmatch_lines(["pi-2000 * is in the baseline, but was not measured"])


def test_a_baseline_serves_any_condition(session, pytester, baseline, tests):
    tests(marker=", fail_on='pod_completion_time:p90:+10%'")
    session(*THREE, f"--carico-baseline={baseline}").assert_outcomes(passed=2)


def test_the_ini_file_may_name_baseline_and_conditions(session, pytester, baseline):
    pytester.makeini("[pytest]\ncarico_baseline = base.json\ncarico_fail_on =\n    pod_completion_time:p99:+10%\n")
    pytester.makeconftest(SLOWER)
    session(*THREE).stdout.fnmatch_lines(["gate: FAILED (2 regressed)"])


def test_a_session_without_cluster_tests_is_not_judged(session, pytester, baseline):
    pytester.makeini("[pytest]\ncarico_baseline = base.json\n")
    pytester.makepyfile(test_unit="def test_quick(): pass")
    assert session("test_unit.py").ret == pytest.ExitCode.OK


class TestNothingIsGreenUnmeasured:
    def test_what_the_baseline_has_and_nobody_measured(self, session, pytester, baseline):
        pytester.makepyfile(
            test_them="""
            import pytest

            @pytest.mark.cluster
            def test_more(carico_experiment):
                carico_experiment.run("sklearn", "carico", pods=3)
        """
        )
        result = session(*THREE, f"--carico-baseline={baseline}")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["pi-2000 · * is in the baseline, but was not measured"])

    def test_a_part_that_the_user_chose_is_judged_alone(self, session, baseline):
        result = session(*THREE, "-k", "more", f"--carico-baseline={baseline}")
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["gate: passed (3 ok; not measured, but in the baseline: 1)"])

    class TestOfFiles:
        ONE = """
            import pytest

            @pytest.mark.cluster
            @pytest.mark.carico("{scenario}", "carico")
            def test_it(carico_results): pass
        """
        PASSED = (
            "gate: passed (3 ok; not measured, but in the baseline: 1)",
            "not asked for, as only a part of the tests was chosen: 1 of 2 entries of the",
            "  baseline",
        )

        @pytest.fixture
        def save(self, session, pytester):
            """A function that saves a baseline of two files in a folder."""
            pytester.mkdir("gate")
            for number, scenario in ((1, "pi-2000"), (2, "sklearn")):
                (pytester.path / "gate" / f"test_{number}.py").write_text(dedent(self.ONE.format(scenario=scenario)))

            def save(*arguments):
                assert session(*THREE, "--carico-save-baseline=base.json", *arguments).ret == pytest.ExitCode.OK

            return save

        @pytest.mark.parametrize("made_of", [[], ["gate"], ["gate/test_1.py", "gate/test_2.py"]])
        def test_a_file_is_a_part(self, session, save, made_of):
            save(*made_of)
            result = session(*THREE, "--carico-baseline=base.json", "gate/test_2.py")
            assert result.ret == pytest.ExitCode.OK
            result.stdout.fnmatch_lines(self.PASSED)

        def test_so_is_what_is_left_of_those_that_are_ignored(self, session, save):
            save()
            result = session(*THREE, "--carico-baseline=base.json", "--ignore=gate/test_1.py")
            assert result.ret == pytest.ExitCode.OK
            result.stdout.fnmatch_lines(self.PASSED)

        @pytest.mark.parametrize(
            "ignored",
            [
                "--ignore=gate/gone.py",
                "--ignore=docs",
                "--ignore-glob=*/gone_*",
                "--ignore=build",
                "--ignore=gate/n.txt",
            ],
        )
        def test_to_ignore_what_is_no_test_chooses_nothing(self, session, pytester, save, ignored):
            for name in ("docs/page.md", "build/test_built.py", "gate/note"):
                (pytester.path / name).parent.mkdir(exist_ok=True)
                (pytester.path / name).write_text("")
            save()
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", ignored)
            assert result.ret == pytest.ExitCode.TESTS_FAILED
            result.stdout.fnmatch_lines(["pi-2000 * is in the baseline, but was not measured"])

        @pytest.mark.parametrize("ignored", ["other", "other/test_3.py"])
        def test_to_ignore_what_the_baseline_was_not_made_of_chooses_nothing(self, session, pytester, save, ignored):
            pytester.mkdir("other")
            (pytester.path / "other" / "test_3.py").write_text("")
            save("gate")
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", f"--ignore={ignored}")
            assert result.ret == pytest.ExitCode.TESTS_FAILED

        @pytest.mark.parametrize(
            ("before", "now"),
            [
                ("--ignore=gate/test_3.py", "--ignore=./gate/test_3.py"),
                ("--ignore=gate/test_3.py", "--ignore-glob=*_3.py"),
                ("--ignore=gate/more", "--ignore=gate/more/test_4.py"),
            ],
        )
        def test_to_ignore_the_same_in_other_words_chooses_nothing(self, session, pytester, save, before, now):
            (pytester.path / "gate" / "more").mkdir()
            for name in ("test_3.py", "more/test_4.py"):
                (pytester.path / "gate" / name).write_text("")
            save(before)
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", now)
            assert result.ret == pytest.ExitCode.TESTS_FAILED

        def test_all_files_of_a_folder_are_no_part_of_it(self, session, pytester, save):
            (pytester.path / "gate" / "test_3.py").write_text("")
            save("gate")
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", "gate/test_2.py", "gate/test_3.py")
            assert result.ret == pytest.ExitCode.TESTS_FAILED

        def test_what_the_baseline_ignored_too_was_chosen_by_nobody(self, session, pytester, save):
            (pytester.path / "gate" / "test_3.py").write_text("")
            save("--ignore=gate/test_3.py")
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", "--ignore=gate/test_3.py")
            assert result.ret == pytest.ExitCode.TESTS_FAILED

        @pytest.mark.parametrize(
            ("made_of", "judged"), [([], ["."]), (["gate"], ["gate"]), (["gate"], ["."]), (["gate"], [])]
        )
        def test_what_the_baseline_was_made_of_misses_what_is_gone(self, session, pytester, save, made_of, judged):
            save(*made_of)
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", *judged)
            assert result.ret == pytest.ExitCode.TESTS_FAILED
            result.stdout.fnmatch_lines(["pi-2000 * is in the baseline, but was not measured"])

        def test_a_file_that_is_gone_was_chosen_by_nobody(self, session, pytester, save):
            save("gate/test_1.py", "gate/test_2.py")
            (pytester.path / "gate" / "test_1.py").unlink()
            result = session(*THREE, "--carico-baseline=base.json", "gate/test_2.py")
            assert result.ret == pytest.ExitCode.TESTS_FAILED

    def test_a_shard_is_judged_alone(self, session, pytester, baseline):
        conftest = pytester.path / "conftest.py"
        shard = "\ndef pytest_collection_modifyitems(items):\n    del items[0]  # another machine runs it\n"
        conftest.write_text(conftest.read_text() + shard)
        session(*THREE, f"--carico-baseline={baseline}").stdout.fnmatch_lines(
            ["gate: passed (3 ok; not measured, but in the baseline: 1)"]
        )

    def test_other_settings(self, session, pytester, baseline):
        pytester.makepyfile(test_them=TESTS.format(marker="").replace("pods=3", "pods=14"))
        result = session(*THREE, f"--carico-baseline={baseline}")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert "carico is incomparable with the baseline: other settings: jobs" in printed(result)

    def test_tests_that_are_skipped(self, session, pytester, baseline):
        pytester.makepyfile(
            test_them="""
            import pytest

            @pytest.mark.cluster
            def test_one():
                pytest.skip("not today")
        """
        )
        result = session(*THREE, f"--carico-baseline={baseline}")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*is in the baseline, but was not measured"])

    def test_a_marker_whose_test_measures_nothing(self, session, pytester, baseline):
        pytester.makepyfile(
            test_them="""
            import pytest

            @pytest.mark.cluster
            @pytest.mark.carico("pi-2000", "carico", fail_on="job_completion_time:+5%")
            def test_one():
                pass
        """
        )
        result = session(*THREE, "-k", "one", f"--carico-baseline={baseline}")
        result.stdout.fnmatch_lines(["*fail_on judges what carico_results measured*"])
        assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--carico-save-baseline"], "*--carico-save-baseline needs --carico-baseline FILE*"),
        (["--carico-save-baseline=new"], "*--carico-save-baseline=new needs --carico-baseline FILE*"),
        (["--carico-save-baseline", "."], "*--carico-save-baseline took . for its file: write --carico-save-*"),
        (["--carico-baseline=gone.json"], "*there is no baseline *gone.json: *--carico-save-baseline=*gone.json *"),
        (["--carico-baseline=broken.json"], "*broken.json is not a baseline of carico-testbed*"),
        (
            ["--carico-baseline=result.json"],
            "*result.json is a results file, and no baseline: --carico-save-baseline=FILE makes one*",
        ),
        (
            ["--carico-baseline=broken.json", "--carico-fail-on=job_completion:+5%"],
            "*did you mean 'job_completion_time'*",
        ),
        (["--carico-save-baseline=gone/base.json"], "*gone; create it first"),
        (
            ["--carico-save-baseline=result.json"],
            "*is a results file, and no baseline: *: only a baseline is made anew: name another file, or delete this *",
        ),
        (
            ["--carico-save-baseline=broken.json"],
            "*broken.json is not a baseline of carico-testbed*: only a baseline *",
        ),
    ],
)
def test_a_gate_that_cannot_judge_ends_with_4_before_anything_runs(session, pytester, tests, arguments, message):
    (pytester.path / "broken.json").write_text('{"schema_version":1,"meas')
    (pytester.path / "result.json").write_text('{"schema_version":1,"repetitions":[]}')
    result = session("-m", "cluster", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not (pytester.path / ".carico").exists()


@pytest.mark.parametrize(
    ("marker", "arguments"),
    [
        ("", ["--carico-fail-on=scheduling_throughput:-10%"]),
        (", fail_on='scheduling_throughput:-10%', providers=['simulated']", []),
    ],
)
def test_what_the_simulated_cluster_does_not_measure_is_told_before_anything_runs(session, pytester, marker, arguments):
    pytester.makepyfile(test_them=TESTS.format(marker=marker).replace('"carico"', '["carico", "kube-scheduler"]'))
    pytester.makeconftest("")
    result = session("-m", "cluster", "--carico-repetitions=3", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: carico: the gate scheduling_throughput:-10% has nothing to judge: scheduling_throughput is "
            "measured on real clusters only: leave it out, or choose one with --carico-provider"
        ]
    )
    assert not (pytester.path / ".carico").exists()


def test_a_marker_with_a_gate_has_its_repetitions(session, pytester, tests):
    pytester.makepyfile(
        test_them="""
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("sklearn", ["carico", "kube-scheduler"], fail_on="job_completion_time:+90%")
        def test_one(carico_results):
            assert [len(runs) for runs in carico_results.values()] == [8, 8]
        """
    )
    assert session("--carico-preset=ci").ret == pytest.ExitCode.OK


def test_a_baseline_says_what_a_gate_by_it_finds(session, tests):
    result = session(*THREE, "--carico-save-baseline=base.json")
    result.stdout.re_match_lines(
        [
            r"  with other seeds, a gate by this baseline finds \+\d+\.\d % or worse in 95 % of",
            r"    sessions, in its noisiest figure",
        ]
    )


class TestWithoutABaselineSchedulersAreJudgedByTheReference:
    TWO = """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("pi-2000", ["carico:hold_off_s=1", "carico"]{marker})
        def test_both(carico_results): pass
    """
    SLOW_ONE = """
import msgspec
from testbed.testing import FakeProvider

class SlowOne(FakeProvider):
    def run(self, scenario, scheduler, seed, settings, on_progress=None):
        speed = 0.5 if scheduler.text == "carico:hold_off_s=1" else 1.0
        found = super().run(scenario, scheduler, seed, {"speed": speed}, on_progress)
        return msgspec.structs.replace(found, settings=found.settings | {"speed": 1.0})

def pytest_carico_provider(config):
    return SlowOne()
"""
    GATE = "--carico-fail-on=pod_completion_time:mean:+10%"

    @pytest.fixture(autouse=True)
    def _two(self, session, pytester):
        pytester.makepyfile(test_two=self.TWO.format(marker=""))

    def test_equal_ones_pass(self, session):
        result = session(*THREE, self.GATE)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            [
                "gate: passed (1 *), judged by the reference of each table",
                f"next: pytest -m cluster --carico-preset=ci {self.GATE}",
            ]
        )

    def test_a_worse_one_is_a_failed_report_that_names_both(self, session, pytester):
        pytester.makeconftest(self.SLOW_ONE)
        result = session(*THREE, self.GATE)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "pi-2000 · 1000 pods · 19 nodes · carico:hold_off_s=1: pod_completion_time mean",
                "  (pi-2000) has a mean of * s, and of * s under carico (+*",
                "  *] %, n = 3; allowed +10%)",
                "gate: FAILED (1 regressed), *",
                "next: carico-testbed report 2*",
            ]
        )

    def test_the_user_names_the_reference(self, session, pytester):
        pytester.makeconftest(self.SLOW_ONE)
        session(*THREE, self.GATE, "--carico-reference=carico:hold_off_s=1").stdout.fnmatch_lines(
            ["gate: passed (1 ok)*"]
        )

    @pytest.mark.parametrize("gate", [[], [GATE]])
    def test_a_reference_that_no_test_runs_runs_nothing(self, session, pytester, gate):
        result = session(*THREE, *gate, "--carico-reference=carico:hold_off=1")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(
            [
                "ERROR: carico: --carico-reference carico:hold_off=1: no selected test runs this scheduler, did you "
                "mean 'carico:hold_off_s=1'? Known: carico:hold_off_s=1, carico"
            ]
        )
        assert not list(pytester.path.glob(".carico/runs/*"))

    def test_a_test_without_a_marker_may_run_the_reference(self, session, tests):
        result = session(*THREE, "--carico-reference=kube-scheduler")
        assert result.ret == pytest.ExitCode.OK
        result = session(*THREE, "--carico-reference=carco")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--carico-reference: no scheduler is named 'carco', did you mean 'carico'?*"])

    def test_a_reference_of_the_ini_file_need_not_be_run_by_a_part_of_the_tests(self, session, pytester):
        pytester.makepyfile(test_other=self.TWO.format(marker="").replace("hold_off_s=1", "hold_off_s=2"))
        pytester.makeini("[pytest]\ncarico_reference = carico:hold_off_s=1\n")
        for arguments in (["test_other.py"], ["test_two.py"], []):
            assert session(*THREE, *arguments).ret == pytest.ExitCode.OK
        pytester.makeini("[pytest]\ncarico_reference = carco\n")
        assert session(*THREE, "test_other.py").ret == pytest.ExitCode.USAGE_ERROR

    def test_a_marker_is_judged_by_its_first_scheduler(self, session, pytester):
        pytester.makeconftest(self.SLOW_ONE)
        pytester.makepyfile(test_two=self.TWO.format(marker=", fail_on='pod_completion_time:mean:+10%'"))
        assert session(*THREE).ret == pytest.ExitCode.OK
        result = session(*THREE, "--carico-reference=carico")
        result.stdout.fnmatch_lines(
            [
                "*has a mean of * s, and of * s under carico *",
                "next: carico-testbed report 2*",
                "FAILED test_two.py::test_both*",
            ]
        )

    def test_one_scheduler_alone_has_nothing_to_be_judged_by(self, session, pytester, tests):
        result = session(*THREE, "-k", "more", self.GATE)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["nothing was compared: no scenario was run under two schedulers; *"])
        tests(marker=", fail_on='job_completion_time:+5%'")
        result = session(*THREE)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*test_pods: fail_on has nothing to judge carico by: name a second scheduler*"])

    def test_a_session_that_makes_a_baseline_is_not_judged(self, session):
        result = session(*THREE, self.GATE, "--carico-save-baseline=base.json")
        assert result.ret == pytest.ExitCode.OK
        result.stdout.no_fnmatch_line("gate:*")


class TestABaselineIsMadeAnew:
    def test_by_a_session_that_it_does_not_judge(self, session, pytester, baseline):
        pytester.makeconftest(SLOWER)
        given = f"--carico-baseline={baseline}"
        assert session(*THREE, given).ret == pytest.ExitCode.TESTS_FAILED
        result = session(*THREE, given, "--carico-save-baseline")
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines([f"baseline: {baseline} (2 written)"])
        session(*THREE, given).stdout.fnmatch_lines(["gate: passed (6 ok)"])

    def test_for_the_first_time(self, session, pytester, tests):
        pytester.makeini("[pytest]\ncarico_baseline = first.json\n")
        session(*THREE, "--carico-save-baseline").stdout.fnmatch_lines(["baseline: *first.json (2 written)"])

    def test_with_only_what_it_lacks(self, session, pytester, baseline):
        pytester.makepyfile(
            test_new="""
            import pytest

            @pytest.mark.cluster
            def test_it(carico_experiment):
                carico_experiment.run("sklearn", "carico", pods=4)
            """
        )
        before = json.loads(baseline.read_text())
        given = (f"--carico-baseline={baseline}", "--carico-save-baseline=new")
        result = session(*THREE, *given)
        result.stdout.fnmatch_lines(
            ["gate: passed (6 ok)", f"baseline: {baseline} (1 added, 2 kept)", "  sklearn · 4 pods · * · carico"]
        )
        after = json.loads(baseline.read_text())
        assert [one for one in after["measured"] if one in before["measured"]] == before["measured"]
        assert after["made_by"] == before["made_by"]
        assert after["added_by"][0]["command"][-1] == "--carico-save-baseline=new"
        written = baseline.read_bytes()
        session(*THREE, *given).stdout.fnmatch_lines([f"baseline: {baseline} lacks nothing, and is as it was"])
        assert baseline.read_bytes() == written

    def test_what_it_has_still_judges_when_something_is_added(self, session, pytester, baseline):
        pytester.makeconftest(SLOWER)
        before = baseline.read_bytes()
        result = session(*THREE, f"--carico-baseline={baseline}", "--carico-save-baseline=new")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["no baseline was saved to *"])
        assert baseline.read_bytes() == before


class TestAPartOfABaselineIsMadeAnew:
    ONE = """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.{name}
        @pytest.mark.carico("{scenario}", "carico")
        def test_{name}(carico_results): {does}
    """
    SAVE = (*THREE, "--carico-save-baseline=base.json")
    DROPS = "to drop what no test measures any more, run all tests, or delete the file first"

    @pytest.fixture
    def write(self, pytester):
        """A function that writes one of two files of tests."""

        def write(name, does="pass"):
            scenario = {"first": "pi-2000", "second": "sklearn"}[name]
            pytester.makepyfile(**{f"test_{name}": self.ONE.format(scenario=scenario, name=name, does=does)})

        return write

    @pytest.fixture
    def before(self, session, pytester, write):
        """The entries of a baseline of both files, whose figures are others by now."""
        pytester.makeini("[pytest]\nmarkers =\n    first\n    second")
        write("first")
        write("second")
        assert session(*self.SAVE).ret == pytest.ExitCode.OK
        pytester.makeconftest(SLOWER)
        return self.entries(pytester)

    @staticmethod
    def entries(pytester):
        content = json.loads((pytester.path / "base.json").read_text())
        return {one["scenario"]: one for one in content["measured"]}

    def second_alone_is_new(self, pytester, before):
        after = self.entries(pytester)
        return after["pi-2000"] == before["pi-2000"] and after["sklearn"]["series"] != before["sklearn"]["series"]

    @pytest.mark.parametrize(
        "part",
        [
            ["-k", "second"],
            ["-m", "cluster and second"],
            ["--deselect=test_first.py::test_first"],
            ["test_second.py"],
            ["test_second.py::test_second"],
            ["--ignore=test_first.py"],
            ["--ignore-glob=*first.py"],
        ],
    )
    def test_the_rest_is_kept(self, session, pytester, before, part):
        result = session(*self.SAVE, *part)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)", "  sklearn · *"])
        assert fnmatch(
            printed(result), f"* kept, as not all tests were run: 1 of 2 entries from 20??-??-??; {self.DROPS} *"
        )
        assert self.second_alone_is_new(pytester, before)
        by = json.loads((pytester.path / "base.json").read_text())
        assert [one["command"][-1] for one in (by["made_by"], *by["added_by"])] == [self.SAVE[-1], part[-1]]

    def test_it_says_only_which_runs_measured_what_it_has(self, session, pytester, before):
        def made_by():
            content = json.loads((pytester.path / "base.json").read_text())
            return [one["command"][-1] for one in (content["made_by"], *content.get("added_by", []))]

        for part in ("second", "second"):
            session(*self.SAVE, "-k", part)
            assert made_by() == [self.SAVE[-1], "second"]
        session(*self.SAVE, "-k", "first")
        assert made_by() == ["second", "first"]

    def test_of_an_earlier_version_no_run_is_forgotten_that_may_have_measured_what_is_kept(
        self, session, pytester, before
    ):
        file = pytester.path / "base.json"
        content = json.loads(file.read_text())
        of_unknown = content["made_by"] | {"run": "20260101T000000Z-a", "command": ["pytest", "unknown"]}
        file.write_text(json.dumps(content | {"added_by": [of_unknown]}))
        for part in ("second", "second"):
            session(*self.SAVE, "-k", part)
            added_by = json.loads(file.read_text())["added_by"]
            assert [one["command"][-1] for one in added_by] == ["unknown", part]

    def test_also_after_the_tests_that_had_failed(self, session, pytester, before, write):
        write("second", "assert False")
        written = (pytester.path / "base.json").read_bytes()
        session(*self.SAVE).stdout.fnmatch_lines(["no baseline was saved to *"])
        assert (pytester.path / "base.json").read_bytes() == written
        write("second")
        session(*self.SAVE, "--lf").stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)"])
        assert self.second_alone_is_new(pytester, before)

    def test_also_beside_tests_that_are_skipped(self, session, pytester, before):
        pytester.makepyfile(
            test_first="import pytest\n\n@pytest.mark.cluster\n@pytest.mark.skip\ndef test_first(): pass"
        )
        result = session(*self.SAVE)
        result.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)"])
        why = "kept, as not all tests were run (skipped: test_first.py::test_first): 1 of 2 entries from 20??-??-??"
        assert fnmatch(printed(result), f"* {why}; {self.DROPS} *")
        assert self.second_alone_is_new(pytester, before)

    def test_a_session_of_all_tests_drops_what_none_measures(self, session, pytester, before):
        (pytester.path / "test_first.py").unlink()
        session(*self.SAVE).stdout.fnmatch_lines(
            [
                "baseline: *base.json (1 written, 1 dropped)",
                "  sklearn · *",
                "  dropped, as no test measured it: pi-2000 · 1000 pods · 19 nodes · carico",
            ]
        )
        assert self.entries(pytester).keys() == {"sklearn"}

    def test_so_does_deleting_the_file(self, session, pytester, before):
        (pytester.path / "base.json").unlink()
        session(*self.SAVE, "-k", "second").stdout.fnmatch_lines(["baseline: *base.json (1 written)"])
        assert self.entries(pytester).keys() == {"sklearn"}

    @pytest.mark.parametrize("does", ["assert False", "pytest.exit('stop')"])
    def test_a_session_that_does_not_pass_changes_nothing(self, session, pytester, before, write, does):
        written = (pytester.path / "base.json").read_bytes()
        write("second", does)
        session(*self.SAVE, "-k", "second").stdout.fnmatch_lines(["no baseline was saved to *"])
        assert (pytester.path / "base.json").read_bytes() == written

    def test_a_session_of_all_tests_with_other_settings_keeps_nothing(self, session, pytester, before):
        pytester.makeconftest(SLOWER.replace("=items)", "=items, settings=one.settings | {'speed': 2.0})"))
        result = session(*self.SAVE)
        result.stdout.fnmatch_lines(["baseline: *base.json (2 written)"])
        assert printed(result).count("replaced, as it was measured with other settings: ") == 2
        assert len(json.loads((pytester.path / "base.json").read_text())["measured"]) == 2


class TestSettingsOfABaseline:
    TESTS = """
        import pytest

        pytestmark = pytest.mark.cluster

        def test_few(carico_experiment):
            carico_experiment.run("sklearn", "carico", pods={few})

        def test_many(carico_experiment):
            carico_experiment.run("sklearn", "carico", pods=30)
    """
    OTHER_SPEED = SLOWER.replace("=items)", "=items, settings=one.settings | {'speed': 2.0})")
    SAVE = (*THREE, "--carico-save-baseline=base.json")
    REPLACED = "replaced, as it was measured with other settings: sklearn · {} pods · 19 nodes · carico: {}"

    @pytest.fixture
    def of_two(self, session, pytester):
        """A baseline of one scenario under one scheduler, with two numbers of pods, each measured by a test."""
        pytester.makepyfile(test_them=self.TESTS.format(few=3))
        session(*self.SAVE).stdout.fnmatch_lines(["baseline: *base.json (2 written)"])

    @staticmethod
    def pods(pytester):
        measured = json.loads((pytester.path / "base.json").read_text())["measured"]
        return sorted(job["pods"] for one in measured for job in one["settings"]["jobs"])

    @pytest.mark.parametrize("name", ["few", "many"])
    def test_what_differs_only_in_them_stays_beside_what_is_measured_again(self, session, pytester, of_two, name):
        result = session(*self.SAVE, "-k", name)
        result.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)"])
        assert "replaced" not in printed(result)
        assert self.pods(pytester) == [3, 30]

    @pytest.mark.parametrize(("name", "pods"), [("few", 3), ("many", 30)])
    def test_other_ones_take_the_place_of_the_nearest(self, session, pytester, of_two, name, pods):
        pytester.makeconftest(self.OTHER_SPEED)
        result = session(*self.SAVE, "-k", name)
        result.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)"])
        assert self.REPLACED.format(pods, "speed (1.0, 2.0)") in printed(result)
        assert self.pods(pytester) == [3, 30]
        assert session(*THREE, "-k", name, "--carico-baseline=base.json").ret == pytest.ExitCode.OK

    def test_each_takes_the_place_of_another(self, session, pytester, of_two):
        pytester.makepyfile(
            test_them=self.TESTS.format(few=4).replace("pods=30", "pods=40"), test_other="def test_other(): pass"
        )
        result = session(*self.SAVE, "test_them.py")
        result.stdout.fnmatch_lines(["baseline: *base.json (2 written)"])
        assert self.pods(pytester) == [4, 40]

    def test_of_two_that_are_near_the_one_that_is_measured_again_stays(self, session, pytester, of_two):
        pytester.makepyfile(test_them=self.TESTS.format(few=4), test_other="def test_other(): pass")
        result = session(*self.SAVE, "test_them.py")
        assert self.REPLACED.format(3, "jobs") in printed(result)
        assert self.pods(pytester) == [4, 30]

    def test_a_tests_own_gate_does_not_miss_what_another_test_measures_with_other_ones(self, session, pytester, of_two):
        pytester.makepyfile(
            test_them="""
            import pytest

            pytestmark = pytest.mark.cluster

            @pytest.mark.carico("sklearn", "carico", fail_on=["job_completion_time:+5%"])
            def test_own(carico_results): pass

            def test_few(carico_experiment):
                carico_experiment.run("sklearn", "carico", pods=3)
            """
        )
        assert session(*self.SAVE).ret == pytest.ExitCode.OK
        assert self.pods(pytester) == [3, 100]
        assert session(*THREE, "--carico-baseline=base.json").ret == pytest.ExitCode.OK

    def test_of_two_that_are_equally_near_none_is_replaced(self, session, pytester, of_two):
        pytester.makepyfile(test_them=self.TESTS.format(few=3).replace("pods=30", "pods=40"))
        session(*self.SAVE, "-k", "many").stdout.fnmatch_lines(["baseline: *base.json (1 written, 2 kept)"])
        assert self.pods(pytester) == [3, 30, 40]


class TestABaselineOfSeveralProviders:
    ONE = """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("{scenario}", "carico", providers=["{provider}"]{marker})
        def test_it(carico_results): pass
    """
    PROVIDER = """
from testbed.testing import FakeProvider

class Named(FakeProvider):
    name = "{name}"

    def run(self, *arguments):
        one = super().run(*arguments)
        return msgspec.structs.replace(one, settings=one.settings | {{"provider": self.name}})

def pytest_carico_provider(config):
    return Named()

@pytest.fixture(scope="session")
def carico_provider():
    return Named()
"""
    SAVE = (*THREE, "--carico-save-baseline=base.json")

    @pytest.fixture
    def on(self, session, pytester):
        """A function that runs a session on a provider; there is a test for each of two."""
        self.write(pytester)

        def run(name, *arguments):
            pytester.makeconftest("import msgspec\nimport pytest\n" + self.PROVIDER.format(name=name))
            return session(*arguments)

        return run

    def write(self, pytester, second="sklearn", marker=""):
        pytester.makepyfile(
            test_first=self.ONE.format(scenario="pi-2000", provider="kwok", marker=""),
            test_second=self.ONE.format(scenario=second, provider="kind", marker=marker),
        )

    @pytest.fixture
    def of_both(self, on):
        assert on("kwok", *self.SAVE).ret == pytest.ExitCode.OK
        return on("kind", *self.SAVE)

    def test_is_made_of_the_tests_for_each(self, pytester, of_both):
        of_both.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept)", "  sklearn · *"])
        assert "kept, as measured on another provider than kind: 1 of 1 entries from 20" in printed(of_both)
        content = json.loads((pytester.path / "base.json").read_text())
        assert [one["scenario"] for one in content["measured"]] == ["pi-2000", "sklearn"]

    def test_loses_only_what_the_session_would_have_measured(self, pytester, on, of_both):
        self.write(pytester, second="pi-2000")
        result = on("kind", *self.SAVE)
        result.stdout.fnmatch_lines(["baseline: *base.json (1 written, 1 kept, 1 dropped)"])
        content = json.loads((pytester.path / "base.json").read_text())
        assert [one["settings"]["provider"] for one in content["measured"]] == ["kwok", "kind"]

    @pytest.mark.parametrize("second", ["sklearn", "pi-2000"])
    def test_judges_by_what_the_sessions_provider_measured(self, pytester, on, second):
        self.write(pytester, second, marker=", fail_on=['job_completion_time:+5%']")
        for name in ("kwok", "kind"):
            assert on(name, *self.SAVE).ret == pytest.ExitCode.OK
        result = on("kind", *THREE, "--carico-baseline=base.json")
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["gate: passed (3 ok)"])
        assert "not asked for, as another provider measured them: 1 of 2 entries of the baseline" in printed(result)

    def test_misses_what_is_gone(self, pytester, on, of_both):
        self.write(pytester, second="long-pods")
        result = on("kind", *THREE, "--carico-baseline=base.json")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert "sklearn · 100 pods · 19 nodes · carico is in the baseline, but was not measured" in printed(result)
        assert "pi-2000" not in printed(result)


class TestABaselineOfAnotherMachine:
    ELSEWHERE = """
import pytest
from testbed.testing import FakeProvider

def pytest_carico_provider(config):
    return FakeProvider(shared_hardware={shared})

@pytest.fixture(scope="session")
def carico_provider(pytestconfig):
    return pytest_carico_provider(pytestconfig)
"""
    WARNING = (
        "*WARNING: the baseline *base.json was made on another machine (* CPUs of a fast one, *Gi; here * CPUs of *"
    )

    @pytest.fixture
    def moved(self, baseline):
        content = json.loads(baseline.read_text())
        content["made_by"]["machine"]["cpu_model"] = "a fast one"
        baseline.write_text(json.dumps(content))
        return f"--carico-baseline={baseline}"

    def test_is_told_before_and_after_where_the_hardware_decides(self, session, pytester, moved):
        pytester.makeconftest(self.ELSEWHERE.format(shared=True))
        result = session(*THREE, moved)
        assert sum("WARNING: the baseline" in line for line in result.outlines) == 2
        assert fnmatch(printed(result), self.WARNING)

    def test_does_not_matter_to_a_simulation(self, session, pytester, moved):
        pytester.makeconftest(self.ELSEWHERE.format(shared=False))
        session(*THREE, moved).stdout.no_fnmatch_line("*WARNING: the baseline*")

    def test_does_not_matter_if_another_provider_ran_there(self, session, pytester, baseline, moved):
        content = json.loads(baseline.read_text())
        content["made_by"]["provider"] = "kwok"
        baseline.write_text(json.dumps(content))
        pytester.makeconftest(self.ELSEWHERE.format(shared=True))
        session(*THREE, moved).stdout.no_fnmatch_line("*WARNING: the baseline*")

    def test_this_machine_is_no_other_one(self, session, pytester, baseline):
        pytester.makeconftest(self.ELSEWHERE.format(shared=True))
        session(*THREE, f"--carico-baseline={baseline}").stdout.no_fnmatch_line("*WARNING: the baseline*")


def test_a_session_that_fails_makes_no_baseline(session, pytester, tests):
    pytester.makepyfile(test_fails="import pytest\n\n@pytest.mark.cluster\ndef test_it(): assert False")
    session(*THREE, "--carico-save-baseline=base.json").stdout.fnmatch_lines(
        ["no baseline was saved to *base.json: only*"]
    )
    assert not (pytester.path / "base.json").exists()


def test_an_interrupted_session_is_not_judged(session, pytester, baseline):
    pytester.makepyfile(
        test_them="""
        import pytest

        @pytest.mark.cluster
        def test_one(carico_experiment):
            carico_experiment.run("pi-2000", "carico", pods=3)
            pytest.exit("stop")
    """
    )
    result = session(*THREE, f"--carico-baseline={baseline}")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.no_fnmatch_line("gate:*")
