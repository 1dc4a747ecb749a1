"""What k of n hostile nodes can do to the pods that others are given under `demand` (SECURITY.md)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind

PI = Kind("jobs/pi")
CORES, GIB = Estimate(0.5, 1e-6), Estimate(0.25, 1e-6)


def honest(node, pods, stops_per_s=0.0):
    """The report of a node with four cores that has learned what its pods cost."""
    known = {PI.workload: WorkloadReport(pods, stops_per_s, CORES, GIB)}
    counted = {f"{node}-{number}": PI.workload for number in range(pods)}
    demand = Estimate(0.2 + 0.5 * pods, 0.0)
    return DemandReport(node, 4.0, 16.0, demand, 1.0 + 0.25 * pods, 1.0, known, counted)


def hostile(node, size, gib, load, held, cores, variance, gib_each, pods, stops_per_s):
    """A report with any numbers that are accepted."""
    each = WorkloadReport(pods, stops_per_s, Estimate(cores, variance), Estimate(gib_each, variance))
    return DemandReport(node, size, gib, Estimate(load, variance), held, held / 2, {PI.workload: each}, {})


def offers(pods, lies=(), waiting=0, stops_per_s=0.0):
    """How many more pods of the workload each honest node is given at once; the last nodes may lie."""
    scheduler = DemandScheduler(DEMAND, sees_pods=True)
    nodes = [f"node-{number}" for number in range(len(pods))]
    for node, number in zip(nodes, pods, strict=True):
        for pod in range(max(number, 1)):
            scheduler.pod_changed(f"{node}-{pod}", PI.workload, node, False, 0.0, running=True)
    for number in range(waiting):
        scheduler.pod_waits(f"waits-{number}", PI)
    first_liar = len(nodes) - len(lies)
    for now in (1.0, 7.0):  # so that what was reported before the others is clipped
        for row, (node, number) in enumerate(zip(nodes, pods, strict=True)):
            told = hostile(node, *lies[row - first_liar]) if row >= first_liar else honest(node, number, stops_per_s)
            scheduler.report(told, now)
        scheduler.tick(now)
    scheduler.filter("asked-before", PI, nodes, 7.0)  # so that it is known which nodes pods may go to
    scheduler.pod_gone("asked-before", 7.0)
    found = []
    for node in nodes[:first_liar]:
        taken = 0
        while taken < 100 and scheduler.decision(PI, [node], 7.0).node == node:
            scheduler.pod_changed(f"{node}-new-{taken}", PI.workload, node, False, 7.0)
            taken += 1
        for number in range(taken):
            scheduler.pod_gone(f"{node}-new-{number}", 7.0)
        found.append(taken)
    return np.array(found)


def assert_bounded(true, got, share):
    """A cost that is up to 3 k/n dearer or 3/4 k/n cheaper, and at most one pod by rounding."""
    assert (got >= np.floor(true / (1 + 3 * share) * 0.98) - 1).all(), (true, got)
    assert (got <= np.ceil(true / (1 - 0.75 * share) * 1.02) + 1).all(), (true, got)


lies = st.tuples(
    st.sampled_from([0.01, 4.0, 10_000.0]) | st.floats(0.01, 10_000),
    st.sampled_from([0.01, 1e6]) | st.floats(0.01, 1e6),
    st.sampled_from([0.0, 1e4]) | st.floats(0, 1e4),
    st.floats(0, 1e6),
    st.sampled_from([0.0, 1e4]) | st.floats(0, 1e4),
    st.sampled_from([0.0, 1e-9, 1e4]) | st.floats(0, 2),
    st.floats(0, 1e6),
    st.integers(0, 10_000),
    st.just(0.0),  # of cores that are freed see SECURITY.md: one node can let pods wait rather than share CPUs
)
clusters = st.lists(st.integers(0, 8), min_size=8, max_size=16)


@pytest.mark.parametrize(
    ("waiting", "stops_per_s"), [(10, 0.0), (2000, 0.0), (20, 1.0)], ids=["all fit", "none fits", "pods stop"]
)
@given(pods=clusters, told=st.lists(lies, min_size=1, max_size=4))
def test_a_minority_moves_what_others_are_given_by_no_more_than_is_documented(waiting, stops_per_s, pods, told):
    told = told[: (len(pods) - 1) // 4]
    true = offers(pods, waiting=waiting, stops_per_s=stops_per_s)[: len(pods) - len(told)]
    assert_bounded(true, offers(pods, told, waiting, stops_per_s), len(told) / len(pods))


@pytest.mark.parametrize("waiting", [10, 2000])
@pytest.mark.parametrize("number", [1, 3])
def test_nor_does_one_that_improves_its_lies(waiting, number):
    """Hill-climbing over what the hostile nodes report, one way and the other."""
    rng, pods = np.random.default_rng(number), [0, 1, 2, 3, 4, 5, 6, 7] * 2
    low, high = np.array([[-2, -2, -2, -2, -3, -9, -3, 0], [4, 6, 4, 6, 4, 0.3, 6, 4]], dtype=float)
    true = offers(pods, waiting=waiting)[: len(pods) - number]
    for wanted in (1, -1):
        best, where = -math.inf, (low + high) / 2
        for evaluation in range(12):
            tried = (where + rng.normal(0, 0.3, 8) * (high - low) * (evaluation > 0)).clip(low, high)
            *numbers, running = (10.0**tried).tolist()
            lie = (*numbers, int(running), 0.0)
            got = offers(pods, [lie] * number, waiting)
            assert_bounded(true, got, number / len(pods))
            if (worth := wanted * float((got - true).sum())) >= best:
                best, where = worth, tried


def test_one_node_that_claims_to_be_huge_cannot_decide_for_all_that_pods_share_cpus():
    """More pods wait than fit: nodes are filled to the lower level, not to the higher one of two threads per core."""
    huge = (10_000.0, 16.0, 10_000.0, 16.0, 0.5, 1e-6, 0.25, 1, 0.0)
    true = offers([4] * 12, waiting=2000)[:-1]
    assert (offers([4] * 12, [huge], waiting=2000) == true).all()
    assert (offers([4] * 12, waiting=10)[:-1] > true).all()


class TestFewerThanThreeNodesKnowAWorkload:
    """One node is believed then (docs/concepts/demand.md): the tests say how far, and until when."""

    LIAR = "node-2"

    def lied_to(self, lie, learned=(), busy=False):
        """Return a scheduler to which a liar has told what only it and the nodes that have learned it know."""
        scheduler = DemandScheduler(DEMAND, sees_pods=True)
        nodes = ["node-0", "node-1", self.LIAR, "node-3"]
        for node in (*learned, self.LIAR):
            scheduler.pod_changed(f"{node}-0", PI.workload, node, False, 0.0, running=True)
        for now in (1.0, 7.0):
            for node in nodes:
                if node == self.LIAR:
                    scheduler.report(hostile(node, *lie), now)
                elif node in learned:
                    scheduler.report(honest(node, 1), now)
                else:
                    others = {f"{node}-other": "jobs/other"} if busy else {}
                    known = {"jobs/other": WorkloadReport(1, 0.0, CORES, GIB)} if busy else {}
                    demand = Estimate(0.7 if busy else 0.2, 0.0)
                    scheduler.report(DemandReport(node, 4.0, 16.0, demand, 1.25, 1.0, known, others), now)
            scheduler.tick(now)
        return scheduler

    def pods_of(self, scheduler, node="node-0"):
        taken = 0
        while taken < 100 and scheduler.decision(PI, [node], 7.0).node == node:
            scheduler.pod_changed(f"{node}-new-{taken}", PI.workload, node, False, 7.0)
            taken += 1
        return taken

    @given(lies)
    def test_an_idle_node_is_given_a_pod_whatever_is_said(self, lie):
        assert self.pods_of(self.lied_to(lie)) >= 1

    def test_a_node_that_is_not_idle_can_be_kept_without(self):
        """Memory must fit as a whole, so a claim of more than a node has keeps the workload off it: not bounded."""
        assert self.pods_of(self.lied_to((4.0, 16.0, 0.5, 1.0, 0.5, 1e-6, 1e4, 1, 0.0), busy=True)) == 0

    def test_what_costs_nothing_is_given_without_limit_until_a_report(self):
        """Only the kubelet's limit of pods is left: not bounded here."""
        assert self.pods_of(self.lied_to((4.0, 16.0, 0.5, 1.0, 0.0, 1e-9, 0.0, 1, 0.0))) == 100

    @given(lies)
    def test_when_three_others_have_learned_it_the_bound_for_one_of_four_holds(self, lie):
        learned = ("node-0", "node-1", "node-3")
        true = self.pods_of(self.lied_to((4.0, 16.0, 0.7, 1.25, 0.5, 1e-6, 0.25, 1, 0.0), learned))
        assert_bounded(np.array([true]), np.array([self.pods_of(self.lied_to(lie, learned))]), 1 / 4)
