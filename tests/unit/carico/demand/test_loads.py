"""What is known of nodes, in arrays that are kept up to date report by report."""

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
