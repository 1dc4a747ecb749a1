"""The A/A check of a session: the reference against itself, so that a user sees what noise alone does."""

import json

import pytest

from testbed.plugin.gate import AA_NAME
from tests.kits.printed import printed

TESTS = """
    import pytest

    pytestmark = pytest.mark.cluster

    @pytest.mark.carico("pi-2000", ["carico", "kube-scheduler"])
    def test_two(carico_results):
        assert len({len(runs) for runs in carico_results.values()}) == 1
"""
PROVIDER = """
import msgspec
from workloads.scenario import load_scenario
from testbed.testing import FakeProvider

class Noisy(FakeProvider):
    shown = 0

    def run(self, scenario, scheduler, seed, settings, on_progress=None):
        few = scenario.scaled(pods=20)
        found = super().run(few, scheduler, seed, settings, on_progress)
        factor = 1.0 + {factor}
        items = [
            msgspec.structs.replace(item, data={{name: factor * value for name, value in item.data.items()}})
            for item in found.data_items
        ]
        return msgspec.structs.replace(found, data_items=items)

PROVIDER = Noisy(shared_hardware={shared})

def pytest_carico_provider(config):
    return PROVIDER
"""
SAME, OTHER = "0", "(0.3 if seed > 10_000 else 0)"


@pytest.fixture
def checked(session, pytester):
    """A function that runs a session with the check, on a provider whose figures have a factor of their own."""

    def run(*arguments, factor=SAME, shared=False, repetitions=5):
        pytester.makepyfile(test_two=TESTS)
        pytester.makeconftest(PROVIDER.format(factor=factor, shared=shared))
        return session("-m", "cluster", "--carico-aa", f"--carico-repetitions={repetitions}", *arguments)

    return run


def repetitions(pytester):
    return json.loads((pytester.path / ".carico/latest/result.json").read_text())["repetitions"]


def test_it_is_ok_where_nothing_differs_and_says_so(checked):
    result = checked(shared=True)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "A/A check: schedulers against themselves",
            "            once       again       again / once [[]interval[]]       verdict",
            "pi-2000 · * · carico",
            "    job_completion_time (pi-2000)",
            "* 1.000 * ok",
            "A/A check: ok: noise alone changes no figure by more than 2 %",
        ]
    )


def test_noise_is_measured_and_told_with_a_remedy(checked):
    result = checked(factor="0.05 * (seed % 3)")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["A/A check: inconclusive: noise alone may change *"])
    assert "repetitions it is within 2 %" in " ".join(result.outlines)


def test_a_scheduler_that_differs_from_itself_is_a_failed_report(checked):
    result = checked(factor=OTHER)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    shown = printed(result)
    said = "A/A check: FAILED: a scheduler differs from itself: pi-2000 "
    assert said in shown
    assert "What this session compares is not to be " in shown.partition(said)[2]
    result.stdout.fnmatch_lines([f"FAILED {AA_NAME} - A/A check: FAILED: *"])


def test_one_repetition_shows_no_noise(checked):
    checked(repetitions=1).stdout.fnmatch_lines(
        ["A/A check: inconclusive: there are too few repetitions, or some did not complete"]
    )


def test_a_session_without_experiments_is_told(session, pytester):
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\ndef test_it(): pass")
    session("--carico-aa").stdout.fnmatch_lines(["A/A check: NOT MEASURED: no experiment was run"])


def test_it_has_seeds_of_its_own_where_equal_seeds_give_equal_results(checked, pytester):
    checked()
    seeds = {one["scheduler"]: [] for one in repetitions(pytester)}
    for one in sorted(repetitions(pytester), key=lambda one: one["seed"]):
        seeds[one["scheduler"]].append(one["seed"])
    assert seeds == {
        "carico": [*range(1001, 1006), *range(1_001_001, 1_001_006)],
        "kube-scheduler": [*range(1001, 1006)],
    }


def test_it_has_the_same_seeds_where_machines_make_the_noise(checked, pytester):
    checked(shared=True)
    seeds = [one["seed"] for one in repetitions(pytester) if one["scheduler"] == "carico"]
    assert sorted(seeds) == sorted([*range(1001, 1006)] * 2)


def test_the_user_names_the_reference(checked, pytester):
    checked("--carico-reference=kube-scheduler")
    assert [one["scheduler"] for one in repetitions(pytester) if "aa_check" in one["settings"]] == 5 * [
        "kube-scheduler"
    ]


def test_its_repetitions_count_nowhere_else(checked, pytester):
    result = checked("--carico-save-baseline=base.json")
    result.stdout.fnmatch_lines(["  carico", "      5 * reference"])
    baseline = json.loads((pytester.path / "base.json").read_text())
    assert [len(one["seeds"]) for one in baseline["measured"]] == [5, 5]


def test_the_summary_of_a_job_and_the_page_have_it(checked, pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    checked("--carico-html=page.html", shared=True)
    said = "A/A check: ok: noise alone changes no figure by more than 2 %."
    assert said in (pytester.path / "summary.md").read_text()
    page = (pytester.path / "page.html").read_text()
    assert said in page
    assert "again / once" in page
