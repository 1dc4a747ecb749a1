"""The agent of the variant `demand`: what it learns of whom, when it reports, and what schedulers tell it."""

import json
import threading
from itertools import pairwise

import pytest

from carico import __version__
from carico.agent.demand_agent import DemandAgent
from carico.demand.settings import DEMAND
from carico.podevents.source import PodChange
from carico.scheduling.report import ReportReply
from carico.telemetry.counters import Counters, PodCounters
from carico.telemetry.sampler import Sampler
from carico.telemetry.source import TelemetrySource
from carico.testing import ManualClock

CPUS = 4.0
GIB = 2.0**30


class Node(TelemetrySource):
    """A node whose pods demand what they are given; a source of telemetry and of pod events."""

    period_s = 0.1

    def __init__(self):
        self.clock = ManualClock()
        self.pods, self.script, self.told = {}, {}, None
        self.busy = self.waited_us = self.before = 0.0
        self.has_disk, self.reading = False, 0.0
        self.asked = []
        """When pods were read, and which."""
        self.read_ms = self.read_work = 1.0

    def read(self):
        now = self.clock.now()
        for at in sorted(at for at in self.script if at <= now):
            self.script.pop(at)()
        threads = 0.1 + sum(cores for _, cores in self.pods.values())
        elapsed, self.before = now - self.before, now
        self.busy += min(threads, CPUS) * elapsed * 100
        self.waited_us += min(max(threads / CPUS - 1, 0.0), 1.0) * elapsed * 1e6
        held = 1.0 + 0.5 * len(self.pods)
        self.read_ms += 1000 * self.reading * elapsed
        self.read_work += 1e5 * self.reading * elapsed
        return Counters(
            now, now * CPUS * 100, now * CPUS * 100 - self.busy, self.waited_us, 8 * GIB, (8 - held) * GIB, 0, 0,
            disk_reading_ms=self.read_ms if self.has_disk else 0,
            disk_read_work=self.read_work if self.has_disk else 0,
        )  # fmt: skip

    def read_pods(self, uids):
        now = self.clock.now()
        self.asked.append((now, list(uids)))
        return {uid: PodCounters(now, self.pods[uid][1] * now, 0.0, 0.5) for uid in uids}

    def cpus(self):
        return CPUS

    def start(self, on_change):
        self.told = on_change
        for uid, (pod, _) in self.pods.items():
            on_change(PodChange(1, self.clock.now(), uid, pod))

    def add(self, uid, pod, cores):
        self.pods[uid] = pod, cores
        self.told(PodChange(1, self.clock.now(), uid, pod))

    def remove(self, uid):
        pod, _ = self.pods.pop(uid)
        self.told(PodChange(-1, self.clock.now(), uid, pod))

    def close(self):
        self.told = None


class Scheduler:
    """Takes reports, and answers with workloads."""

    def __init__(self, workloads=()):
        self.given, self.succeeded, self.workloads = [], 0, dict(workloads)

    def submit(self, value):
        self.given.append(value)
        self.succeeded += 1

    def latest(self):
        return ReportReply(self.workloads, "1.0") if self.given else None

    @property
    def while_running(self):
        """Reports: the last one takes back what was offered."""
        return self.given[:-1]


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def run(node):
    """Run an agent for so many seconds of the manual clock."""

    def start(seconds, saved=None, scheduler=None, **options):
        scheduler = scheduler or Scheduler()
        agent = DemandAgent(
            "node-a",
            Sampler(node, node.clock),
            node,
            node.clock,
            cpus=node.cpus,
            memory_bytes=8 * GIB,
            variant=DEMAND,
            reports=[scheduler],
            unix_time=lambda: 1e9 + node.clock.now(),
            **options,
        )
        if saved is not None:
            agent.restore(json.loads(json.dumps(saved)))
        stop = threading.Event()
        node.script[node.clock.now() + seconds] = stop.set
        agent.run(stop)
        return agent, scheduler

    return start


def test_it_reports_once_a_second_while_nothing_happens(run):
    agent, scheduler = run(10)
    assert 10 <= len(scheduler.while_running) <= 11
    assert {report.version for report in scheduler.given} == {__version__}
    assert [report.sequence for report in scheduler.given] == list(range(1, len(scheduler.given) + 1))
    last = scheduler.while_running[-1]
    assert (last.demand.node, last.demand.cores, last.demand.gib) == ("node-a", CPUS, 8.0)
    assert last.demand.demand_cores.mean == pytest.approx(0.1, abs=0.02)
    assert last.demand.held_gib == pytest.approx(1.0)
    assert last.pod_capacity == pytest.approx(4.15, abs=0.1), "for older schedulers: pods of a core each"
    assert agent.telemetry.cpu_utilisation == pytest.approx(0.025)


def test_a_pod_is_reported_at_once_and_its_cost_is_learned(run, node):
    node.script = {5.05: lambda: node.add("uid-1", "default/pi-x2k4p", 1.5), 15.25: lambda: node.remove("uid-1")}
    agent, scheduler = run(20)
    first = next(report for report in scheduler.given if report.pods)
    assert first.at_unix_s - 1e9 == pytest.approx(5.1, abs=0.1)
    assert first.demand.counted == {"uid-1": "default/pi"}
    gone = next(report for report in scheduler.given if report.at_unix_s > first.at_unix_s and not report.pods)
    assert gone.at_unix_s - 1e9 == pytest.approx(15.3, abs=0.1)
    assert gone.demand.workloads["default/pi"].cores.mean == pytest.approx(1.5, abs=0.2)
    assert agent.pod_events == 2


def test_a_demand_that_changes_is_reported_before_the_second_is_over(run, node):
    def rise():
        node.pods["uid-1"] = ("default/pi-x2k4p", 3.0)

    node.pods = {"uid-1": ("default/pi-x2k4p", 0.5)}
    node.script = {10.1: rise}
    _, scheduler = run(15)
    times = [report.at_unix_s - 1e9 for report in scheduler.while_running]
    assert any(later - earlier < 0.9 for earlier, later in pairwise(times) if earlier > 10)


def test_schedulers_tell_the_workloads_of_pods(run, node):
    scheduler = Scheduler({"uid-1": "default/pi-12345678", "uid-2": "default/pi-12345678"})
    node.pods = {"uid-1": ("default/pi-x2k4p", 1.0)}
    node.script = {5.05: lambda: node.add("uid-2", "default/pi-b7xq2", 1.0)}
    run(10, scheduler=scheduler)
    assert scheduler.given[0].demand.counted == {"uid-1": "default/pi"}, "nobody had told it yet"
    two = next(report for report in scheduler.given if report.pods == 2)
    assert set(two.demand.counted.values()) == {"default/pi-12345678"}
    assert scheduler.while_running[-1].demand.workloads["default/pi-12345678"].pods == 2


def test_what_pods_demand_that_ran_before_is_learned_by_reading_them(run, node):
    node.pods = {"uid-1": ("default/web-x2k4p", 0.3)}
    _, scheduler = run(20, read_pods=node.read_pods)
    web = scheduler.while_running[-1].demand.workloads["default/web"]
    assert web.measured
    assert web.cores.mean == pytest.approx(0.3, abs=0.05)
    assert web.gib.mean == pytest.approx(0.5, abs=0.05)
    assert all(uids == ["uid-1"] for _, uids in node.asked)
    assert node.asked[-1][0] - node.asked[-2][0] == pytest.approx(5.0, abs=0.6)


def test_pods_that_ran_before_are_no_news(run, node):
    node.pods = {"uid-1": ("default/pi-x2k4p", 1.0)}
    agent, scheduler = run(3)
    assert scheduler.given[0].pods == 1
    assert agent.pod_events == 0


def test_when_it_ends_it_takes_back_what_it_offered(run, node):
    _, scheduler = run(5)
    *_, before, last = scheduler.given
    assert before.pod_capacity > 0
    assert (last.pod_capacity, last.demand, last.sequence) == (0, None, before.sequence + 1)
    assert node.told is None, "nobody listens to pods any more"


def test_what_it_has_learned_survives_a_restart(run, node):
    node.script = {5.0: lambda: node.add("uid-1", "default/pi-x2k4p", 1.5)}
    checkpoints = Scheduler()
    run(25, checkpoints=checkpoints)
    assert len(checkpoints.given) == 2 + 1, "every ten seconds and at the end"
    _, scheduler = run(2, saved=checkpoints.given[-1])
    cost = scheduler.given[0].demand.workloads["default/pi"].cores
    assert cost.mean == pytest.approx(1.5, abs=0.2)
    assert cost.variance < 0.1


@pytest.mark.parametrize("saved_at", [None, "yesterday", True, 0.0])
def test_a_state_of_unknown_age_is_doubted(run, node, saved_at):
    node.script = {5.0: lambda: node.add("uid-1", "default/pi-x2k4p", 1.5)}
    agent, _ = run(25)
    _, scheduler = run(1, saved={**agent.state(), "at_unix_s": saved_at})
    assert scheduler.given[0].demand.workloads["default/pi"].cores.variance == pytest.approx(1.0, abs=0.01)


def test_it_shows_what_it_has_found(run, node):
    node.pods = {"uid-1": ("default/pi-x2k4p", 1.0)}
    agent, _ = run(20)
    shown = {name: value for name, (_, value) in agent.gauges().items()}
    assert shown["demand_cores"] == pytest.approx(1.1, abs=0.1)
    assert shown["held_gib"] == pytest.approx(1.5)
    assert shown["pods"] == 1
    assert (agent.healthy(), agent.ready()) == ("", "")


def test_after_the_machine_was_stopped_the_gap_teaches_nothing(run, node):
    node.pods = {"uid-1": ("default/pi-x2k4p", 1.0)}
    node.script = {10.0: lambda: node.clock.advance(30.0)}
    agent, _ = run(45)
    assert agent.latest.workloads["default/pi"].cores.mean == pytest.approx(1.0, abs=0.3)


def test_it_reports_what_pods_read_if_it_sees_the_disks(run, node):
    def add():
        node.add("uid-1", "default/pi-x2k4p", 0.1)
        node.reading = 0.8

    node.has_disk, node.script = True, {5.0: add}
    agent, scheduler = run(20)
    report = scheduler.given[-2].demand
    assert report.workloads["default/pi"].reads.mean == pytest.approx(0.8, abs=0.1)
    assert report.disk.reads == pytest.approx(0.8, abs=0.1)
    shown = {name: value for name, (_, value) in agent.gauges().items()}
    assert (shown["disk_reads"], shown["disk_reads_level"]) == (agent.latest.disk.reads, 2.0)


def test_it_says_nothing_of_disks_that_it_does_not_see(run):
    agent, _ = run(3)
    assert agent.latest.disk is None
    assert not any(name.startswith("disk") for name in agent.gauges())
