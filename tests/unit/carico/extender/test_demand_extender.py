"""The extender of the variant `demand`: which node is answered, when an answer is held, and what nodes are told."""

import dataclasses
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry

from carico.clock import SystemClock
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.workload import workload_of
from carico.errors import InvalidRequest, InvalidState, KubeUnreachable, NotReady
from carico.extender.api import read_args, write_result
from carico.extender.demand_extender import DemandExtender
from carico.extender.extender import NEW_LEADER_S
from carico.extender.metrics import ExtenderMetrics
from carico.scheduling.report import CapacityReport
from carico.scheduling.scheduler import REPEATED_S
from carico.scheduling.uncounted import OVERDUE_S
from carico.scheduling.wake_up import WakeUp
from carico.testing import ManualClock

PATIENCE_S = 20.0


def pod(uid, image="pi:1", node="", phase="Pending", scheduler="carico", **spec):
    """A pod as the API shows it."""
    spec = {"containers": [{"name": "pi", "image": image}], "schedulerName": scheduler, "nodeName": node} | spec
    metadata = {"name": uid, "namespace": "jobs", "uid": uid, "ownerReferences": [{"kind": "Job", "name": "job"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


PI, LIGHT = workload_of(pod("x")), workload_of(pod("x", image="light:1"))
KNOWN = {PI: Estimate(1.0, 1e-6), LIGHT: Estimate(0.1, 1e-6)}


class Harness:
    """An extender and what it is asked and told."""

    def __init__(self, clock=None, journal=None, listed=True, **changes):
        self.clock = ManualClock(100.0) if clock is None else clock
        self.registry = CollectorRegistry()
        self.woken = []
        variant = dataclasses.replace(DEMAND, **changes)
        self.scheduler = DemandScheduler(variant, WakeUp(), lambda node, room: self.woken.append(node))
        self.extender = DemandExtender(
            self.scheduler, journal, self.clock, ExtenderMetrics(self.registry), scheduler_name="carico"
        )
        self.extender.pods_listed(listed)
        self.extender.pods_followed(listed)

    def report(self, node, pods=(), demand=None, known=KNOWN):
        """A node of 4 cores reports the pods that it counts, by UID their workload, and what it carries."""
        pods = dict(pods)
        carried = 0.2 + sum(KNOWN.get(name, Estimate(1.0, 1.0)).mean for name in pods.values())
        workloads = {
            name: WorkloadReport(list(pods.values()).count(name), 0.0, cost, Estimate(0.1, 1e-6))
            for name, cost in known.items()
        }
        demand = DemandReport(
            node, 4.0, 8.0, Estimate(carried if demand is None else demand, 0.0), 1.0, 1.0, workloads, pods
        )
        return self.extender.report(CapacityReport(node, 1.0, len(pods), 0.0, 1, demand=demand))

    def ask(self, uid, nodes, **fields):
        body = json.dumps({"Pod": pod(uid, **fields), "Nodes": None, "NodeNames": nodes}).encode()
        return json.loads(write_result(self.extender.filter(read_args(body))))

    def choice(self, uid, nodes, **fields):
        names = self.ask(uid, nodes, **fields)["NodeNames"]
        return names[0] if names else None

    def crowd(self, pods=100, **fields):
        """More pods wait than fit."""
        for number in range(pods):
            self.extender.pod_seen(pod(f"crowd-{number}", **fields))

    def metric(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def harness():
    return Harness(hold_s=0.0)


def test_the_node_with_the_most_room_takes_the_pod(harness):
    harness.report("a", demand=2.0)
    harness.report("b", demand=0.5)
    assert harness.ask("one", ["a", "b"]) == {"NodeNames": ["b"]}
    assert harness.metric("carico_extender_reservations") == 1
    assert harness.metric("carico_extender_decisions_total", result="scheduled") == 1


def test_a_refusal_says_what_every_node_lacks(harness):
    harness.report("a", {"old": PI}, demand=4.8)
    harness.crowd()
    assert harness.ask("one", ["a", "b"]) == {
        "NodeNames": [],
        "FailedAndUnresolvableNodes": {"a": "CPU full: its load is 0.55 cores above its level", "b": "no report yet"},
    }
    assert harness.metric("carico_extender_waiting_pods") == 101


def test_metrics_say_how_many_nodes_are_silent_and_how_many_have_room(harness):
    def counted():
        harness.extender.tick()
        names = ("nodes", "stale_nodes", "nodes_with_room", "oldest_report_age_seconds")
        return [harness.metric(f"carico_extender_{name}") for name in names]

    assert counted() == [0, 0, 0, 0]
    harness.report("full", {"old": PI}, demand=4.8)
    harness.report("free", {"new": LIGHT}, demand=0.5)
    harness.report("idle", demand=0.5)
    assert counted() == [3, 0, 2, 0]
    harness.clock.advance(6)
    harness.report("full", {"old": PI}, demand=4.8)
    assert counted() == [3, 2, 0, 6]


def test_nothing_is_decided_before_pods_were_listed():
    harness = Harness(listed=False)
    assert harness.extender.ready() == "pods have not been listed yet"
    with pytest.raises(NotReady, match="not been listed"):
        harness.ask("one", ["a"])


def test_a_pod_that_cannot_be_read_is_refused_and_changes_nothing(harness):
    harness.report("a")
    args = read_args(b'{"Pod": {"metadata": {"name": "p", "uid": "u", "ownerReferences": 5}}, "NodeNames": ["a"]}')
    assert harness.extender.filter(args).node_names == ["a"], "what is not as Kubernetes writes it says nothing"
    with pytest.raises(InvalidRequest):
        read_args(b'{"Pod": {"metadata": {"name": "p", "uid": "u"}, "spec": {,}}, "NodeNames": ["a"]}')


def test_the_watch_knows_the_workload_before_the_pod_is_asked_for(harness):
    harness.report("a")
    harness.crowd(image="light:1")
    placed = [harness.choice(f"pod-{number}", ["a"], image="light:1") for number in range(40)]
    assert placed == ["a"] * 40, "0.2 + 40 x 0.1 cores"


def test_the_node_of_a_pod_that_is_labelled_latency_critical_is_kept_half_idle(harness):
    server = pod("server", node="a", phase="Running")
    server["metadata"]["labels"] = {"carico.dev/latency-critical": "true"}
    harness.extender.pod_seen(server)
    harness.report("a", {"server": LIGHT})
    harness.crowd()
    assert [harness.choice(uid, ["a"]) for uid in ("one", "two")] == ["a", None], "0.3 + 1 <= 2 < 0.3 + 1 + 1"
    del server["metadata"]["labels"]
    harness.extender.pod_seen(server)
    assert harness.choice("two", ["a"]) == "a"


def test_the_label_is_read_from_the_request_if_the_watch_has_not_shown_the_pod_yet(harness):
    harness.report("a")
    harness.crowd()
    server = pod("server", image="light:1")
    server["metadata"]["labels"] = {"carico.dev/latency-critical": "true"}
    body = json.dumps({"Pod": server, "NodeNames": ["a"]}).encode()
    assert harness.extender.filter(read_args(body)).node_names == ["a"]
    assert [harness.choice(uid, ["a"]) for uid in ("one", "two")] == ["a", None]


def test_a_pod_that_is_over_makes_room_at_once(harness):
    pods = {f"pod-{number}": PI for number in range(5)}
    for uid in pods:
        harness.extender.pod_seen(pod(uid, node="a", phase="Running"))
    harness.report("a", pods)
    harness.crowd()
    assert harness.choice("next", ["a"]) is None
    harness.extender.pod_deleted("pod-0")
    assert harness.choice("next", ["a"]) == "a"


def test_after_a_restart_pods_of_the_platform_take_no_room_although_their_node_has_reported_before():
    harness = Harness(listed=False, hold_s=0.0)
    harness.report("a", {"one": PI})
    for uid in ("one", *(f"system-{number}" for number in range(8))):
        harness.extender.pod_seen(pod(uid, image=f"{uid}:1", node="a", phase="Running", scheduler="other"))
    harness.extender.pod_seen(pod("starting", node="a"))
    harness.extender.pods_listed(True)
    harness.extender.pods_followed(True)
    harness.crowd()
    assert harness.metric("carico_extender_reservations") == 1, "what does not run yet is on its way"
    assert harness.choice("next", ["a"]) == "a"
    harness.extender.pod_seen(pod("later", node="a", phase="Running"))
    assert harness.metric("carico_extender_reservations") == 3, "the report may be older than the pod"


def test_a_pod_that_its_node_should_count_is_shown(harness):
    for uid, scheduler in (("ours", "carico"), ("other", "default-scheduler")):
        harness.report("a")
        harness.extender.pod_seen(pod(uid, node="a", phase="Running", scheduler=scheduler))
    for _ in range(int(OVERDUE_S)):
        harness.clock.advance(1)
        harness.report("a")
        harness.extender.tick()
    assert harness.extender.uncounted() == [{"pod": "jobs/ours", "node": "a", "for_s": OVERDUE_S}]
    assert harness.metric("carico_extender_uncounted_pods") == 1
    assert harness.metric("carico_extender_reservations") == 1, "what others place is given up"
    harness.extender.pod_deleted("ours")
    harness.extender.tick()
    assert harness.extender.uncounted() == []


class TestWorkloadsOfPods:
    def test_are_told_to_nodes_that_know_their_names_only(self, harness):
        harness.extender.pod_seen(pod("one", node="a", phase="Running"))
        harness.extender.pod_seen(pod("two", node="a", phase="Running", scheduler="default-scheduler"))
        counted = {"one": "jobs/job", "two": "jobs/job", "stranger": "jobs/other"}
        assert harness.report("a", counted) == {"one": PI, "two": PI}
        assert harness.report("a", {"one": PI, "two": PI}) == {}

    def test_are_told_before_the_pod_starts(self, harness):
        harness.report("a")
        harness.extender.pod_seen(pod("one"))
        assert harness.choice("one", ["a"]) == "a"
        assert harness.report("a") == {"one": PI}
        assert harness.report("b") == {}

    def test_are_not_told_of_what_is_gone(self, harness):
        harness.extender.pod_seen(pod("one", node="a", phase="Running"))
        harness.extender.pod_deleted("one")
        assert harness.report("a", {"one": "jobs/job"}) == {}


def test_pods_that_another_scheduler_places_do_not_wait_here(harness):
    harness.extender.pod_seen(pod("other", scheduler="default-scheduler"))
    harness.extender.pod_seen(pod("gated", schedulingGates=[{"name": "quota"}]))
    assert harness.metric("carico_extender_waiting_pods") == 0
    harness.extender.pod_seen(pod("ours"))
    assert harness.metric("carico_extender_waiting_pods") == 1


def test_a_pod_that_the_watch_never_shows_is_gone_after_a_while(harness):
    harness.report("a")
    assert harness.choice("ghost", ["a"]) == "a"
    harness.crowd()
    harness.report("b", {"old": PI}, demand=6.0)
    assert harness.choice("shown", ["b"]) is None
    harness.extender.pod_seen(pod("shown"))
    harness.clock.advance(61)
    harness.extender.tick()
    assert harness.metric("carico_extender_reservations") == 0
    assert "shown" in harness.scheduler.waiting


def test_an_agent_of_another_version_is_asked_for_its_capacity(harness):
    harness.extender.report(CapacityReport("old", 1.5, 0, 0.0, 1))
    assert harness.choice("one", ["old"]) == "old"
    assert harness.choice("two", ["old"]) is None


class TestHeldAnswers:
    """With the machine's clock; answers are held for so long that only what is tested can end the wait."""

    @pytest.fixture
    def full(self):
        harness = Harness(SystemClock(), hold_s=3600.0)
        harness.crowd()
        harness.report("a", {"old": PI}, demand=6.0)
        yield harness
        harness.extender.close()

    @pytest.fixture
    def asked(self, full):
        """Ask in a thread; returns the future answer once the answer is being held."""
        with ThreadPoolExecutor() as pool:
            waits, wait_for = threading.Event(), full.extender._changed.wait_for

            def noticed(*args):
                waits.set()
                return wait_for(*args)

            full.extender._changed.wait_for = noticed

            def ask(uid, nodes, **fields):
                future = pool.submit(full.choice, uid, nodes, **fields)
                assert waits.wait(PATIENCE_S)
                return future

            yield ask
            full.extender.close()

    def test_are_given_when_a_report_shows_room(self, full, asked):
        answer = asked("one", ["a"])
        full.report("a", {"old": PI}, demand=6.0)
        assert not answer.done()
        full.report("a", {"old": PI}, demand=2.0)
        assert answer.result(PATIENCE_S) == "a"

    def test_are_given_when_a_pod_ends(self, full, asked):
        pods = {f"pod-{number}": PI for number in range(5)}
        for uid in pods:
            full.extender.pod_seen(pod(uid, node="a", phase="Running"))
        full.report("a", pods)
        answer = asked("one", ["a"])
        full.extender.pod_deleted("pod-0")
        assert answer.result(PATIENCE_S) == "a"

    def test_are_given_up_for_a_pod_that_may_go_elsewhere(self, full, asked):
        full.report("b", {"other": PI}, demand=2.0)
        answer = asked("one", ["a"])
        assert not answer.done()
        full.extender.pod_seen(pod("elsewhere", nodeSelector={"zone": "b"}))
        assert answer.result(PATIENCE_S) is None
        assert full.choice("elsewhere", ["b"], nodeSelector={"zone": "b"}) == "b"

    def test_do_not_make_a_pod_forgotten_that_the_watch_shows_meanwhile(self, full, asked):
        answer = asked("one", ["a"])
        full.extender.pod_seen(pod("one"))
        full.extender.close()
        assert answer.result(PATIENCE_S) is None
        assert full.extender._unseen.gone(math.inf) == []

    @pytest.mark.parametrize("shown_before", [True, False])
    def test_end_with_the_pod(self, full, asked, shown_before):
        if shown_before:
            full.extender.pod_seen(pod("one"))
        answer = asked("one", ["a"])
        full.extender.pod_seen(pod("one"))
        full.extender.pod_deleted("one")
        full.report("a", {"old": PI}, demand=2.0)
        assert answer.result(PATIENCE_S) is None
        assert "one" not in full.scheduler.waiting
        assert full.scheduler.loads.in_flight_count == 0

    def test_end_with_the_process(self, full, asked):
        answer = asked("one", ["a"])
        full.extender.close()
        assert answer.result(PATIENCE_S) is None

    def test_are_refused_after_the_time_that_the_variant_says(self):
        harness = Harness(SystemClock(), hold_s=0.02)
        harness.crowd()
        harness.report("a", {"old": PI}, demand=6.0)
        assert harness.choice("one", ["a"]) is None
        assert harness.scheduler.waiting.refused == {"one"}

    def test_do_not_keep_reports_and_other_requests_from_being_answered(self, full, asked):
        answer = asked("one", ["a"])
        full.report("b", demand=0.2)
        assert full.choice("two", ["b"], nodeSelector={"zone": "b"}) == "b"
        full.extender.close()
        assert answer.result(PATIENCE_S) is None


def test_what_nodes_carry_and_what_workloads_cost_can_be_shown(harness):
    harness.report("a", {"one": PI})
    harness.extender.report(CapacityReport("old", 1.5, 0, 0.0, 1))
    by_node = {node["node"]: node for node in harness.extender.nodes()}
    assert (by_node["a"]["cores"], by_node["a"]["load_cores"], by_node["a"]["level_cores"]) == (4.0, 1.2, 4.25)
    assert (by_node["old"]["cores"], by_node["old"]["pod_capacity"]) == (None, 1.5)
    cost = next(cost for cost in harness.extender.costs() if cost["workload"] == PI)
    assert (cost["pods"], cost["nodes"]) == (1, 1)
    assert cost["cores"] == pytest.approx(1.0, abs=0.01)
    assert (cost["reads"], cost["reads_doubt"]) == (0.0, 0.5), "nodes that do not see their disks"
    (at_node,) = (cost for cost in harness.extender.costs_at_nodes() if cost["workload"] == PI)
    assert (at_node["node"], at_node["pods"], at_node["cores"]) == ("a", 1, 1.0)
    shown = [harness.extender.nodes(), harness.extender.costs(), harness.extender.costs_at_nodes()]
    json.dumps(shown, allow_nan=False)


@pytest.mark.parametrize("apart_s", [-3600.0, 3600.0, 1e9])
def test_nothing_depends_on_the_clock_of_a_node(harness, apart_s):
    """The agent's clock differs, and goes back between two reports."""
    for at, sequence in ((apart_s, 1), (0.0, 2)):
        node = DemandReport("a", 4.0, 8.0, Estimate(1.0, 0.0), 1.0, 1.0, {}, {})
        harness.extender.report(CapacityReport("a", 1.0, 0, 1e9 + at, sequence, demand=node))
        (shown,) = harness.extender.nodes()
        assert (shown["age_s"], shown["stale"], shown["load_cores"]) == (0.0, False, 1.0)
        harness.clock.advance(1.0)
    assert harness.choice("one", ["a"]) == "a"


@pytest.mark.parametrize("apart_s", [-3600.0, 3600.0])
def test_what_another_extender_remembers_hardly_depends_on_its_clock(apart_s):
    known = {"jobs/pi-1": [0.5, 0.01, 10.0, 60.0]}
    costs = []
    for saved_at in (1e9, 1e9 + apart_s):
        extender = Harness().extender
        extender._unix_time = lambda: 1e9
        extender.restore({"cpu": known, "memory": {}, "at_unix_s": saved_at})
        costs.append(extender._scheduler.cost("jobs/pi-1")[0].mean)
    assert costs[0] == pytest.approx(costs[1], rel=0.01)


class TestWorkloadsThatRanBefore:
    """A job that has run for a while, and whose pods have ended since."""

    NIGHT_S = 12 * 3600.0

    @pytest.fixture
    def ran(self, harness):
        harness.extender.pod_seen(pod("one", image="light:1", node="a", phase="Running"))
        for number in range(60):
            harness.report("a", {"one": LIGHT} if number < 58 else {})
            harness.clock.advance(5.0)
            harness.extender.tick()
        return harness

    @staticmethod
    def shown(extender):
        return next(cost for cost in extender.costs() if cost["workload"] == LIGHT)

    def test_are_shown_with_what_they_used_to_cost(self, ran):
        ran.report("a", {}, known={})
        ran.clock.advance(self.NIGHT_S)
        ran.extender.tick()
        cost = self.shown(ran.extender)
        assert (cost["pods"], cost["nodes"]) == (0, 0)
        assert cost["cores"] == pytest.approx(0.1, abs=0.02)
        assert cost["cores_doubt"] < 0.1
        assert cost["idle_s"] == pytest.approx(self.NIGHT_S, rel=0.01)

    def test_begin_with_it_when_they_return(self, ran):
        assert ran.scheduler.cost(LIGHT)[0].mean < 0.2
        ran.report("a", {}, known={})
        cpu, _ = ran.scheduler.cost(LIGHT)
        assert cpu.mean < 0.2
        assert 0.2 < cpu.variance < 0.4, "it is doubted again"

    def test_are_shown_with_what_their_last_pod_requested(self, ran):
        ran.extender.pod_deleted("one")
        assert self.requested(ran.extender) == (0.0, 0.0)
        asking = pod("two", image="light:1")
        asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "250m", "memory": "512Mi"}}
        ran.extender.pod_seen(asking)
        ran.extender.pod_deleted("two")
        assert self.requested(ran.extender) == (0.25, 0.5)
        after = Harness()
        after.extender.restore(json.loads(json.dumps(ran.extender.state())))
        assert self.requested(after.extender) == (0.25, 0.5)

    def requested(self, extender):
        cost = self.shown(extender)
        return cost["last_requested_cores"], cost["last_requested_gib"]

    def test_are_counted(self, ran):
        ran.report("a", {"one": LIGHT})
        ran.extender.pod_seen(pod("proxy", image="of-the-platform:1", node="a", phase="Running"))
        assert ran.extender.workloads() == {"running": 1, "waiting": 0, "unknown": 0, "remembered": 0}
        ran.extender.pod_seen(pod("unheard", image="new:1"))
        assert ran.extender.workloads() == {"running": 1, "waiting": 1, "unknown": 1, "remembered": 0}
        ran.extender.pod_deleted("one")
        assert ran.extender.workloads() == {"running": 0, "waiting": 1, "unknown": 1, "remembered": 1}

    def test_are_not_believed_to_have_run_if_only_a_node_says_so(self, harness):
        for _ in range(60):
            harness.report("a", {"one": LIGHT})
            harness.clock.advance(5.0)
            harness.extender.tick()
        assert harness.extender.state()["cpu"] == {}

    def test_are_remembered_by_the_next_process(self, ran):
        state = json.loads(json.dumps(ran.extender.state()))
        after = Harness()
        after.extender.restore(state)
        assert self.shown(after.extender)["cores"] == pytest.approx(0.1, abs=0.02)

    @pytest.mark.parametrize(
        ("part", "damaged"),
        [
            ("cpu", {LIGHT: [1.0]}),
            ("memory", {LIGHT: [1.0]}),
            ("at_unix_s", None),
            ("requests", []),
            ("requests", {LIGHT: [1.0]}),
            ("requests", {LIGHT: [-1.0, True]}),
            ("requests", {LIGHT: ["1", None]}),
        ],
    )
    def test_a_damaged_state_changes_nothing(self, ran, part, damaged):
        state = ran.extender.state()
        with pytest.raises(InvalidState):
            ran.extender.restore({**state, part: damaged})
        assert ran.extender.state()["cpu"] == state["cpu"]
        assert ran.extender.state()["memory"] == state["memory"]


def test_a_new_leader_decides_nothing_while_its_watch_is_broken(harness):
    """The pods that the leader before has placed are not known then; one that goes on deciding knows its own."""
    hurried = []
    harness.extender.hurry = lambda: hurried.append(harness.clock.now())
    harness.report("a")
    assert harness.choice("one", ["a"]) == "a"
    assert hurried == []
    harness.extender.pods_followed(False)
    harness.clock.advance(NEW_LEADER_S)
    harness.report("a")
    assert harness.choice("two", ["a"]) == "a"
    harness.clock.advance(NEW_LEADER_S + 0.1)
    harness.report("a")
    for _ in range(2):
        with pytest.raises(NotReady, match="the watch on pods is broken"):
            harness.ask("three", ["a"])
    assert len(hurried) == 3, "the pods are needed now"
    harness.extender.pods_followed(True)
    harness.report("a")
    assert harness.choice("three", ["a"]) == "a"


def test_a_new_leader_first_makes_sure_that_it_knows_all_pods(harness):
    """Its watch may be stuck, which nobody notices for half a minute."""
    asked, outcomes = [], [None, KubeUnreachable("down"), None]

    def catch_up():
        asked.append(harness.clock.now())
        if (outcome := outcomes[len(asked) - 1]) is not None:
            raise outcome

    harness.extender.catch_up = catch_up
    harness.report("a")
    assert harness.choice("one", ["a"]) == "a"
    harness.clock.advance(NEW_LEADER_S)
    harness.report("a")
    assert harness.choice("two", ["a"]) == "a"
    assert len(asked) == 1, "who goes on deciding knows its own pods"
    harness.clock.advance(NEW_LEADER_S + 0.1)
    harness.report("a")
    with pytest.raises(
        NotReady, match=r"pods cannot be listed, so pods of another leader may be on their way .*: down"
    ):
        harness.ask("three", ["a"])
    assert harness.choice("three", ["a"]) == "a"
    assert len(asked) == 3


def test_a_request_that_arrives_twice_is_answered_alike(harness):
    """Nobody knows which of the answers counts."""
    for node in ("a", "b"):
        harness.report(node)
    first = harness.choice("one", ["a", "b"])
    harness.report(first, demand=3.0)
    assert harness.choice("one", ["a", "b"]) == first
    assert harness.metric("carico_extender_reservations") == 1
    harness.clock.advance(REPEATED_S)
    assert harness.choice("one", ["a", "b"]) != first, "kube-scheduler tries again after a second"


def test_a_pod_keeps_its_place_while_the_watch_is_broken(harness):
    harness.report("a")
    assert harness.choice("one", ["a"]) == "a"
    harness.extender.pods_followed(False)
    for _ in range(120):
        harness.clock.advance(1)
        harness.extender.tick()
    assert harness.metric("carico_extender_reservations") == 1
    harness.extender.pods_followed(True)
    harness.clock.advance(59)
    harness.extender.tick()
    assert harness.metric("carico_extender_reservations") == 1
    harness.clock.advance(2)
    harness.extender.tick()
    assert harness.metric("carico_extender_reservations") == 0
