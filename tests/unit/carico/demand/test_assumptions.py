"""What happens if assumptions of `demand` are wrong, from agents to decisions; see docs/concepts/demand.md."""

import pytest

from carico.demand import memory as memory_module
from carico.demand.node import NodeDemand
from carico.demand.regression import Estimate
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.telemetry.counters import DiskUse, PodCounters
from tests.kits.demanding_nodes import DemandingNodes

SMALL, LARGE = 0.2, 2.0
GIB = 16.0


def fill(nodes, sizes, seconds=60, pods_per_s=3):
    """Place pods of these sizes in turn, and return the most memory that was in use on a node."""
    left, most = list(sizes), 0.0
    for _ in range(seconds):
        for _ in range(pods_per_s):
            if left and nodes.place(0.1, left[0]) is not None:
                left.pop(0)
        nodes.run(1.0)
        most = max(most, *map(nodes.used_gib, nodes.models))
    return most


class TestMemoryThatDiffersTenfold:
    """Pods of one template of which some need ten times the memory of others."""

    @pytest.mark.parametrize("sizes", [[SMALL, LARGE] * 40, [LARGE] * 6 + [SMALL] * 40], ids=["mixed", "large first"])
    def test_is_never_given_away_twice_if_both_kinds_are_seen_early(self, sizes):
        nodes = DemandingNodes(2, cores=32.0, gib=GIB)
        assert 0.5 * GIB < fill(nodes, sizes) <= GIB

    def test_may_run_out_when_large_pods_follow_many_small_ones_by_those_on_their_way(self):
        """Nobody can know what the first large pods need. What is on its way by then is all that comes too much."""
        nodes = DemandingNodes(2, cores=32.0, gib=GIB)
        most = fill(nodes, [SMALL] * 15 + [LARGE] * 40, pods_per_s=3)
        on_their_way = 2 * 3  # until a pod has started and its node has reported that
        assert most <= DEMAND.memory_limit * GIB + on_their_way * (LARGE - SMALL)
        full = max(nodes.models, key=nodes.used_gib)
        before = nodes.used_gib(full)
        fill(nodes, [LARGE] * 40, seconds=20)
        assert nodes.used_gib(full) == before, "a full node gets no further pod"


def test_pods_that_become_dear_after_a_long_time_are_known_to_all_after_three_seconds():
    nodes = DemandingNodes(3, cores=8.0)
    for node in nodes.models:
        for _ in range(3):
            nodes.place(0.1, 0.1, node)
    nodes.run(1200.0)
    assert nodes.scheduler.cost("pi")[0].mean < 1.0
    for node, pods in nodes.pods.items():
        nodes.pods[node] = dict.fromkeys(pods, (1.5, 0.1))
    nodes.run(3.0)
    assert nodes.scheduler.cost("pi")[0].mean >= 0.8 * 1.5, "of the rest, nodes cannot tell whether it is their own"
    assert all(node.load_cores >= 0.9 * 4.5 for node in nodes.scheduler.nodes(nodes.now))


class TestPodsThatNeitherStartNorStop:
    """What all of them demand is known, but what one costs only if pods are read; people are not told wrongly."""

    HELD = 2.0
    """GiB that a pod holds, far more than is assumed of unknown ones."""

    @pytest.fixture
    def cluster(self):
        """Three nodes whose agents began, as the scheduler did, when four pods ran on each of them."""
        scheduler = DemandScheduler(DEMAND, sees_pods=True)
        nodes = {name: NodeDemand(name, cores=16.0, gib=64.0, variant=DEMAND, since=0.0) for name in "abc"}
        for name, node in nodes.items():
            for number in range(4):
                node.pod_started(f"{name}-{number}", "db", 0.0)
                scheduler.pod_changed(f"{name}-{number}", "db", name, False, 0.0, running=True, at_start=True)
            node.skip(0.01)
        return scheduler, nodes

    def run(self, cluster, begin, end, read=""):
        """Run the cluster for some seconds; on the nodes in `read`, agents can read pods."""
        scheduler, nodes = cluster
        for now in range(begin + 1, end + 1):
            for name, node in nodes.items():
                pods = node.report(float(now)).workloads["db"].pods
                node.observe(0.5 + 0.2 * pods, 1.0 + self.HELD * pods, float(now))
                if name in read and (uids := node.pods_to_read(float(now))):
                    node.observe_pods(dict.fromkeys(uids, PodCounters(now, 0.2 * now, 0.0, self.HELD)), float(now))
                scheduler.report(node.report(float(now)), float(now))
            scheduler.tick(float(now))
        (cost,) = scheduler.costs(float(end))
        return cost

    def test_are_as_unknown_to_people_after_ten_minutes_as_at_the_beginning(self, cluster):
        cost = self.run(cluster, 0, 600)
        assert (cost.gib, cost.gib_doubt) == (DEMAND.first_gib, DEMAND.first_doubt_gib)
        assert (cost.cores, cost.cores_doubt) == (DEMAND.first_cores, DEMAND.first_doubt_cores)
        assert not cluster[0].save(600.0)["memory"], "nor is it remembered"

    @pytest.mark.parametrize("read", ["abc", "a"])
    def test_are_known_to_all_where_they_are_read_and_remembered(self, cluster, read):
        cost = self.run(cluster, 0, 100, read)
        assert (cost.cores, cost.gib) == pytest.approx((0.2, self.HELD), abs=0.05)
        assert cost.cores_doubt < 0.1
        assert cost.gib_doubt < 0.1
        saved = cluster[0].save(100.0)
        assert saved["cpu"]["db"][0] == pytest.approx(0.2, abs=0.05)
        assert saved["memory"]["db"][0] == pytest.approx(self.HELD, abs=0.1)

    def test_show_nothing_of_what_they_read_from_disks(self, cluster):
        scheduler, nodes = cluster
        for now in range(1, 400):
            for node in nodes.values():
                node.observe(1.3, 9.0, float(now), DiskUse(4 * 0.5, 100.0))
                if uids := node.pods_to_read(float(now)):
                    node.observe_pods(dict.fromkeys(uids, PodCounters(now, 0.2 * now, 0.0, self.HELD)), float(now))
                scheduler.report(node.report(float(now)), float(now))
            scheduler.tick(float(now))
        assert not scheduler.save(400.0)["reads"]

    def test_stay_as_known_as_they_were_when_one_started(self, cluster):
        scheduler, nodes = cluster
        self.run(cluster, 0, 100)
        nodes["a"].pod_started("new", "db", 100.0)
        scheduler.pod_changed("new", "db", "a", False, 100.0, running=True)
        started = self.run(cluster, 100, 110)
        assert self.HELD - started.gib < started.gib - DEMAND.first_gib
        cost = self.run(cluster, 110, 400)
        assert started.gib - 0.1 < cost.gib < self.HELD + 0.1
        assert cost.idle_s == 0
        for node in nodes.values():
            for uid in list(node.report(400.0).counted):
                node.pod_stopped(uid, 400.0)
                scheduler.pod_gone(uid, 400.0)
        assert self.run(cluster, 400, 401).idle_s < 10, "they have run until now, although nothing new was known"


def test_a_node_that_shrinks_gets_no_pod_from_its_next_report_on(report):
    scheduler = DemandScheduler(DEMAND)
    pods = {f"pod-{number}": "pi" for number in range(3)}
    scheduler.report(report("shrinks", pods, cores=8.0), 0.0)
    scheduler.report(report("other", pods, cores=4.0), 0.0)
    assert scheduler.filter("one", Kind("pi"), ["shrinks", "other"], 0.0).node == "shrinks"
    scheduler.pod_gone("one", 0.1)
    scheduler.report(report("shrinks", pods, cores=2.0), 1.0)
    (shrunk,) = (node for node in scheduler.nodes(1.0) if node.node == "shrinks")
    assert shrunk.level_cores < 2.5 < shrunk.load_cores
    assert scheduler.filter("two", Kind("pi"), ["shrinks", "other"], 1.0).node == "other"
    assert scheduler.filter("three", Kind("pi"), ["shrinks"], 1.0).node is None


def test_of_thousands_of_workloads_those_that_have_not_run_for_longest_are_forgotten_first(report, monkeypatch):
    """A node tells 64 apart. Here every 5 s 64 others run than before; the scheduler remembers a thousand."""
    monkeypatch.setattr(memory_module, "MOST_WORKLOADS", 1000)
    scheduler = DemandScheduler(DEMAND, sees_pods=True)
    most = []
    for turn in range(50):
        now, names = 5.0 * (turn + 1), [f"workload-{64 * turn + number}" for number in range(64)]
        for name in names:
            scheduler.pod_changed(f"pod-of-{name}", name, "a", False, now, running=True)
        running = {f"pod-of-{name}": name for name in names}
        scheduler.report(report("a", running, cores=64.0, known=dict.fromkeys(names, Estimate(0.1, 1e-6))), now)
        scheduler.tick(now)
        for uid in running:
            scheduler.pod_gone(uid, now)
        most.append(len(scheduler.costs(now)))
    assert max(most) <= 1000 + 64
    remembered = {int(name.rpartition("-")[2]) for name in scheduler.save(250.0)["cpu"]}
    assert len(remembered) == 1000
    assert remembered >= set(range(50 * 64 - 15 * 64, 50 * 64)), "the latest 15 turns, and a part of the one before"


def test_of_workloads_that_run_at_the_same_time_those_of_the_oldest_pods_are_forgotten_first(report, monkeypatch):
    """The order must not be that of a set, which is another one in every process."""
    monkeypatch.setattr(memory_module, "MOST_WORKLOADS", 20)
    scheduler = DemandScheduler(DEMAND, sees_pods=True)
    names = [f"workload-{number}" for number in range(60)]
    for name in names:
        scheduler.pod_changed(f"pod-of-{name}", name, "a", False, 5.0, running=True)
    running = {f"pod-of-{name}": name for name in names}
    scheduler.report(report("a", running, cores=64.0, known=dict.fromkeys(names, Estimate(0.1, 1e-6))), 5.0)
    scheduler.tick(5.0)
    assert list(scheduler.save(5.0)["cpu"]) == names[-20:]
