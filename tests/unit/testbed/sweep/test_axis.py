"""What a sweep may be over, and which value a repetition has."""

import pytest

from testbed.errors import UsageError
from testbed.experiment.plan import Plan
from testbed.schedulers.spec import parse_spec
from testbed.simulation.provider import SimulatedProvider
from testbed.sweep.axis import Axis, check_axis, parse_axis
from testbed.sweep.sweep import Sweep, points, scenario_sha256, trials
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-2000").scaled(pods=4)
SCHEDULERS = ["carico", "kube-scheduler"]


def sweep(over, values, **changes):
    given = {
        "schedulers": SCHEDULERS,
        "sources": [None, None],
        "provider": "simulated",
        "repetitions": 1,
        "seed": 7,
    } | changes
    return Sweep("pi-2000", scenario_sha256(SCENARIO), over, list(values), **given)


def test_a_parameter_changes_only_its_scheduler_and_the_others_are_run_once():
    found = points(sweep("kube-scheduler.cpu", ["50m", "1"], repetitions=2), SCENARIO)
    assert [(one.spec, one.seeds) for one in found] == [
        ("carico", (7, 8)),
        ("kube-scheduler:cpu=50m", (7, 8)),
        ("kube-scheduler:cpu=1", (7, 8)),
    ]


@pytest.mark.parametrize(
    ("axis", "text", "spec"),
    [
        ("kube-scheduler.cpu", "kube-scheduler", "kube-scheduler:cpu=1"),
        ("kube-scheduler.cpu", "kube-scheduler:memory=1Gi", "kube-scheduler:memory=1Gi,cpu=1"),
        ("carico.hold_off_s", "carico:variant=thesis-literal", "carico:variant=thesis-literal,hold_off_s=1"),
        ("my.fit:Fit.limit", "my.fit:Fit", "my.fit:Fit,limit=1"),
        ("my.fit:Fit.limit", "my.fit:Fit,cpu=2", "my.fit:Fit,cpu=2,limit=1"),
        ("schedulerName=mine.cpu", "schedulerName=mine", "schedulerName=mine,cpu=1"),
        ("kube-scheduler.cpu", "carico", None),
        ("nodes", "carico", "carico"),
    ],
)
def test_the_spec_at_a_value(axis, text, spec):
    assert parse_axis(f"{axis}=1").name == axis
    assert Axis(axis, ("1",)).spec(text, "1") == spec


def test_sizes_settings_and_seeds():
    sizes = points(sweep("nodes", ["2", "3"]), SCENARIO)
    assert [one.scenario.cluster.nodes for one in sizes] == [2, 2, 3, 3]
    delays = points(sweep("report_delay_s", ["0", "2.5"], settings={"steal": "0.1"}), SCENARIO)
    assert [one.settings["report_delay_s"] for one in delays] == ["0", "0", "2.5", "2.5"]
    assert {one.settings["steal"] for one in delays} == {"0.1"}
    assert [one.seeds for one in points(sweep("seeds", ["3", "9"]), SCENARIO)] == [(3,), (3,), (9,), (9,)]


def test_every_repetition_knows_its_value():
    for over, values, provider, setting in (
        ("kube-scheduler.cpu", ["50m", "1"], FakeProvider(), None),
        ("pods", ["2", "5"], FakeProvider(), None),
        ("nodes", ["2", "3"], FakeProvider(), None),
        ("seeds", ["3", "9"], FakeProvider(), None),
        ("speed", ["1", "2.50"], FakeProvider(), "speed"),
    ):
        asked = sweep(over, values)
        seen = {asked.axis.value_of(trial.run(seed)) for trial, seed in trials(points(asked, SCENARIO), provider)}
        assert seen - {None} == set(values), setting


def test_the_first_seed_of_every_point_comes_first():
    asked = trials(points(sweep("nodes", ["2", "3"], repetitions=2), SCENARIO), SimulatedProvider())
    assert [seed for _, seed in asked] == [7] * 4 + [8] * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes", "written NAME=VALUE"),
        ("=1", "written NAME=VALUE"),
        (" =1", "written NAME=VALUE"),
        ("nodes=", "written NAME=VALUE"),
        ("nodes=1,,2", "written NAME=VALUE"),
        ("nodes=1,1", "each value once"),
        ("seeds=1..999999", "more than 10000 values"),
        ("nodes=two", "whole numbers are needed, got 'two'"),
        ("nods=1", r"there is no such thing, did you mean 'nodes'\? Known: pods, nodes, seeds, a parameter"),
        ("report_delay=1", "did you mean 'report_delay_s'"),
        ("kube-schedular.cpu=1", r"no scheduler under test is 'kube-schedular', did you mean 'kube-scheduler'\?"),
    ],
)
def test_anything_else_says_what_is_known(text, message):
    with pytest.raises(UsageError, match=message):
        check_axis(parse_axis(text), SCHEDULERS, ["report_delay_s"])


@pytest.mark.parametrize(
    ("over", "changes", "message"),
    [
        ("kube-scheduler.cpu", {"schedulers": ["kube-scheduler:cpu=1"]}, "cpu is what --over changes: leave it out"),
        ("pods", {"pods": 3}, "--pods 3: that is what --over changes"),
        ("steal", {"settings": {"steal": "0.1"}}, "--set steal: that is what --over changes"),
        ("seeds", {"repetitions": 2}, "each seed is one repetition"),
    ],
)
def test_what_contradicts_the_axis_is_refused(over, changes, message):
    with pytest.raises(UsageError, match=message):
        points(sweep(over, ["1"], **changes), SCENARIO)


def test_a_point_is_the_same_run_as_a_plans():
    (trial, seed), *_ = trials(points(sweep("pods", ["3"]), SCENARIO), FakeProvider())
    (repetition, *_) = Plan(SCENARIO.scaled(pods=3), (parse_spec("carico"),), seed=seed).check(FakeProvider()).run()
    assert trial.run(seed) == repetition
