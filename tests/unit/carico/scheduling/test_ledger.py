"""Reservations under every order of events: none is ever lost, none counts twice."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from carico.scheduling.ledger import Ledger
from carico.scheduling.plugin import CaricoPlugin

NODES = ["node-a", "node-b", "node-c"]
nodes = st.sampled_from(NODES)


class Cluster(RuleBasedStateMachine):
    """Pods come, are given a node, run, fail to bind, are tried again or are deleted; events may come twice.

    Beside the plugin walks the simplest model there is: which pod is on its way to which node.
    """

    pods = Bundle("pods")

    def __init__(self):
        super().__init__()
        self.plugin = CaricoPlugin()
        self.capacity = {}
        self.in_flight = {}
        self.created = 0

    @rule(target=pods, count=st.integers(1, 3))
    def create(self, count):
        self.created += count
        return multiple(*(f"pod-{self.created - i}" for i in range(count)))

    @rule(node=nodes, capacity=st.floats(0, 4))
    def report(self, node, capacity):
        self.plugin.report(node, capacity)
        self.capacity[node] = capacity

    @rule(node=nodes)
    def node_leaves(self, node):
        self.plugin.forget(node)
        self.capacity.pop(node, None)

    @rule(pod=pods)
    def schedule(self, pod):
        """Filter and reserve; a pod that is scheduled anew is counted at its latest node only."""
        best = self.plugin.filter(NODES).best
        if best is not None:
            self.plugin.reserve(pod, best)
            self.in_flight[pod] = best

    @rule(pod=pods, node=nodes)
    def reserve(self, pod, node):
        """The host may choose otherwise than the plugin scored."""
        self.plugin.reserve(pod, node)
        self.in_flight[pod] = node

    @rule(pod=pods)
    def runs(self, pod):
        """Left Pending; the watch may say so twice, or of a pod that was never reserved."""
        self.plugin.release(pod)
        self.in_flight.pop(pod, None)

    @rule(pod=pods)
    def fails_to_bind(self, pod):
        assert self.plugin.ledger.release(pod) == self.in_flight.pop(pod, None)

    @rule(pod=pods)
    def fails_and_is_scheduled_again(self, pod):
        self.fails_to_bind(pod)
        self.schedule(pod)

    @rule(pod=st.sampled_from(["unknown-1", "unknown-2"]))
    def something_unknown_is_deleted(self, pod):
        assert self.plugin.ledger.release(pod) is None

    @invariant()
    def every_reservation_counts_once(self):
        ledger = self.plugin.ledger
        assert len(ledger) == len(self.in_flight)
        assert sum(ledger.reserved(node) for node in NODES) == len(self.in_flight)
        for node in NODES:
            assert ledger.reserved(node) == list(self.in_flight.values()).count(node)
        for pod, node in self.in_flight.items():
            assert ledger.node_of(pod) == node

    @invariant()
    def the_filter_sees_what_is_reserved(self):
        for verdict in self.plugin.filter(NODES).verdicts:
            reserved = list(self.in_flight.values()).count(verdict.node)
            known = self.capacity.get(verdict.node)
            assert (verdict.pod_capacity, verdict.reserved) == (known, reserved)
            assert verdict.feasible == (known is not None and known - reserved >= 1)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=25, stateful_step_count=30)


def test_an_unused_ledger_knows_nothing():
    ledger = Ledger()
    assert len(ledger) == 0
    assert ledger.reserved("node") == 0
    assert ledger.node_of("pod") is None
    assert ledger.release("pod") is None


def test_nodes_without_reservations_cost_no_memory():
    ledger = Ledger()
    for i in range(100):
        ledger.reserve(f"pod-{i}", f"node-{i}")
        ledger.release(f"pod-{i}")
    assert not vars(ledger)["_count"]
    assert not vars(ledger)["_node_of"]
