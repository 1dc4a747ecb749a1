"""What is known of nodes, in arrays that are kept up to date report by report."""

import dataclasses
import pickle

from hypothesis import given
from hypothesis import strategies as st

from carico.demand.loads import Loads
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.settings import DEMAND

NODES = [f"node-{number}" for number in range(5)]
WORKLOADS = ["pi", "web", "ml"]
known = st.dictionaries(st.sampled_from(WORKLOADS), st.tuples(st.integers(0, 9), st.floats(0, 4)))
steps = st.tuples(st.sampled_from(NODES), st.sampled_from(["report", "capacity", "forget"]), known)


@given(st.lists(steps, max_size=25))
def test_what_nodes_know_of_a_workload_is_what_they_reported_last(taken):
    loads, latest = Loads(DEMAND), {}
    for node, what, workloads in taken:
        if what == "report":
            told = {
                name: WorkloadReport(pods, 0.0, Estimate(1.0, 1.0), Estimate(gib, 0.1))
                for name, (pods, gib) in workloads.items()
            }
            loads.report(DemandReport(node, 4.0, 8.0, Estimate(1.0, 0.1), 1.0, 1.0, told, {}), 0.0)
            latest[node] = told
        elif what == "capacity":
            loads.report_capacity(node, 2.0, 0.0)
            latest[node] = {}
        elif node in latest:
            loads.forget(node)
            del latest[node]
    for workload in WORKLOADS:
        expected = [
            (told.pods, told.gib.mean) if (told := latest.get(node, {}).get(workload)) else (0.0, 0.0) for node in NODES
        ]
        rows = loads.rows(NODES)
        assert list(zip(*map(list, loads.local(workload, rows)), strict=True)) == expected
        assert [loads.local(workload, row) for row in rows.tolist()] == expected
        at = {node: told[workload] for node, told in latest.items() if workload in told}
        assert loads.at_nodes(workload) == at
        assert (workload in loads.workloads()) == bool(at)


class TestPodsThatANodeHasNotObservedYet:
    """They count at what all nodes know of their workload, not at what the node takes them for."""

    UNKNOWN = Estimate(DEMAND.first_cores, DEMAND.first_doubt_cores**2)

    def report(self, node, cores, exposed, pods=2, demand=None):
        known = WorkloadReport(pods, 0.0, cores, Estimate(0.1, 1e-6), exposed=exposed)
        demand = Estimate(pods * cores.mean, exposed**2 * cores.variance) if demand is None else demand
        return DemandReport(node, 4.0, 8.0, demand, 1.0, 1.0, {"pi": known}, {f"{node}-{i}": "pi" for i in range(pods)})

    def loads(self, exposed):
        loads = Loads(DEMAND)
        loads.report(self.report("new", self.UNKNOWN, exposed), 0.0)
        return loads

    def test_are_counted_anew_as_soon_as_another_node_knows(self):
        loads = self.loads(exposed=2.0)
        assert loads.cpu_load(loads.row("new")) == 2 * 1.0 + 4.0, "two cores, and the doubt"
        loads.report(self.report("other", Estimate(0.25, 1e-4), exposed=0.0), 0.1)
        assert abs(loads.cpu_load(loads.row("new")) - 2 * 0.25) < 0.05

    def test_are_not_those_whose_demand_the_node_knows(self):
        loads = self.loads(exposed=0.0)
        loads.report(self.report("other", Estimate(0.25, 1e-4), exposed=0.0), 0.1)
        assert loads.cpu_load(loads.row("new")) == 2.0

    def test_others_do_not_overrule_a_node_that_is_certain(self):
        loads = Loads(DEMAND)
        loads.report(self.report("heavy", Estimate(1.0, 0.01**2), 2.0, demand=Estimate(2.0, 0.02**2)), 0.0)
        for number in range(9):
            loads.report(self.report(f"light-{number}", Estimate(0.25, 0.01**2), 0.0), 0.1)
        assert 2.0 - loads.cpu_load(loads.row("heavy")) <= 2.0 * 2.0 * 0.01 + 1e-3

    def test_of_workloads_that_no_node_names_any_more_are_forgotten(self):
        loads, sizes = Loads(DEMAND), []
        for number in range(400):
            report = self.report(f"node-{number}" if number % 2 else "other", self.UNKNOWN, exposed=2.0)
            known = {f"pi-{number:03}": report.workloads["pi"]}
            loads.report(dataclasses.replace(report, workloads=known, counted={}), float(number))
            if number % 2:
                loads.forget(report.node)
            loads.remember((), 1.0, float(number))
            sizes.append(len(pickle.dumps(loads)))
        assert sizes[-1] < 1.05 * sizes[99]
