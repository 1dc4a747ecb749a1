"""What fake nodes demand: what their running pods say of themselves, known from the first pod on."""

import pytest

from carico.demand.regression import MOST_WORKLOADS
from carico.demand.settings import DEMAND
from carico.demand.workload import workload_of
from testbed.real.kwok.synthetic_demand import CORES, GIB, NodeSize, SyntheticDemand


def pod(uid, name="pi", **annotations):
    named = {"cores": CORES, "gib": GIB}
    metadata = {"uid": uid, "annotations": {named[key]: value for key, value in annotations.items()}}
    return {"metadata": metadata, "spec": {"containers": [{"name": name, "image": name}]}}


PI = workload_of(pod("x"))


@pytest.fixture
def node():
    return SyntheticDemand("node-0", NodeSize(4.0, 16.0), DEMAND)


def test_demand_is_what_the_running_pods_say(node):
    node.pod_started(pod("one", cores="1.5", gib="0.25"))
    node.pod_started(pod("two", "other"))
    report = node.report(0.0)
    assert (report.node, report.cores, report.gib) == ("node-0", 4.0, 16.0)
    assert report.demand_cores.mean == 1.5 + 1.0, "1 core by default"
    assert report.held_gib == 0.25 + 0.1, "0.1 GiB by default"
    assert report.counted == {"one": PI, "two": workload_of(pod("x", "other"))}
    assert report.workloads[PI].pods == 1


def test_costs_are_known_as_well_as_any_node_is_believed_to_and_stay_known(node):
    node.pod_started(pod("one", cores="1.5", gib="0.25"))
    node.pod_stopped("one", 1.0)
    report = node.report(1.0)
    assert (report.demand_cores.mean, report.held_gib, report.counted) == (0.0, 0.0, {})
    known = report.workloads[PI]
    assert known.pods == 0
    assert known.cores == (1.5, DEMAND.finest_cores**2)
    assert known.gib == (0.25, DEMAND.finest_gib**2)


def test_stops_are_a_rate_that_fades(node):
    node.pod_started(pod("one"))
    node.pod_stopped("one", 1.0)
    first, later = (node.report(at).workloads[PI].stops_per_s for at in (1.0, 1.0 + DEMAND.stops_s))
    assert first == pytest.approx(1 / DEMAND.stops_s)
    assert later == pytest.approx(first / 2.71828, rel=1e-3)


@pytest.mark.parametrize("written", ["much", "nan", "inf", "-1", "1e9"])
def test_an_annotation_that_makes_no_sense_is_logged_and_the_default_taken(node, written, caplog):
    node.pod_started(pod("one", cores=written))
    assert node.report(0.0).demand_cores.mean == 1.0
    assert f"carico.dev/cores of pod one must be a number in [0, 10000], got '{written}'" in caplog.text


def test_of_many_workloads_those_are_known_that_ran_last(node):
    for number in range(MOST_WORKLOADS + 10):
        node.pod_started(pod(f"pod-{number}", f"workload-{number}"))
        node.pod_stopped(f"pod-{number}", float(number))
    known = node.report(100.0).workloads
    assert len(known) == MOST_WORKLOADS
    assert workload_of(pod("x", "workload-9")) not in known
    assert workload_of(pod("x", "workload-73")) in known
