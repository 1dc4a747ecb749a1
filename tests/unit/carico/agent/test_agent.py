"""The agent: what it samples, counts, reports and exchanges, and what it survives."""

import threading

import numpy as np
import pytest

from carico import __version__
from carico.agent.agent import Agent
from carico.errors import PodEventsError, TelemetryFileMissing
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT
from carico.podevents.source import PodChange
from carico.scheduling.report import MOST_PODS_NAMED
from carico.telemetry.counters import Counters
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.sampler import Sampler
from carico.telemetry.source import TelemetrySource
from carico.testing import FakeProc, ManualClock


class Node(TelemetrySource):
    """A node whose load is set, as counters; a source of telemetry and of pod events."""

    period_s = 0.1

    def __init__(self, clock, running=0):
        self.clock, self.cpu, self.busy = clock, 0.1, 0.0
        self.running, self.told = running, None
        self.before = clock.now()
        self.script = {}
        self.fails_at = np.inf

    def read(self):
        now = self.clock.now()
        if now >= self.fails_at:
            raise TelemetryFileMissing("/proc/stat was removed")
        for at in sorted(at for at in self.script if at <= now):
            self.script.pop(at)()
        self.busy += self.cpu * (now - self.before) * 400
        self.before = now
        return Counters(now, now * 400, now * 400 - self.busy, 0.0, 1e9, 8e8, 0.0, 0.0)

    def start(self, on_change):
        self.told = on_change
        for number in range(self.running):
            on_change(PodChange(1, self.clock.now(), f"uid-{number}"))

    def change(self, change, uid="any"):
        self.running += change
        self.tell(change, uid)

    def tell(self, change, uid="any"):
        self.told(PodChange(change, self.clock.now(), uid))

    def close(self):
        self.told = None


class Mailbox:
    """Remembers what it is given, and answers at once, or never."""

    def __init__(self, answer=None, works=True):
        self.given, self.succeeded, self.answer, self.works = [], 0, answer, works

    def submit(self, value):
        self.given.append(value)
        self.succeeded += self.works

    def latest(self):
        return self.answer

    @property
    def while_running(self):
        """Reports: the last one takes back what was offered."""
        return self.given[:-1]


@pytest.fixture
def node():
    return Node(ManualClock())


@pytest.fixture
def run(node):
    """Run an agent for so many seconds of the manual clock."""

    def start(seconds, saved=None, **options):
        options = {"reports": [Mailbox()]} | options
        agent = Agent(
            "node-a", Sampler(node, node.clock), node, node.clock, unix_time=lambda: 1e9 + node.clock.now(), **options
        )
        if saved is not None:
            agent.model.restore(saved, node.clock.now())
        stop = threading.Event()
        node.script[node.clock.now() + seconds] = stop.set
        agent.run(stop)
        return agent, options

    return start


def test_it_reports_every_second_to_every_scheduler(run):
    first, second = Mailbox(), Mailbox(works=False)
    agent, _ = run(10, reports=[first, second])
    assert 9 <= len(first.while_running) <= 11
    assert first.given == second.given
    assert {report.version for report in first.given} == {__version__}
    assert [report.sequence for report in first.given] == list(range(1, len(first.given) + 1))
    assert np.diff([report.at_unix_s for report in first.while_running]) == pytest.approx(1.0)
    assert first.while_running[-1].pod_capacity == pytest.approx(2.0, abs=0.1), "a node that knows nothing"
    assert 98 <= agent.samples <= 101


def test_when_it_ends_it_takes_back_what_it_offered(run, node):
    node.running = 3
    _, options = run(10)
    *_, before, last = options["reports"][0].given
    assert before.pod_capacity > 0
    assert (last.pod_capacity, last.pods, last.sequence) == (0, 3, before.sequence + 1)


def test_a_busy_node_that_misses_the_very_deadline_of_a_step_makes_it_at_the_next(run, node):
    node.script = {second - 0.1: lambda: node.clock.advance(0.15) for second in range(1, 10)}
    agent, options = run(10)
    assert agent.sampler.missed == 9
    assert np.diff([report.at_unix_s for report in options["reports"][0].while_running]) == pytest.approx(1.0, abs=0.11)
    assert len(options["reports"][0].while_running) >= 9


def test_pods_that_come_and_go_are_counted_and_learned_from(run, node):
    def load(pods):
        while node.running != pods:
            node.change(1 if pods > node.running else -1)
        node.cpu = min(0.1 + 0.2 * pods, 1.0)

    node.script = {20.0: lambda: load(1), 30.0: lambda: load(2), 40.0: lambda: load(3), 50.0: lambda: load(0)}
    agent, options = run(60)
    pods = [report.pods for report in options["reports"][0].while_running]
    assert {0, 1, 2, 3} <= set(pods)
    assert pods[-1] == 0
    assert agent.pod_events == 6
    assert float(agent.report.pod_cost / agent.report.baseline) < 0.45, "it began at a half"


def test_the_telemetry_shown_is_that_of_the_last_second_as_a_whole(run, node):
    def load(cpu):
        node.cpu = cpu

    node.script = {20.0: lambda: load(0.2), 20.5: lambda: load(0.6)}
    agent, _ = run(21.05)
    assert agent.telemetry.cpu_utilisation == pytest.approx(0.4, abs=0.05)
    assert agent.telemetry.memory_utilisation == pytest.approx(0.2)
    assert agent.telemetry.at_s == pytest.approx(21.0)


def test_pods_that_ran_before_are_no_news(run, node):
    node.running = 3
    agent, options = run(5)
    assert options["reports"][0].given[0].pods == 3
    assert agent.pod_events == 0


def test_every_report_says_which_pods_it_counts(run, node):
    node.running = 1
    node.script = {2.05: lambda: node.change(+1, "new"), 4.05: lambda: node.change(-1, "uid-0")}
    _, options = run(6)
    counted = [report.counted for report in options["reports"][0].given]
    assert list(dict.fromkeys(counted)) == [{"uid-0"}, {"uid-0", "new"}, {"new"}]


def test_more_pods_than_a_message_names_are_not_named(run, node):
    node.running = MOST_PODS_NAMED
    node.script = {2.05: lambda: node.change(+1, "new")}
    _, options = run(4)
    reports = options["reports"][0].given
    assert [reports[0].counted is None, reports[-1].counted] == [False, None]
    assert reports[-1].pods == MOST_PODS_NAMED + 1


def test_what_stands_for_pods_is_not_named(run, node):
    """Schedulers know no such UIDs, and would take their pods for those that the agent should count, but does not."""
    node.running = 2
    _, options = run(3, knows_uids=False)
    assert {(report.pods, report.counted) for report in options["reports"][0].given} == {(2, None)}


def test_events_that_contradict_the_count_come_right_with_what_the_source_tells_next(run, node):
    node.running = 1

    def miss():
        for change in (-1, -1, -1):  # two starts were missed
            node.tell(change)

    def list_anew():
        for change in (+1, +1, +1):
            node.tell(change)

    node.script = {3.05: miss, 5.05: list_anew}
    agent, options = run(8)
    assert agent.miscounts == 2
    assert [report.pods for report in options["reports"][0].while_running] == [1, 1, 1, 1, 0, 0, 1, 1, 1]


class TestAggregator:
    VIEW = Subspace.from_batch([[0.9, 0.8], [0.3, 0.3]])

    def test_what_it_answers_is_adopted(self, run):
        aggregator = Mailbox(self.VIEW)
        agent, _ = run(10, aggregator=aggregator)
        assert aggregator.given
        assert all(isinstance(one, Subspace) for one in aggregator.given)
        assert agent.model.save()["has_global"].all()
        assert len(aggregator.given) < 10, "only when its own view is outdated"

    def test_while_nobody_answers_it_goes_on_and_asks_again(self, run):
        aggregator = Mailbox(works=False)
        agent, options = run(10, aggregator=aggregator)
        assert len(aggregator.given) >= 9
        assert not agent.model.save()["has_global"].any()
        assert options["reports"][0].while_running[-1].pod_capacity == pytest.approx(2.0, abs=0.1)


class TestCheckpoints:
    def test_are_made_every_ten_seconds_and_at_the_end(self, run):
        checkpoints = Mailbox()
        run(35, checkpoints=checkpoints)
        assert len(checkpoints.given) == 3 + 1

    def test_a_restart_on_a_busy_node_keeps_its_estimates(self, run, node):
        checkpoints = Mailbox()
        before, _ = run(30, checkpoints=checkpoints)
        node.running = 5
        after, options = run(3, saved=checkpoints.given[-1])
        assert options["reports"][0].given[0].pods == 5
        assert float(after.report.baseline) == pytest.approx(float(before.report.baseline), rel=0.05)


class TestStatus:
    def test_is_healthy_while_it_samples_and_ready_once_it_was_heard(self, run, node):
        agent, _ = run(3)
        assert (agent.healthy(), agent.ready()) == ("", "")
        node.clock.sleep_until(node.clock.now() + 60)
        assert agent.healthy() == "no telemetry for 60 s, wanted ten samples a second"

    def test_is_healthy_while_there_is_nothing_new(self, run, node):
        read, old = node.read, Counters(0.0, 400.0, 300.0, 0.0, 1e9, 8e8, 0.0, 0.0)
        node.read = lambda: read() and old  # as the metrics server's for 15 s
        agent, _ = run(10)
        assert (agent.healthy(), agent.samples) == ("", 0)

    def test_is_not_ready_before(self, run):
        agent, _ = run(3, reports=[Mailbox(works=False)])
        assert agent.ready() == "no scheduler has taken a report yet"
        agent, _ = run(3, reports=[])
        assert agent.ready() == "there is no scheduler to report to"


def test_a_missed_deadline_leaves_no_second_without_the_pressure_of_memory(tmp_path):
    clock, machine = ManualClock(), FakeProc(tmp_path)
    clock.on_advance = machine.elapse
    machine.memory_pressure, machine.io_pressure, machine.cpu_utilisation = 0.5, 0.25, 0.5
    pressures = []

    class Late(Mailbox):
        """The first step takes so long that a deadline is missed; the sixth ends the agent."""

        def submit(self, value):
            super().submit(value)
            if agent.telemetry is not None and len(self.given) <= 6:
                pressures.append((agent.telemetry.memory_pressure, agent.telemetry.io_pressure))
            if len(self.given) == 1:
                clock.advance(0.15)
            if len(self.given) == 6:
                stop.set()

    with ProcfsSource(machine.root, clock) as source:
        stop = threading.Event()
        agent = Agent("node-a", Sampler(source, clock), Node(clock), clock, reports=[Late()])
        agent.run(stop)
    assert agent.sampler.missed == 1
    np.testing.assert_allclose(pressures, [(0.5, 0.25)] * 5)


def test_telemetry_that_is_gone_ends_it_with_what_was_learned_saved(run, node):
    node.fails_at = 12.0
    checkpoints, reports = Mailbox(), Mailbox()
    with pytest.raises(TelemetryFileMissing):
        run(30, checkpoints=checkpoints, reports=[reports])
    assert len(checkpoints.given) == 2
    assert reports.given[-1].pod_capacity == 0
    assert node.told is None, "nobody listens to pods any more"


def test_without_a_listing_of_pods_it_does_not_start(run, node):
    def fail(_):
        raise PodEventsError("no such socket")

    node.start = fail
    with pytest.raises(PodEventsError):
        run(3)


def test_it_steps_as_often_as_its_variant_says(run):
    agent, _ = run(10)
    assert agent.steps == pytest.approx(100 / DEFAULT_VARIANT.batch_size, abs=1)
