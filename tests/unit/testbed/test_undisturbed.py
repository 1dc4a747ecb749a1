"""What ran while others had the machine is run again, whatever it measured."""

import pytest

from testbed.clusters.provider import Progress
from testbed.experiment import Plan
from testbed.measurement.stolen_cpu import stolen_shares
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from testbed.undisturbed import DISTURBED, discarded_attempts, run_undisturbed
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-2000").scaled(pods=2)


def undisturbed(provider, attempts=3, on_progress=None):
    return run_undisturbed(
        lambda tell: provider.run(SCENARIO, parse_spec("carico"), 1, {}, tell), attempts, on_progress
    )


@pytest.mark.parametrize(
    ("stolen", "runs", "kept"),
    [
        ([0.02], 1, 0.02),
        ([DISTURBED, 0.09], 2, 0.09),
        ([0.5, 0.2, 0.0], 3, 0.0),
        ([0.5, 0.2, 0.3, 0.0], 3, 0.2),  # no more than three; of these the one with the least
    ],
)
def test_a_disturbed_repetition_is_run_again(stolen, runs, kept):
    provider = FakeProvider(stolen=stolen)
    repetition = undisturbed(provider)
    assert len(provider.calls) == runs
    assert stolen_shares([repetition]) == [kept]
    assert discarded_attempts([repetition]) == runs - 1


def test_what_is_discarded_stays_in_the_results():
    items = undisturbed(FakeProvider(stolen=[0.4, 0.0])).data_items
    measured = [item for item in items if "attempt" not in item.labels]
    discarded = [item for item in items if "attempt" in item.labels]
    assert [item.labels["metric"] for item in discarded] == [f"discarded_{item.labels['metric']}" for item in measured]
    assert {item.labels["attempt"] for item in discarded} == {"1"}
    assert discarded[-1].data == {"value": 0.4}


def test_what_did_not_complete_is_kept_whatever_the_machine_did():
    provider = FakeProvider(outcome="failed", stolen=[0.9, 0.0])
    assert None in undisturbed(provider).job_completion_time_s.values()
    assert len(provider.calls) == 1


def test_where_nobody_knows_what_was_stolen_nothing_is_run_again():
    provider = FakeProvider()
    assert undisturbed(provider) == FakeProvider().run(SCENARIO, parse_spec("carico"), 1, {})
    assert len(provider.calls) == 1


def test_progress_tells_which_attempt_runs():
    told: list[Progress] = []
    undisturbed(FakeProvider(stolen=[0.4, 0.0]), on_progress=told.append)
    assert [one.attempt for one in told] == [1, 2]


def test_a_plan_with_one_attempt_is_run_as_before():
    provider = FakeProvider(stolen=[0.9])
    assert discarded_attempts([undisturbed(provider, attempts=1)]) == 0
    assert len(Plan(SCENARIO, (parse_spec("carico"),)).passes()) == len(provider.calls)
