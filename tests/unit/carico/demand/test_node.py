"""A node's model: from telemetry and pod events to the report."""

import dataclasses
import json

import numpy as np
import pytest

from carico.demand.node import LEAST_LEFT, NodeDemand
from carico.demand.regression import MOST_WORKLOADS
from carico.demand.settings import DEMAND
from carico.errors import InvalidInput, InvalidState
from carico.telemetry.counters import DiskUse, PodCounters

COST = {"pi": 1.0, "web": 0.2}
GIB = {"pi": 0.02, "web": 0.3}


class Load:
    """Pods that come and go on a node, whose demand is told to the node twice a second."""

    def __init__(self, node, seed):
        self.node = node
        self.rng = np.random.default_rng(seed)
        self.running = {}
        self.now = 0.0

    def run(self, seconds, pods, churn=0.0):
        """Keep so many pods of each workload running; a share `churn` of them ends every half a second."""
        for _ in range(int(2 * seconds)):
            begin, self.now = self.now, self.now + 0.5
            at = begin + 0.5 * self.rng.random()
            demand, held = 0.2, 1.0
            for name in COST:
                mine = [uid for uid, (workload, _) in self.running.items() if workload == name]
                over = [uid for number, uid in enumerate(mine) if number >= pods.get(name, 0)]
                over += [uid for uid in mine if uid not in over and self.rng.random() < churn]
                for uid in over:
                    del self.running[uid]
                    self.node.pod_stopped(uid, at)
                demand += len(over) * COST[name] * (at - begin) / 0.5
                held += len(over) * GIB[name] * (at - begin) / 0.5
                for number in range(pods.get(name, 0) - len(mine) + len(over)):
                    uid = f"{name}-{at}-{number}"
                    self.running[uid] = (name, at)
                    self.node.pod_started(uid, name, at)
            for name, start in self.running.values():
                share = (self.now - max(start, begin)) / 0.5
                demand += COST[name] * share
                held += GIB[name] * share
            self.node.observe(demand + self.rng.normal(0, 0.1), held + self.rng.normal(0, 0.003), self.now)
        return self.node.report(self.now)


@pytest.fixture
def node():
    return NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=0.0)


def test_it_learns_what_pods_cost_through_churn(node):
    load = Load(node, 1)
    load.run(10, {})
    for _ in range(12):
        report = load.run(5, {"pi": load.rng.integers(5), "web": load.rng.integers(1, 9)}, churn=0.3)
    assert report.workloads["pi"].cores.mean == pytest.approx(1.0, abs=0.15)
    assert report.workloads["web"].cores.mean == pytest.approx(0.2, abs=0.1)
    assert report.workloads["web"].gib.mean == pytest.approx(0.3, abs=0.1)
    assert report.baseline_gib == pytest.approx(1.0, abs=0.1)
    assert 0.5 < report.workloads["web"].stops_per_s < 4.0, "2 x 0.3 of 1 to 8 pods stop in a second"


class TestPodsThatNeitherStartNorStop:
    """Their number never changes, so the node's demand does not tell them from the baseline; their own counters do."""

    COST, HELD = 0.2, 2.0

    def run(self, node, seconds, read="ab", waiting=0.0, cost=COST):
        """Run pods a and b, which were there before the agent, on a node that demands 1 core and 1 GiB itself."""
        for uid in "ab":
            node.pod_started(uid, "web", 0.0)
        node.skip(0.01)
        rng, asked = np.random.default_rng(1), []
        for at in np.arange(0.5, seconds + 0.5, 0.5).tolist():
            node.observe(1.0 + 2 * cost + rng.normal(0, 0.1), 1.0 + 2 * self.HELD + rng.normal(0, 0.003), at)
            if uids := node.pods_to_read(at):
                asked.append((at, sorted(uids)))
                counters = PodCounters(at, cost * (1 - waiting) * at, cost * waiting * at, self.HELD)
                node.observe_pods(dict.fromkeys(read, counters), at)
        return node.report(seconds), asked

    def test_what_they_demand_is_known_after_two_readings(self, node):
        report, _ = self.run(node, 60)
        web = report.workloads["web"]
        assert web.measured
        assert abs(web.cores.mean - self.COST) < 0.05
        assert web.cores.variance < 0.3**2
        assert abs(web.gib.mean - self.HELD) < 0.02
        assert web.gib.variance < 0.2**2
        assert report.baseline_gib == pytest.approx(1.0, abs=0.05)

    def test_they_are_read_often_until_their_memory_is_known(self, node):
        _, asked = self.run(node, 60)
        assert asked[:2] == [(0.5, ["a", "b"]), (0.5 + DEMAND.pods_new_s, ["a", "b"])]
        assert np.diff([at for at, _ in asked[-8:]]) == pytest.approx(DEMAND.pods_s)

    def test_pods_that_wait_for_a_cpu_show_their_memory_only(self, node):
        """How many of their threads wait is not known."""
        web = self.run(node, 60, waiting=0.3, cost=2.0)[0].workloads["web"]
        assert not web.measured
        assert abs(web.gib.mean - self.HELD) < 0.02
        assert abs(web.cores.mean - 1.4) > 0.2, "that is what they used"
        assert web.cores.variance > 0.5, "what is assumed is doubted as before"

    def test_a_thread_that_waits_now_and_then_demands_what_it_used_and_waited_for(self, node):
        web = self.run(node, 60, waiting=0.4)[0].workloads["web"]
        assert web.measured
        assert abs(web.cores.mean - self.COST) < 0.05

    def test_pods_that_cannot_be_read_are_not_measured(self, node):
        assert not self.run(node, 60, read="")[0].workloads["web"].measured

    def test_some_pods_of_a_workload_stand_for_all(self, node):
        web = self.run(node, 60, read="b")[0].workloads["web"]
        assert web.measured
        assert abs(web.cores.mean - self.COST) < 0.05

    def test_what_was_measured_long_ago_is_not_measured_now(self, node):
        self.run(node, 60)
        for at in np.arange(60.5, 90, 0.5).tolist():
            node.observe(1.4, 5.0, at)
        assert not node.report(90.0).workloads["web"].measured

    def test_what_they_cost_is_forgotten_within_minutes_when_they_are_gone(self, node):
        """Also on a node that runs no others."""
        self.run(node, 60)
        for uid in "ab":
            node.pod_stopped(uid, 60.0)
        for at in np.arange(60.5, 1200, 0.5).tolist():
            node.observe(1.0, 1.0, at)
            assert not node.pods_to_read(at)
        web = node.report(1200.0).workloads.get("web")
        assert web is None or web.cores.variance > 0.95 * DEMAND.first_doubt_cores**2

    def test_another_pod_under_the_same_name_is_read_anew(self, node):
        self.run(node, 60)
        node.observe_pods(dict.fromkeys("ab", PodCounters(60.5, 0.1, 0.0, self.HELD)), 60.5)
        web = node.report(60.5).workloads["web"]
        assert abs(web.cores.mean - self.COST) < 0.05, "the counters fell"

    def test_stolen_time_is_demanded_too(self):
        node = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=0.0)
        for second in range(1, 60):
            node.observe(1.0, 1.0, float(second), left=0.5)
        node.pod_started("a", "web", 60.0)
        for at in (60.0, 65.0, 70.0):
            node.observe(1.4, 3.0, at + 0.5, left=0.5)
            node.observe_pods({"a": PodCounters(at, 0.2 * (at - 60), 0.0, 2.0)}, at)
        assert node.report(71.0).workloads["web"].cores.mean == pytest.approx(0.4, abs=0.05)

    def test_pods_that_an_agent_finds_have_not_started(self):
        """Its first interval of telemetry has begun before it knew of them."""
        node = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=0.0)
        node.pod_found("a", "web")
        node.pod_found("platform", None)
        for at in np.arange(0.5, 5.5, 0.5).tolist():
            node.observe(3.0, 4.0, at)
        web = node.report(5.0).workloads["web"]
        assert web.pods == 1
        assert web.gib == pytest.approx((DEMAND.first_gib, DEMAND.first_doubt_gib**2), abs=0.01)
        assert web.cores.mean == pytest.approx(DEMAND.first_cores, abs=0.05)
        assert web.cores.variance > 0.95 * DEMAND.first_doubt_cores**2
        node.pod_stopped("a", 5.2)
        for at in np.arange(5.5, 10.5, 0.5).tolist():
            node.observe(1.0, 2.0, at)
        assert node.report(10.0).workloads["web"].cores.mean == pytest.approx(2.0, abs=0.1)

    def test_of_more_workloads_than_a_node_tells_apart_some_stay_unknown_and_the_others_known(self):
        node = NodeDemand("node-0", cores=64.0, gib=256.0, variant=DEMAND, since=0.0)
        for number in range(MOST_WORKLOADS + 2):
            node.pod_found(str(number), f"service-{number}")
        unknown = set()
        for at in np.arange(0.5, 40.5, 0.5).tolist():
            node.observe(10.0, 20.0, at)
            if uids := node.pods_to_read(at):
                node.observe_pods(dict.fromkeys(uids, PodCounters(at, 0.1 * at, 0.0, 0.1)), at)
            if at > 20:
                told = node.report(at).workloads
                unknown |= {name for name, each in told.items() if each.gib.variance > 0.5 * DEMAND.first_doubt_gib**2}
        assert len(unknown) == 2

    def test_a_variant_may_read_no_pods(self):
        node = NodeDemand("node-0", 16.0, 32.0, dataclasses.replace(DEMAND, pods_s=0.0), since=0.0)
        report, asked = self.run(node, 20)
        assert not asked
        assert not report.workloads["web"].measured


def test_demand_follows_pods_before_telemetry_shows_them(node):
    load = Load(node, 2)
    load.run(10, {})
    before = load.run(20, {"pi": 4}).demand_cores.mean
    node.pod_started("another", "pi", load.now)
    assert node.report(load.now).demand_cores.mean - before == pytest.approx(1.0, abs=0.15)
    node.pod_stopped("another", load.now)
    assert node.report(load.now).demand_cores.mean == pytest.approx(before)


def test_a_busy_node_is_not_taken_for_one_with_cheap_pods():
    node = NodeDemand("node-0", cores=4.0, gib=32.0, variant=DEMAND, since=0.0)
    for second in range(1, 5):
        node.observe(0.2, 1.0, float(second))
    for number in range(20):
        node.pod_started(str(number), "pi", 4.0)
    for second in range(5, 60):
        node.observe(8.0, 1.4, float(second))
    assert node.report(60.0).workloads["pi"].cores.mean > 0.6, "20 pods demand 20 cores; 8 is all that can be seen"


def test_pods_of_the_platform_are_part_of_the_baseline(node):
    node.pod_started("daemon", None, 0.0)
    report = Load(node, 3).run(10, {})
    assert report.counted == {"daemon": None}
    assert not report.workloads
    assert report.demand_cores.mean == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fade_s": 0.0}, "fade_s must be positive, got 0.0"),
        ({"caution": -1.0}, "caution must be finite and not negative, got -1.0"),
        ({"headroom": float("nan")}, "headroom must be finite and not negative, got nan"),
        ({"memory_limit": 1.5}, r"memory_limit must be in \[0, 1\], got 1.5"),
    ],
)
def test_nonsense_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        dataclasses.replace(DEMAND, **changes)


def test_what_was_learned_survives_a_restart(node):
    load = Load(node, 1)
    for pods in ({}, {"pi": 2}, {"pi": 2, "web": 3}):
        load.run(10, pods)
    saved = json.loads(json.dumps(node.save()))
    again = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=1000.0)
    again.restore(saved, elapsed_s=0.0)
    before, after = node.report(30.0).workloads, again.report(1000.0).workloads
    assert before.keys() == after.keys()
    for name in before:
        assert (after[name].cores, after[name].gib) == (before[name].cores, before[name].gib)
    later = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=1000.0)
    later.restore(saved, elapsed_s=600.0)
    assert later.report(1000.0).workloads["pi"].cores.variance > 10 * before["pi"].cores.variance


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cpu",), None),
        (("cpu", "workloads"), ["pi", "pi"]),
        (("cpu", "workloads"), [f"workload-{number}" for number in range(100)]),
        (("cpu", "mean"), [0.0]),
        (("cpu", "covariance"), [[1.0, 9.0, 0.0], [9.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (("memory", "mean"), [float("nan")] * 3),
        (("memory", "covariance"), "zero"),
        (("peaks",), []),
        (("peaks", "pi"), [0.1]),
        (("peaks", "pi"), [-1.0, 0.0, 1.0, 0.0, 0.0]),
        (("peaks", "pi"), [330.0, 0.0, 1.0, 1.0, 0.0]),
        (("peaks", "pi"), [1.0, 1.0, 0.5, 1.0, 0.0]),
        (("peaks", "pi"), [1.0, 1.0, 1.0, 1.0, -1e-9]),
        (("peaks", "pi"), [1.0, 1.0, 1.0, 1.0, 0.1, -1.0]),
        (("peaks", "pi"), [1.0, 1.0, 1.0, 1.0, 0.1, 330.0]),
        (("peaks", "two words"), [1.0, 1.0, 1.0, 1.0, 0.1]),
        (("cpu", "mean", 1), 170.0),
        (("memory", "mean", 0), -330.0),
        (("cpu", "covariance", 0, 0), 2e3),
        (("cpu", "covariance", 1, 1), -1e-7),
        (("cpu", "workloads", 0), ""),
        (("memory", "workloads", 0), "pi\x1b[2J"),
        (("memory", "workloads", 0), "p" * 400),
        (("reads",), None),
        (("reads", "mean"), [0.0] * 9),
        (("disk",), None),
        (("disk", "0"), [1.0]),
        (("disk", "0"), [1.1, 1000.0, 0.0]),
        (("disk", "0"), [0.5, 2e9, 0.0]),
        (("disk", "0"), [0.5, 1000.0, -1.0]),
        (("reads", "mean", 0), 10_001.0),
        (("reads",), {"workloads": ["two words"], "mean": [0.0, 0.5], "covariance": [[0.1, 0.0], [0.0, 0.1]]}),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(node, path, value):
    load = Load(node, 1)
    load.run(10, {"pi": 2, "web": 1})
    node.observe(2.2, 1.3, load.now + 0.5, DiskUse(0.9, 1e5))
    saved = json.loads(json.dumps(node.save()))
    damaged = json.loads(json.dumps(saved))
    part = damaged
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(InvalidState, match="delete it"):
        node.restore(damaged, elapsed_s=0.0)
    assert node.save() == saved


def test_a_node_may_change_its_size(node):
    node.resize(4.0, 8.0)
    report = node.report(0.0)
    assert (report.cores, report.gib) == (4.0, 8.0)
    with pytest.raises(InvalidInput, match="cores, GiB must be"):
        node.resize(0.0, 8.0)


@pytest.mark.parametrize(("steal_s", "left"), [(10.0, 0.6), (0.0, 1.0)])
def test_a_node_offers_the_cpus_that_its_hypervisor_leaves_to_it(steal_s, left):
    node = NodeDemand("node-0", 16.0, 32.0, dataclasses.replace(DEMAND, steal_s=steal_s), since=0.0)
    for step in range(1, 101):
        node.observe(4.0, 1.0, at=step / 2, left=0.6)
    assert node.report(50.0).cores == pytest.approx(16.0 * left, rel=0.01)
    for step in range(101, 301):
        node.observe(4.0, 1.0, at=step / 2, left=1.0)
    assert node.report(150.0).cores == pytest.approx(16.0, rel=0.01)


def test_a_node_whose_cpus_are_all_stolen_still_offers_some(node):
    for step in range(1, 1001):
        node.observe(4.0, 1.0, at=step / 2, left=0.0)
    assert node.report(500.0).cores == 16.0 * LEAST_LEFT


def test_a_pod_that_is_identified_teaches_the_cost_of_its_workload(node):
    node.pod_started("pod", "default/stem", at=0.0)
    node.pod_identified("pod", "default/pi-1234")
    for step in range(1, 20):
        node.observe(1.2, 1.0, at=step / 2)
    assert set(node.report(10.0).workloads) == {"default/pi-1234"}


class TestChange:
    """Pods that are not what their workload says, or not any more."""

    def steps(self, node, cores, seconds, since):
        rng = np.random.default_rng(1)
        for step in range(1, 2 * seconds + 1):
            node.observe(cores + rng.normal(0, 0.1), 1.0, since + step / 2)
        return since + seconds

    def test_pods_of_a_template_may_differ_tenfold_and_the_node_still_knows_its_load(self, node):
        now = self.steps(node, 0.2, 5, 0.0)
        running = []
        for number in range(12):
            cost = 0.1 if number % 2 else 1.0
            node.pod_started(f"pod-{number}", "mixed", now)
            running.append(cost)
            now = self.steps(node, 0.2 + sum(running), 4, now)
        assert node.demand().mean == pytest.approx(0.2 + sum(running), abs=0.8)
        assert 0.1 < node.report(now).workloads["mixed"].cores.mean < 1.0

    @pytest.mark.parametrize("changed", [0.2, 3.0])
    def test_a_pod_that_changes_its_mind_is_followed_within_seconds(self, node, changed):
        now = self.steps(node, 0.2, 5, 0.0)
        node.pod_started("pod", "pi", now)
        now = self.steps(node, 1.2, 60, now)
        now = self.steps(node, 0.2 + changed, 10, now)
        assert node.demand().mean == pytest.approx(0.2 + changed, abs=0.3)

    def test_a_node_that_shrinks_says_so_at_once(self, node):
        now = self.steps(node, 3.0, 5, 0.0)
        node.resize(2.0, 32.0)
        report = node.report(now)
        assert (report.cores, round(report.demand_cores.mean)) == (2.0, 3)

    def test_an_overloaded_node_does_not_take_pods_for_free(self, node):
        """Pressure has a ceiling: under foreign load far beyond two threads a core a new pod changes nothing."""
        node.resize(2.0, 32.0)
        now = self.steps(node, 0.2, 5, 0.0)
        node.pod_started("foreign", "foreign", now)
        now = self.steps(node, 3.95, 30, now)
        for number in range(4):
            node.pod_started(f"pod-{number}", "pi", now)
            now = self.steps(node, 3.95, 5, now)
        assert node.report(now).workloads["pi"].cores.mean > 0.7


class TestDisk:
    """A node whose disks are seen; a pod of `reader` has a read under way for 0.8 of the time, a pod of `web` never."""

    def run(self, node, counts, since=0.0):
        """Run so many pods of each workload for ten seconds each, and return the report."""
        now, running = since, []
        for readers, webs in counts:
            while running:
                node.pod_stopped(running.pop(), now)
            for name, number in (("reader", readers), ("web", webs)):
                for pod in range(number):
                    running.append(f"{name}-{now}-{pod}")
                    node.pod_started(running[-1], name, now)
            for _ in range(20):
                now += 0.5
                node.observe(0.2 + 0.1 * len(running), 1.0, now, DiskUse(0.8 * readers, 4e4 * readers))
        return node.report(now)

    def test_it_learns_what_pods_read(self, node):
        report = self.run(node, [(0, 0), (1, 0), (2, 1), (0, 2), (3, 1)])
        assert report.workloads["reader"].reads.mean == pytest.approx(0.8, abs=0.05)
        assert report.workloads["web"].reads.mean == pytest.approx(0.0, abs=0.05)
        assert report.disk.reads == pytest.approx(2.4, abs=0.1)
        assert report.disk.level == pytest.approx(4.8, abs=0.1), "twice as many as were tried"

    def test_demand_follows_pods_before_telemetry_shows_them(self, node):
        self.run(node, [(0, 0), (1, 0), (2, 1)])
        node.pod_started("another", "reader", 30.1)
        assert node.report(30.2).disk.reads == pytest.approx(2.4, abs=0.2)

    def test_a_node_that_does_not_see_its_disks_says_nothing_about_them(self, node):
        report = Load(node, 1).run(10, {"pi": 2})
        assert report.disk is None
        assert {known.reads for known in report.workloads.values()} == {None}

    def test_what_was_learned_survives_a_restart(self, node):
        before = self.run(node, [(0, 0), (1, 0), (2, 1)])
        again = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=30.0)
        again.restore(json.loads(json.dumps(node.save())), elapsed_s=0.0)
        again.observe(0.2, 1.0, 30.5, DiskUse(0.0, 0.0))
        after = again.report(30.5)
        assert after.disk.level == before.disk.level
        assert after.workloads["reader"].reads.mean == pytest.approx(before.workloads["reader"].reads.mean, abs=0.05)

    def test_a_state_of_an_older_version_is_taken_over(self, node):
        Load(node, 1).run(10, {"pi": 2})
        older = {name: part for name, part in node.save().items() if name not in ("reads", "disk")}
        again = NodeDemand("node-0", cores=16.0, gib=32.0, variant=DEMAND, since=0.0)
        again.restore(older, elapsed_s=0.0)
        assert again.save()["cpu"] == node.save()["cpu"]


class TestMemoryThatGrowsSlowly:
    """Pods of 0.1 cores whose memory grows by 10 MiB/s for 100 s: on the whole node, that is hardly seen at first."""

    FROM, TO, GROWS_S = 0.1, 1.1, 100.0

    def held(self, age_s):
        return self.FROM + (self.TO - self.FROM) * min(age_s / self.GROWS_S, 1.0)

    def run(self, node, seconds, pods=4, read=True, began=1.0):
        """Start pods, and end and replace one of them every now and then, so that pods are of all ages."""
        started, most, rng = {}, {}, np.random.default_rng(3)
        for at in np.arange(0.5, seconds + 0.5, 0.5).tolist():
            if at == began:
                started = {f"pod-{number}": at for number in range(pods)}
                for uid in started:
                    node.pod_started(uid, "grows", at)
            for uid in [uid for uid, since in started.items() if at - since > 120.0 + 20.0 * (int(uid[4:]) % 4)]:
                del started[uid]
                node.pod_stopped(uid, at)
                uid = f"pod-{int(uid[4:]) + pods}"
                started[uid] = at
                node.pod_started(uid, "grows", at)
            held = {uid: self.held(at - since) for uid, since in started.items()}
            demand = 0.2 + 0.1 * len(started) + rng.normal(0, 0.05)
            node.observe(demand, 1.0 + sum(held.values()) + rng.normal(0, 0.003), at)
            if read and (uids := node.pods_to_read(at)):
                node.observe_pods({uid: PodCounters(at, 0.1 * at, 0.0, held[uid]) for uid in uids}, at)
            grows = node.report(at).workloads.get("grows")
            if grows is not None:
                most[at] = grows.gib
        return most

    def test_is_unknown_until_it_has_stopped(self, node):
        told = self.run(node, 100)
        assert min(each.variance for at, each in told.items() if 2 < at < 95) == DEMAND.first_doubt_gib**2
        told = self.run(NodeDemand("node-0", 16.0, 32.0, DEMAND, 0.0), 115)
        assert told[115.0].mean == pytest.approx(self.TO, rel=0.05)
        assert told[115.0].variance < 0.1

    def test_is_known_at_its_peak_where_pods_of_all_ages_run(self, node):
        told = self.run(node, 1500)
        assert min(each.mean for at, each in told.items() if at > 200) > 0.85 * self.TO

    def test_is_known_of_pods_that_cannot_be_read_beside_others_that_can(self, node):
        node.pod_started("readable", "web", 0.0)
        for at in np.arange(0.5, 60.5, 0.5).tolist():
            started = int(min(at, 20.0) // 4)
            if at in (4, 8, 12, 16, 20):
                node.pod_started(f"unreadable-{at}", "dark", at - 0.5)
            node.observe(1.0 + 0.2 * started, 1.5 + 0.8 * started, at)
            if "readable" in node.pods_to_read(at):
                node.observe_pods({"readable": PodCounters(at, 0.1 * at, 0.0, 0.5)}, at)
        dark = node.report(60.0).workloads["dark"]
        assert dark.gib.mean == pytest.approx(0.8, rel=0.15)
        assert dark.gib.variance < 0.1

    def test_is_underestimated_where_pods_cannot_be_read(self, node):
        told = self.run(node, 1500, read=False)
        assert min(each.mean for at, each in told.items() if at > 200) < 0.85 * self.TO
