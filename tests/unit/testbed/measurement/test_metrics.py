"""The registry of metrics: every data item that is measured is in it, with its unit."""

import pytest

from testbed.errors import UsageError
from testbed.experiment.plan import Plan
from testbed.measurement.metrics import DEFAULT, METRICS, chosen, figures, statistics_of
from testbed.measurement.statistics import summary
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def repetition():
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), (parse_spec("carico"),), 1)
    return plan.check(FakeProvider()).run()[0]


def test_everything_that_a_simulated_run_measures_is_registered_with_its_unit():
    scenario = load_scenario("isolation").scaled(pods=4)
    run = SimulatedCluster(scenario, parse_spec("carico"), 1, parameters_from({})).run()
    for item in run.data_items:
        metric = METRICS[item.labels["metric"]]
        assert item.unit == metric.unit
        assert set(item.data) - {"succeeded"} <= set(statistics_of(metric))  # of these, more is better


def test_statistics_are_those_of_every_distribution():
    assert set(summary([1.0, 2.0])) == set(statistics_of(METRICS["pod_completion_time"]))


def test_only_metrics_with_a_better_direction_are_compared_by_default():
    assert {figure.metric for figure in DEFAULT} == {
        name for name, metric in METRICS.items() if metric.less_is_better is not None
    }


def test_an_outcome_that_no_pod_had_is_counted_as_none():
    found = figures(repetition(), chosen("pod_outcome:evicted"))
    assert [(str(figure), value) for figure, value in found.items()] == [("pod_outcome evicted (pi-2000)", 0.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pod_completion", "no metric is named 'pod_completion', did you mean 'pod_completion_time'"),
        ("pod_completion_time:p98", "pod_completion_time has no statistic 'p98', did you mean 'p9"),
        ("pod_outcome:succeeded", "pod_outcome has no statistic 'succeeded'"),
        ("job_completion_time:p99", "job_completion_time has no statistic 'p99'; known: value"),
    ],
)
def test_an_unknown_name_says_what_may_be_meant(text, message):
    with pytest.raises(UsageError, match=message):
        chosen(text)
