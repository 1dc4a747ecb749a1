"""Experiments: the order and the seeds of runs, on one process or several."""

import pytest

from testbed.errors import InvalidSetting, TestbedError, UsageError
from testbed.experiment.plan import CheckedPlan, Plan, Twice
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


def test_a_scheduler_that_is_measured_twice_takes_turns_with_itself():
    provider = FakeProvider()
    asked = plan("carico", "kube-scheduler", repetitions=2, seed=7, twice=Twice(parse_spec("carico"), 107))
    measured = asked.check(provider).run(processes=1)
    assert provider.calls == [
        "pi-2000 carico 7",
        "pi-2000 kube-scheduler 7",
        "pi-2000 carico 107",
        "pi-2000 carico 108",
        "pi-2000 kube-scheduler 8",
        "pi-2000 carico 8",
    ]
    assert [one.seed for one in measured if one.of_aa_check] == [107, 108]
    assert str(asked.passes()[2]) == "pi-2000 × carico (A/A) · rep 1/2"


def test_all_schedulers_are_checked_before_the_first_one_runs():
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


def test_a_pass_describes_itself():
    assert [str(one) for one in plan("carico", repetitions=2).passes()] == [
        "pi-2000 × carico · rep 1/2",
        "pi-2000 × carico · rep 2/2",
    ]


def test_progress_comes_with_its_pass():
    seen = []
    asked = plan("carico", repetitions=2)
    asked.check(FakeProvider()).run(lambda one, progress: seen.append((one.seed, progress.pods)))
    assert seen == [(1001, 3), (1002, 3)]


def test_settings_reach_the_provider():
    slow, fast = (plan("carico", settings={"speed": speed}).check(FakeProvider()).run()[0] for speed in (1, 4))
    assert fast.job_completion_time_s["pi-2000"] < slow.job_completion_time_s["pi-2000"]


def test_an_unknown_setting_is_refused_before_anything_runs():
    provider = FakeProvider()
    with pytest.raises(InvalidSetting, match=r"warp.*known: speed"):
        plan("carico", settings={"warp": 9}).check(provider)
    assert not provider.calls


def test_results_do_not_depend_on_the_number_of_processes():
    asked = plan("carico", "kube-scheduler", repetitions=2)
    told = []
    parallel = asked.check(FakeProvider()).run(lambda one, progress: told.append(progress.phase), processes=2)
    assert parallel == asked.check(FakeProvider()).run()
    assert told == ["done"] * 4


def test_an_error_in_a_process_is_raised():
    asked, settings = plan("carico", repetitions=2), {"telemetry": "metrics-server"}
    unchecked = SimulatedTrial(asked.scenario, asked.schedulers[0], parameters_from(settings))
    with pytest.raises(UsageError, match="provides no pressure"):
        CheckedPlan(asked, {"carico": unchecked}, "simulated", shared_hardware=False).run(processes=2)


@pytest.mark.parametrize(
    ("schedulers", "changes", "message"),
    [
        ([], {}, "at least one scheduler"),
        (["carico", "carico"], {}, "each scheduler once.*ask for repetitions"),
        (["carico"], {"repetitions": 0}, "at least one repetition, got 0"),
        (["carico"], {"seed": -1}, "must not be negative, got -1"),
    ],
)
def test_an_invalid_plan_is_refused(schedulers, changes, message):
    with pytest.raises(UsageError, match=message):
        plan(*schedulers, **changes)


def test_less_than_one_process_is_refused():
    with pytest.raises(UsageError, match="at least one process"):
        plan("carico").check(FakeProvider()).run(processes=0)


def test_a_process_that_dies_is_reported():
    with pytest.raises(TestbedError, match="use fewer processes"):
        plan("carico", repetitions=2).check(FakeProvider(dies=True)).run(processes=2)
