"""Comparing two runs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.comparison.measured import measured as figures_of
from testbed.comparison.runs import differing, paired, rows_of
from testbed.experiment.plan import Plan
from testbed.measurement.metrics import DEFAULT, chosen
from testbed.report.comparison import comparison_table
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def measured(repetitions=4, scheduler="carico", seed=1, **settings):
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), (parse_spec(scheduler),), repetitions, seed, settings=settings)
    return plan.check(FakeProvider()).run()


def slower(repetitions, factor):
    """The same repetitions with all times longer."""
    return [
        msgspec.structs.replace(
            one,
            data_items=[
                msgspec.structs.replace(item, data={name: factor * value for name, value in item.data.items()})
                if item.unit == "s"
                else item
                for item in one.data_items
            ],
        )
        for one in repetitions
    ]


def compare(reference, candidate, wanted=DEFAULT):
    pairing = paired(figures_of(reference, wanted), figures_of(candidate, wanted))
    return pairing, rows_of(pairing, wanted)


def verdicts(found):
    return {str(row.compared.figure): row.verdict for row in found[1]}


def test_a_run_is_ok_beside_itself():
    found = compare(measured(), measured())
    assert set(verdicts(found).values()) == {"ok"}
    assert all(row.compared.difference.effect == row.compared.difference.neutral for row in found[1])


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "regressed"), (0.95, "improved")])
def test_what_takes_longer_has_regressed(factor, verdict):
    found = verdicts(compare(measured(), slower(measured(), factor)))
    assert found["pod_completion_time mean (pi-2000)"] == verdict
    assert found["job_completion_time (pi-2000)"] == verdict


def test_counts_of_nothing_are_no_rows():
    assert not any("oom_killed" in name for name in verdicts(compare(measured(), measured())))


def test_only_the_figures_that_are_asked_for_are_compared():
    found = compare(measured(), measured(), chosen("pod_completion_time:p90"))
    assert list(verdicts(found)) == ["pod_completion_time p90 (pi-2000)"]


def test_other_settings_make_runs_incomparable_and_are_named():
    pairing, (row,) = compare(measured(speed=1), [*measured(speed=2), *measured(scheduler="kube-scheduler", speed=2)])
    assert (row.verdict, row.reason) == ("incomparable", "other settings: speed (1.0, 2.0)")
    assert pairing.only_candidate == ["pi-2000 · 4 pods · 19 nodes · kube-scheduler"]


def test_what_only_one_of_them_has_is_said():
    pairing, _ = compare([*measured(), *measured(scheduler="kube-scheduler")], measured())
    assert pairing.only_reference == ["pi-2000 · 4 pods · 19 nodes · kube-scheduler"]
    assert pairing.only_candidate == []


def test_with_settings_that_both_have_each_finds_its_own():
    both = [*measured(speed=1), *measured(speed=2)]
    assert {row.verdict for row in compare(both, both)[1]} == {"ok"}


def test_other_seeds_are_compared_without_pairs():
    found = compare(measured(), measured(seed=101))
    assert all(not row.compared.difference.paired for row in found[1])


def test_few_repetitions_are_inconclusive():
    assert set(verdicts(compare(measured(2), slower(measured(2), 3.0))).values()) == {"inconclusive"}


SETTINGS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))


@given(SETTINGS, SETTINGS)
def test_settings_differ_if_and_only_if_they_are_named(one, other):
    named = [text.partition(" ")[0] for text in differing(one, other)]
    assert named == [name for name in "abc" if one.get(name) != other.get(name)]


def test_groups_have_one_scenario_scheduler_and_settings():
    found = figures_of([*measured(), *measured(scheduler="kube-scheduler"), *measured(speed=2)])
    assert [len(one.seeds) for one in found] == [4, 4, 4]


def test_of_what_neither_direction_is_better_the_table_shows_the_difference_alone():
    wanted = [*chosen("pod_wait_time:mean"), *chosen("pod_completion_time:mean")]
    found = compare(measured(), slower(measured(), 1.1), wanted)
    assert verdicts(found) == {
        "pod_wait_time mean (pi-2000)": "inconclusive",
        "pod_completion_time mean (pi-2000)": "regressed",
    }
    note = " ".join(comparison_table(*found)).partition("Means over")[2]
    assert "corrected for the one comparison of this table" in note
    assert "Neither direction of pod_wait_time is better, so what differs there is neither regressed nor" in note
    table = " ".join(comparison_table(*compare(measured(), measured(), wanted[:1])))
    assert "corrected" not in table


def test_the_table_fits_80_columns_and_says_what_was_left_out():
    runs = [*measured(), *measured(scheduler="kube-scheduler:cpu=200m,memory=750Mi")]
    table = comparison_table(*compare(runs, [*slower(measured(), 1.1), *measured(speed=2)]))
    assert max(map(len, table)) <= 80
    assert any(line.endswith(" regressed") for line in table)
    assert any(line.startswith("only in the reference: pi-2000") for line in table)
    assert any("incomparable: other settings: speed (1.0, 2.0)" in line for line in table)
