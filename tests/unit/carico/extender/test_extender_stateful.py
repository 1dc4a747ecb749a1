"""Reservations under every order of calls, watch events, silences and restarts: none is lost, none counts twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from carico.errors import NotReady
from carico.scheduling.scheduler import REPEATED_S

from .conftest import Harness

NODES = ["node-a", "node-b", "node-c"]
nodes = st.sampled_from(NODES)


class Cluster(RuleBasedStateMachine):
    """kube-scheduler, its pods and an extender; beside them the simplest model of what must be reserved.

    `shown` are the pods that the watch has shown, `bound` is what the API knows of pods that are on their way, `asked`
    what was decided on and not bound yet, with the time of the decision. Watch events come at once, may come twice, and
    may be of pods nobody asked for.
    """

    pods = Bundle("pods")

    def __init__(self):
        super().__init__()
        self.harness = Harness(stale_after_s=10_000)
        self.capacity = {}
        self.bound = {}
        self.asked = {}
        self.shown = set()
        self.created = 0

    @rule(target=pods)
    def create(self):
        self.created += 1
        uid = f"uid-{self.created}"
        self.changed(uid, "")
        return uid

    @rule(node=nodes, capacity=st.floats(0, 4))
    def report(self, node, capacity):
        self.harness.report(**{node: capacity})
        self.capacity[node] = capacity

    @rule(pod=pods, candidates=st.lists(nodes, unique=True))
    def filter(self, pod, candidates):
        """Where it was bound, too: kube-scheduler's watch is behind ours."""
        if pod in self.bound:
            with pytest.raises(NotReady, match=f"bound to {self.bound[pod]} already"):
                self.harness.ask(pod, candidates)
            return
        self.expire()
        node, at = self.asked.get(pod, (None, 0.0))
        if node in candidates and self.harness.clock.now() - at < REPEATED_S:
            assert self.harness.choice(pod, candidates) == node
            return
        self.asked.pop(pod, None)
        room = {node: self.capacity[node] - self.reserved(node) for node in candidates if node in self.capacity}
        fitting = [node for node in candidates if room.get(node, 0) >= 1]
        choice = self.harness.choice(pod, candidates)
        assert choice == (max(fitting, key=room.__getitem__) if fitting else None)
        if choice is not None:
            self.asked[pod] = choice, self.harness.clock.now()

    @rule(pod=pods)
    def bind(self, pod):
        if pod in self.asked:
            self.bound[pod], _ = self.asked.pop(pod)
        if pod in self.bound:
            self.changed(pod, self.bound[pod])

    @rule(pod=pods, node=nodes)
    def bound_by_somebody_else(self, pod, node):
        self.asked.pop(pod, None)
        self.bound[pod] = node
        self.changed(pod, node)

    @rule(pod=pods)
    def binding_fails_and_is_tried_again(self, pod):
        self.filter(pod, NODES)

    @rule(pod=pods, node=nodes)
    def runs(self, pod, node):
        self.gone(pod)
        self.changed(pod, node, pending=False)

    @rule(pod=st.one_of(pods, st.just("uid-unknown")))
    def deleted(self, pod):
        self.gone(pod)
        self.shown.discard(pod)
        self.harness.extender.pod_deleted(pod)

    @rule(seconds=st.sampled_from([1, 20, 59, 60, 61]))
    def time_passes(self, seconds):
        self.harness.clock.advance(seconds)
        self.expire()
        self.harness.extender.tick()

    @rule()
    def restart(self):
        """What was not bound is not known to the next process, and kube-scheduler will ask for it again."""
        self.harness = Harness(stale_after_s=10_000, listed=False)
        self.asked.clear()
        self.shown.clear()
        for pod, node in self.bound.items():
            self.changed(pod, node)
        self.harness.extender.pods_listed(True)
        for node, capacity in self.capacity.items():
            self.harness.report(**{node: capacity})

    @invariant()
    def every_reservation_counts_once(self):
        for node in NODES:
            assert self.harness.reserved(node) == self.reserved(node)
        assert len(self.harness.plugin.ledger) == len(self.bound) + len(self.asked)

    @invariant()
    def what_is_shown_is_what_is(self):
        assert self.harness.metric("carico_extender_reservations") == len(self.bound) + len(self.asked)

    def reserved(self, node):
        return [*self.bound.values(), *(choice for choice, _ in self.asked.values())].count(node)

    def gone(self, pod):
        self.bound.pop(pod, None)
        self.asked.pop(pod, None)

    def changed(self, pod, node, pending=True):
        self.shown.add(pod)
        self.harness.extender.pod_changed(pod, node, pending=pending)

    def expire(self):
        """A clock ends only the reservations of pods that the watch does not show: bindings may take long."""
        now = self.harness.clock.now()
        self.asked = {pod: (node, at) for pod, (node, at) in self.asked.items() if pod in self.shown or now < at + 60}


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=40)
