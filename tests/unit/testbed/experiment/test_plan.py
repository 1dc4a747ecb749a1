"""Experiments: what runs in which order, with which seed, and that it does not matter how."""

import pytest

from testbed.errors import InvalidSetting, TestbedError, UsageError
from testbed.experiment.plan import CheckedPlan, Plan
from testbed.schedulers.spec import parse_spec
from testbed.simulation.parameters import parameters_from
from testbed.simulation.provider import SimulatedProvider, SimulatedTrial
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def plan(*schedulers, **changes):
    return Plan(load_scenario("pi-2000").scaled(pods=3), tuple(map(parse_spec, schedulers)), **changes)


def test_schedulers_take_turns_and_the_order_of_turns_alternates():
    provider = FakeProvider()
    plan("carico", "kube-scheduler", repetitions=3, seed=7).check(provider).run()
    assert provider.calls == [
        "pi-2000 carico 7",
        "pi-2000 kube-scheduler 7",
        "pi-2000 kube-scheduler 8",
        "pi-2000 carico 8",
        "pi-2000 carico 9",
        "pi-2000 kube-scheduler 9",
    ]


def test_what_one_of_the_schedulers_cannot_do_is_found_before_the_first_one_runs():
    told = []
    asked = plan("carico", "kube-scheduler:cpu=3900m")
    with pytest.raises(UsageError, match="a node has at most 3800m"):
        asked.check(SimulatedProvider()).run(lambda one, progress: told.append(one))
    assert told == []


def test_repetitions_come_back_in_the_order_of_the_passes():
    asked = plan("carico", "kube-scheduler", repetitions=2)
    measured = asked.check(FakeProvider()).run()
    expected = [(one.scheduler.text, one.seed) for one in asked.passes()]
    assert [(one.scheduler, one.seed) for one in measured] == expected


def test_a_pass_says_what_it_is():
    assert [str(one) for one in plan("carico", repetitions=2).passes()] == [
        "pi-2000 × carico · rep 1/2",
        "pi-2000 × carico · rep 2/2",
    ]


def test_progress_comes_with_the_pass_it_is_about():
    seen = []
    asked = plan("carico", repetitions=2)
    asked.check(FakeProvider()).run(lambda one, progress: seen.append((one.seed, progress.pods)))
    assert seen == [(1001, 3), (1002, 3)]


def test_settings_reach_the_provider():
    slow, fast = (plan("carico", settings={"speed": speed}).check(FakeProvider()).run()[0] for speed in (1, 4))
    assert fast.job_completion_time_s["pi-2000"] < slow.job_completion_time_s["pi-2000"]


def test_a_setting_that_the_provider_does_not_know_runs_nothing():
    provider = FakeProvider()
    with pytest.raises(InvalidSetting, match=r"warp.*known: speed"):
        plan("carico", settings={"warp": 9}).check(provider)
    assert not provider.calls


def test_processes_change_nothing():
    asked = plan("carico", "kube-scheduler", repetitions=2)
    told = []
    parallel = asked.check(FakeProvider()).run(lambda one, progress: told.append(progress.phase), processes=2)
    assert parallel == asked.check(FakeProvider()).run()
    assert told == ["done"] * 4


def test_an_error_in_a_process_is_the_one_that_is_raised():
    asked, settings = plan("carico", repetitions=2), {"telemetry": "metrics-server"}
    unchecked = SimulatedTrial(asked.scenario, asked.schedulers[0], parameters_from(settings))
    with pytest.raises(UsageError, match="knows no pressure"):
        CheckedPlan(asked, {"carico": unchecked}, "simulated", shared_hardware=False).run(processes=2)


@pytest.mark.parametrize(
    ("schedulers", "changes", "message"),
    [
        ([], {}, "at least one scheduler"),
        (["carico", "carico"], {}, "named once.*ask for repetitions"),
        (["carico"], {"repetitions": 0}, "at least one repetition, got 0"),
        (["carico"], {"seed": -1}, "must not be negative, got -1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(schedulers, changes, message):
    with pytest.raises(UsageError, match=message):
        plan(*schedulers, **changes)


def test_no_process_is_refused():
    with pytest.raises(UsageError, match="at least one process"):
        plan("carico").check(FakeProvider()).run(processes=0)


def test_a_process_that_dies_is_reported():
    with pytest.raises(TestbedError, match="use fewer processes"):
        plan("carico", repetitions=2).check(FakeProvider(dies=True)).run(processes=2)
