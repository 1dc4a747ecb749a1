"""The cores without a rule differ from the whole core in that rule."""

import pytest

from benchmarks.ablations import CORES, without
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from testbed.simulation.schedulers import demand as simulated

CHEAP = Estimate(0.1, 1e-6)


def reported(node, *, knows, counted=None, stops=0.0):
    workloads = {"pi": WorkloadReport(0, stops, CHEAP, CHEAP)} if knows else {}
    return DemandReport(node, 4.0, 8.0, Estimate(0.0, 0.0), 0.0, 0.0, workloads, counted or {})


def loaded(rule, **options):
    """A core with a node that knows the workload, and one that does not; a pod is on its way to the latter."""
    core = CORES[rule](DEMAND)
    core.report(reported("knows", knows=True, **options), 0.0)
    core.report(reported("new", knows=False), 0.0)
    core.filter("a", Kind("pi", critical=True), ["new"], 0.0)
    return core


def load(core, node="new"):
    return float(core.loads.cpu_load(core.loads.rows([node]))[0])


@pytest.mark.parametrize(("rule", "expected"), [("", 0.1), ("pooling", 2.0), ("in-flight", 0.0)])
def test_what_a_pod_on_its_way_counts_for(rule, expected):
    assert load(loaded(rule)) == pytest.approx(expected, abs=0.01)


def test_a_node_that_knows_a_workload_is_judged_by_that_without_pooling():
    core = loaded("pooling")
    core.filter("b", Kind("pi"), ["knows"], 0.0)
    assert load(core, "knows") == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(("rule", "expected"), [("", -0.3), ("credit", 0.0)])
def test_pods_that_are_about_to_stop(rule, expected):
    assert load(loaded(rule, stops=2.0), "knows") == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("rule", "expected"), [("", True), ("critical", False)])
def test_latency_critical_pods(rule, expected):
    core = loaded(rule)
    assert core.loads.critical(core.loads.rows(["new"])).tolist() == [expected]


@pytest.mark.parametrize(("rule", "expected"), [("", True), ("showing", False)])
def test_pods_that_will_soon_show_what_they_cost(rule, expected):
    assert loaded(rule).loads.is_coming("pi") == expected


@pytest.mark.parametrize("rule", CORES)
def test_simulated_clusters_get_the_core_without_the_rule(rule):
    with without(rule):
        assert simulated.DemandScheduler is CORES[rule]
    assert simulated.DemandScheduler is CORES[""]
