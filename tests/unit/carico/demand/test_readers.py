"""Where pods go that read from disks."""

import dataclasses

import pytest

from carico.demand.regression import Estimate
from carico.demand.report import DiskReport
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind

READS = {"light": Estimate(0.9, 1e-4)}
"""What nodes know: a pod of `light`, which demands a tenth of a core, reads nearly all the time; `pi` does not read."""


@pytest.fixture
def reading(report):
    """Makes the report of a node with disks."""

    def make(node, level=1.25, reads=0.0, pods=(), known=READS):
        made = report(node, pods)
        workloads = {
            name: dataclasses.replace(each, reads=known.get(name, Estimate(0.0, 1e-4)))
            for name, each in made.workloads.items()
        }
        return dataclasses.replace(made, workloads=workloads, disk=DiskReport(reads, level))

    return make


def placed(scheduler, workload, nodes, most=8):
    """Place pods until one is refused, and return their nodes, or why a node refused."""
    found = []
    for number in range(most):
        decision = scheduler.filter(f"{workload}-{number}", Kind(workload), nodes, 0.0)
        found.append(decision.node or decision.refused[nodes[0]])
        if decision.node is None:
            break
    return found


def test_a_saturated_disk_takes_no_more_readers_and_the_pods_on_their_way_count(scheduler, reading):
    scheduler.report(reading("a", pods={"pi-x": "pi"}), 0.0)
    assert placed(scheduler, "light", ["a"]) == [
        "a",
        "disk saturated: with the pod, 0.10 more reads would be under way than it serves",
    ]


def test_more_fit_on_a_disk_that_serves_more(scheduler, reading):
    scheduler.report(reading("a", level=4.0, pods={"pi-x": "pi"}), 0.0)
    assert placed(scheduler, "light", ["a"])[:-1] == ["a"] * 4, "2.7 and half of 0.9 fit into 4, 3.6 and half do not"


def test_pods_that_do_not_read_go_there_all_the_same(scheduler, reading):
    scheduler.report(reading("a", reads=9.0, pods={"light-x": "light"}), 0.0)
    assert placed(scheduler, "pi", ["a"], most=3) == ["a"] * 3


def test_pods_of_which_nothing_is_known_are_not_held_back(scheduler, reading):
    scheduler.report(reading("a", reads=9.0, pods={"light-x": "light"}), 0.0)
    assert placed(scheduler, "stranger", ["a"], most=1) == ["a"]


def test_readers_that_are_in_doubt_are_not_held_back(scheduler, reading):
    scheduler.report(reading("a", reads=9.0, pods={"light-x": "light"}, known={"light": Estimate(0.3, 0.2)}), 0.0)
    assert placed(scheduler, "light", ["a"], most=2) == ["a"] * 2


def test_a_node_that_does_not_see_its_disks_is_not_limited(scheduler, reading, report):
    scheduler.report(reading("a", reads=9.0, pods={"light-x": "light"}), 0.0)
    scheduler.report(report("b", {"pi-x": "pi"}), 0.0)
    assert placed(scheduler, "light", ["a", "b"], most=6) == ["b"] * 6


def test_an_idle_node_takes_any_pod(scheduler, reading):
    scheduler.report(reading("a", reads=9.0), 0.0)
    assert placed(scheduler, "light", ["a"], most=1) == ["a"]


def test_a_reader_that_has_ended_makes_room_before_its_node_says_so(scheduler, reading):
    scheduler.pod_changed("light-x", "light", "a", ended=False, now=0.0, running=True)
    scheduler.report(reading("a", reads=0.9, pods={"light-x": "light", "pi-x": "pi"}), 0.0)
    assert scheduler.filter("one", Kind("light"), ["a"], 0.0).node is None
    scheduler.pod_gone("light-x", 0.1)
    assert scheduler.filter("one", Kind("light"), ["a"], 0.1).node == "a"


def test_a_node_that_sees_its_disks_no_more_is_not_limited_any_more(scheduler, reading, report):
    scheduler.report(reading("a", reads=9.0, pods={"pi-x": "pi"}), 0.0)
    scheduler.report(report("a", {"pi-x": "pi"}), 1.0)
    assert placed(scheduler, "light", ["a"], most=1) == ["a"]
    scheduler.report_capacity("a", 1.0, 2.0)
    scheduler.loads.forget("a")


def test_one_node_cannot_keep_pods_from_all_others(scheduler, reading):
    """A node claims that a workload reads a lot, of which the others know that it does not."""
    for node in ("a", "b", "c", "d"):
        scheduler.report(reading(node, pods={f"pi-{node}": "pi"}), 0.0)
    scheduler.report(reading("liar", pods={"pi-x": "pi"}, known={"pi": Estimate(1e6, 1e-4)}), 0.0)
    assert scheduler.loads.reads.cost("pi").mean < DEMAND.reads_from
    assert placed(scheduler, "pi", ["a"], most=2) == ["a"] * 2


def test_what_a_workload_reads_is_remembered(scheduler, reading, changed):
    scheduler.pod_changed("light-x", "light", "a", ended=False, now=0.0, running=True)
    for second in range(60):
        scheduler.report(reading("a", pods={"light-x": "light"}), float(second))
        scheduler.tick(float(second))
    again = changed()
    again.restore(scheduler.save(60.0), 3600.0, 0.0)
    assert again.loads.reads.cost("light").mean == pytest.approx(0.6, abs=0.05), "two parts experience, one assumption"
    (cost,) = (each for each in again.costs(0.0) if each.workload == "light")
    assert cost.reads == pytest.approx(0.9, abs=0.01)


def test_a_state_of_an_older_version_is_taken_over(scheduler):
    state = scheduler.save(0.0)
    del state["reads"]
    scheduler.restore(state, 0.0, 0.0)
    assert scheduler.save(0.0)["reads"] == {}
