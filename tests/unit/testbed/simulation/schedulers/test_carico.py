"""CARICO inside the framework: its own plugin decides among the nodes that hard constraints leave."""

from hypothesis import given
from hypothesis import strategies as st

from carico.scheduling.scheduler import RESERVATION_TIMEOUT_S
from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.carico import CaricoScheduler
from tests.unit.carico.extender.conftest import Harness
from workloads.scenario import ClusterShape, JobSpec


def pod(name="pod", millicpu=0, memory_bytes=0, **job):
    spec = JobSpec(name="job", workload="pi", pods=1, **job)
    return Pod(uid=name, name=name, job=spec, work=1, created_s=0, millicpu=millicpu, memory_bytes=memory_bytes)


def scheduler(*capacities, until_counted=False, **parameters):
    names = [f"node-{index}" for index in range(len(capacities))]
    shape = ClusterShape(nodes=len(capacities), cores=4, memory="8Gi")
    one = CaricoScheduler(names, shape, SimulationParameters(**parameters), lambda: 0.0, until_counted=until_counted)
    for node, capacity in enumerate(capacities):
        if capacity is not None:
            one.report(node, capacity)
    return one


def place(one, name, **fields):
    """Select and reserve; the node, or None."""
    a_pod = pod(name, **fields)
    node = one.select(a_pod)
    if node is not None:
        one.reserve(a_pod, node)
        a_pod.node = node
    return a_pod


def test_takes_the_node_with_most_room():
    assert scheduler(1.5, 3.0, 2.0).select(pod()) == 1


def test_a_node_without_a_report_takes_no_pods():
    assert scheduler(None, 1.0).select(pod()) == 1
    assert scheduler(None, 0.99).select(pod()) is None


def test_reservations_count_until_the_pod_runs():
    one = scheduler(2.5, 1.0)
    first, second, third = (place(one, name) for name in "abc")
    assert [first.node, second.node, third.node] == [0, 0, 1]
    assert one.select(pod()) is None
    one.pod_running(first)
    assert one.select(pod()) == 0, "the report is to know of it from now on"
    one.report(0, 1.5)
    assert one.select(pod()) is None


def test_with_until_counted_they_count_until_a_report_counts_the_pod():
    one = scheduler(1.5, until_counted=True)
    first = place(one, "a")
    one.pod_bound(first)
    one.pod_running(first)
    assert one.select(pod()) is None
    one.report(0, 1.2, frozenset({"a"}))
    assert one.select(pod()) == 0


def test_a_pod_that_was_never_seen_running_is_released_when_it_is_over():
    one = scheduler(1.0)
    gone = place(one, "a")
    assert one.select(pod()) is None
    one.pod_finished(gone)
    assert one.select(pod()) == 0


def test_a_pod_is_released_once():
    one = scheduler(3.0)
    first, second = place(one, "a"), place(one, "b")
    one.pod_running(first)
    one.pod_running(first)
    one.pod_finished(first)
    assert [place(one, name).node for name in "cde"] == [0, 0, None]
    assert second.node == 0


def test_the_latest_report_counts():
    one = scheduler(5.0)
    one.report(0, 0.0)
    assert one.select(pod()) is None


def test_hard_constraints_come_first():
    one = scheduler(9.0, 2.0)
    assert one.select(pod(placement="rest")) == 1
    assert one.select(pod(placement="first")) == 0
    place(one, "large", millicpu=3800)
    assert one.select(pod(millicpu=100)) == 1
    assert one.select(pod(memory_bytes=8 * 2**30)) is None
    assert one.select(pod()) == 0, "a pod without requests fits by capacity alone"


def test_a_kubelets_limit_of_pods_holds_whatever_is_reported():
    one = scheduler(110.0)
    pods = [place(one, f"pod-{index}") for index in range(110)]
    for a_pod in pods:
        assert a_pod.node == 0
        one.pod_running(a_pod)
    assert one.select(pod()) is None
    one.pod_finished(pods[0])
    assert one.select(pod()) == 0


def test_a_node_that_has_not_reported_for_long_takes_no_pods():
    now = 0.0
    shape = ClusterShape(nodes=1, cores=4, memory="8Gi")
    one = CaricoScheduler(["node-0"], shape, SimulationParameters(), lambda: now)
    one.report(0, 2.0)
    now = 5.0
    assert one.select(pod("a")) == 0
    now = 5.1
    assert one.select(pod("b")) is None


def test_a_binding_that_never_comes_frees_its_place_in_the_end():
    now = 0.0
    shape = ClusterShape(nodes=1, cores=4, memory="8Gi")
    one = CaricoScheduler(["node-0"], shape, SimulationParameters(), lambda: now)
    one.report(0, 2.0)
    bound, lost = place(one, "a"), place(one, "b")
    one.pod_bound(bound)
    assert lost.node == 0
    now = RESERVATION_TIMEOUT_S
    one.report(0, 2.0)
    one.tick()
    assert [one.select(pod(name)) for name in "cd"] == [0, None], "the reservation of the bound pod lasts"


class TestWakeUp:
    """Reports are no event of the cluster: who was refused would not hear of them."""

    def make(self, *capacities, **parameters):
        self.now, self.woken = 0.0, []
        names = [f"node-{index}" for index in range(len(capacities))]
        shape = ClusterShape(nodes=len(capacities), cores=4, memory="8Gi")
        parameters = SimulationParameters(**parameters)
        one = CaricoScheduler(names, shape, parameters, lambda: self.now, self.woken.append)
        for node, capacity in enumerate(capacities):
            one.report(node, capacity)
        return one

    def test_a_node_that_gets_room_wakes_whoever_was_refused(self):
        one = self.make(0.5, 0.5)
        place(one, "a")
        one.report(1, 0.9)
        assert self.woken == []
        one.report(1, 1.2)
        assert self.woken == [1]
        one.report(1, 3.0)
        assert self.woken == [1], "it had room already"

    def test_without_waiting_pods_no_node_is_woken(self):
        one = self.make(0.5)
        one.report(0, 2.0)
        assert self.woken == []

    def test_a_pod_that_got_a_node_or_was_deleted_no_longer_waits(self):
        one = self.make(0.5)
        first, second = place(one, "a"), place(one, "b")
        one.report(0, 2.0)
        assert self.woken == [0]
        assert one.select(first) == 0
        one.pod_finished(second)
        one.report(0, 0.5)
        self.now = 60
        one.report(0, 2.0)
        assert self.woken == [0]

    def test_the_end_of_a_reservation_makes_room_too(self):
        one = self.make(1.0)
        first = place(one, "a")
        place(one, "b")
        one.pod_running(first)
        assert self.woken == [0]

    def test_the_rate_is_limited_by_the_clock_that_was_passed_in(self):
        one = self.make(0.5)
        place(one, "a")
        for self.now in range(10):
            one.report(0, 2.0)
            one.report(0, 0.5)
        assert self.woken == [0, 0], "at 0 and at 5 s"

    def test_it_can_be_switched_off(self):
        one = self.make(0.5, wake_up=False)
        place(one, "a")
        one.report(0, 2.0)
        assert self.woken == []


PODS, NODES = "abcd", ("node-0", "node-1")
happenings = st.lists(
    st.one_of(
        st.tuples(
            st.just("report"),
            st.sampled_from(range(len(NODES))),
            st.sampled_from([0.0, 0.9, 1.0, 1.5, 2.2]),
            st.none() | st.frozensets(st.sampled_from(PODS)),
        ),
        st.tuples(st.sampled_from(["select", "bound", "running", "finished"]), st.sampled_from(PODS)),
        st.tuples(st.just("later"), st.sampled_from([0.3, 1.0, 6.0, 61.0, 700.0])),
    ),
    max_size=40,
)


@given(happenings, st.booleans())
def test_it_decides_as_the_extender_does(what_happens, until_counted):
    """Simulated and deployed CARICO, told the same, place, refuse and wake alike."""
    extender, woken = Harness(until_counted=until_counted), []
    shape = ClusterShape(nodes=len(NODES), cores=4, memory="8Gi")
    simulated = CaricoScheduler(
        list(NODES),
        shape,
        SimulationParameters(),
        extender.clock.now,
        lambda node: woken.append(NODES[node]),
        until_counted,
    )
    pods = {name: pod(name) for name in PODS}
    phase = dict.fromkeys(PODS, "new")
    for kind, *what in what_happens:
        if kind == "report":
            extender.report(what[2], **{NODES[what[0]]: what[1]})
            simulated.report(*what)
        elif kind == "later":
            extender.clock.advance(what[0])
            extender.extender.tick()
            simulated.tick()
        else:
            name = what[0]
            if kind == "select" and phase[name] == "new":
                choice = extender.choice(name, list(NODES))
                node = simulated.select(pods[name])
                assert choice == (None if node is None else NODES[node])
                if node is not None:
                    simulated.reserve(pods[name], node)
                    pods[name].node, phase[name] = node, "reserved"
            elif kind == "bound" and phase[name] == "reserved":
                extender.extender.pod_changed(name, NODES[pods[name].node], pending=True)
                simulated.pod_bound(pods[name])
                phase[name] = "bound"
            elif kind in ("running", "finished") and phase[name] == "bound":
                node, ended = NODES[pods[name].node], kind == "finished"
                extender.extender.pod_changed(name, node, pending=False, ended=ended)
                (simulated.pod_running if kind == "running" else simulated.pod_finished)(pods[name])
                phase[name] = "over"
    assert [node for node, _ in extender.woken] == woken
