"""kube-scheduler's queues: when pods are tried. The plugin does what the test says."""

from itertools import pairwise

import pytest
import simpy

from testbed.simulation.control_plane.api import ApiServer
from testbed.simulation.control_plane.framework import SchedulingFramework
from testbed.simulation.parameters import SimulationParameters

FAST = {"scheduling_attempts_per_s": 1000.0, "bindings_per_s": 1e6, "bindings_burst": 1_000_000, "bind_latency_s": 0.0}


class Plugin:
    """Has as much room as the test gives it, on one node."""

    is_extender = True

    def __init__(self, room):
        self.room = room
        self.calls = []

    def held(self, pod):
        return None

    def select(self, pod):
        self.calls.append(("select", pod.name))
        return 0 if self.room > 0 else None

    def reserve(self, pod, node):
        self.room -= 1
        self.calls.append(("reserve", pod.name))

    def pod_created(self, pod):
        pass

    def pod_bound(self, pod):
        self.calls.append(("bound", pod.name))

    def pod_running(self, pod):
        self.calls.append(("running", pod.name))

    def pod_finished(self, pod):
        self.calls.append(("finished", pod.name))


class Scheduler:
    """The framework around that plugin, and when it tried and bound which pod."""

    def __init__(self, make_pod, room=0, **parameters):
        self.env = simpy.Environment()
        self.api = ApiServer(self.env)
        self.plugin = Plugin(room)
        self.parameters = SimulationParameters(**FAST | parameters)
        SchedulingFramework(self.env, self.api, self.parameters, self.plugin)
        self.tried, self.bound = [], []
        self.api.watch(bound=lambda pod: self.bound.append((round(self.env.now, 6), pod.name)))
        select = self.plugin.select
        self.plugin.select = lambda pod: (self.tried.append((round(self.env.now, 6), pod.name)), select(pod))[1]
        self.make_pod = make_pod

    def create(self, *names, **job):
        pods = [self.make_pod(name, **job) for name in names]
        for pod in pods:
            self.api.create(pod)
        return pods

    def event(self):
        """Some other pod is over: room may have appeared."""
        self.api.show_finished(self.make_pod("other"))

    def events_every(self, seconds):
        while True:
            yield self.env.timeout(seconds)
            self.event()


@pytest.fixture
def scheduler(make_pod):
    def make(**arguments):
        return Scheduler(make_pod, **arguments)

    return make


class TestActiveQueue:
    def test_one_pod_at_a_time_in_the_order_of_creation(self, scheduler):
        run = scheduler(room=10, scheduling_attempts_per_s=10)
        run.create("c", "a", "b")
        run.env.run(5)
        assert run.tried == [(0.1, "c"), (0.2, "a"), (0.3, "b")]
        assert run.bound == run.tried

    def test_the_highest_priority_comes_first_and_within_it_the_oldest_pod(self, scheduler):
        run = scheduler(room=10, scheduling_attempts_per_s=10)
        run.create("low-a", "low-b", priority=-1)
        run.create("a", "b")
        run.create("high-a", "high-b", priority=100)
        run.env.run(5)
        assert [name for _, name in run.tried] == ["high-a", "high-b", "a", "b", "low-a", "low-b"]

    def test_no_pod_is_evicted_for_a_higher_priority(self, scheduler):
        run = scheduler(room=1)
        (low,) = run.create("low")
        run.env.run(1)
        run.create("high", priority=100)
        run.env.run(5)
        assert [name for _, name in run.bound] == ["low"]
        assert not low.deleted

    def test_reserves_before_it_binds_and_before_the_next_attempt(self, scheduler):
        run = scheduler(room=10)
        run.create("a", "b")
        run.env.run(1)
        assert [call for call in run.plugin.calls if call[0] != "bound"] == [
            ("select", "a"),
            ("reserve", "a"),
            ("select", "b"),
            ("reserve", "b"),
        ]

    def test_the_plugin_hears_of_the_binding(self, scheduler):
        run = scheduler(room=1)
        run.create("a")
        run.env.run(1)
        assert run.plugin.calls == [("select", "a"), ("reserve", "a"), ("bound", "a")]

    def test_waits_for_work_and_finds_it(self, scheduler):
        run = scheduler(room=10, scheduling_attempts_per_s=10)
        run.env.run(7)
        run.create("a")
        run.env.run(8)
        run.create("b")
        run.env.run(9)
        assert run.bound == [(7.1, "a"), (8.1, "b")]

    def test_binding_keeps_to_its_clients_rate_and_does_not_hold_up_attempts(self, scheduler):
        run = scheduler(room=1000, bindings_per_s=10, bindings_burst=5, scheduling_attempts_per_s=100)
        run.create(*(f"pod-{i}" for i in range(10)))
        run.env.run(10)
        assert [at for at, _ in run.tried] == pytest.approx([0.01 * i for i in range(1, 11)])
        assert [at for at, _ in run.bound[:5]] == pytest.approx([0.01 * i for i in range(1, 6)])
        gaps = [after - before for (before, _), (after, _) in pairwise(run.bound[5:])]
        assert gaps == pytest.approx([0.1] * 4)
        assert [name for _, name in run.bound] == [name for _, name in run.tried]

    def test_a_binding_takes_its_time_and_does_not_hold_up_attempts(self, scheduler):
        run = scheduler(room=10, scheduling_attempts_per_s=10, bind_latency_s=0.25)
        run.create("a", "b")
        run.env.run(1)
        assert run.tried == [(0.1, "a"), (0.2, "b")]
        assert run.bound == [(0.35, "a"), (0.45, "b")]

    def test_a_deleted_pod_is_passed_over(self, scheduler):
        run = scheduler(room=10)
        first, *_ = run.create("a", "b")
        first.deleted = True
        run.env.run(1)
        assert [name for _, name in run.tried] == ["b"]

    def test_the_plugin_hears_what_became_of_pods(self, scheduler, make_pod):
        run = scheduler()
        run.api.show_running(make_pod("a"))
        run.api.show_finished(make_pod("b"))
        assert run.plugin.calls == [("running", "a"), ("finished", "b")]


class TestRefused:
    def test_without_an_event_a_pod_waits(self, scheduler):
        run = scheduler()
        run.create("a")
        run.env.run(299)
        assert len(run.tried) == 1

    def test_after_five_minutes_it_is_tried_all_the_same(self, scheduler):
        run = scheduler()
        run.create("a")
        run.env.run(700)
        # Looked for every 30 s; more than 300 s must have passed since.
        assert [at for at, _ in run.tried] == [pytest.approx(at, abs=0.01) for at in (0, 330, 660)]

    def test_an_event_after_the_back_off_leads_to_an_attempt_at_once(self, scheduler):
        run = scheduler()
        run.create("a")
        run.env.run(5.5)
        run.event()
        run.env.run(6)
        assert [at for at, _ in run.tried] == [0.001, 5.501]

    def test_a_node_that_changed_is_an_event(self, scheduler):
        run = scheduler()
        run.create("a")
        run.env.run(5.5)
        run.api.change_node(0)
        run.env.run(6)
        assert [at for at, _ in run.tried] == [0.001, 5.501]

    def test_an_event_during_the_back_off_leads_to_an_attempt_when_that_is_over(self, scheduler):
        run = scheduler()
        run.create("a")
        run.env.run(0.5)
        run.event()
        run.env.run(10)
        # Over at 1.001, noticed at the next of the flushes that come once a second.
        assert [at for at, _ in run.tried] == [0.001, 2.001]

    def test_from_1_33_on_an_event_during_the_back_off_leads_to_an_attempt_at_once(self, scheduler):
        run = scheduler(pop_from_backoff=True)
        run.create("a")
        run.env.run(0.5)
        run.event()
        run.env.run(10)
        assert [at for at, _ in run.tried] == [0.001, 0.501]

    @pytest.mark.parametrize(("hints", "extender"), [(True, True), (True, False), (False, True)])
    def test_from_1_32_on_any_pod_that_runs_gives_pods_that_an_extender_refused_another_attempt(
        self, scheduler, monkeypatch, hints, extender
    ):
        monkeypatch.setattr(Plugin, "is_extender", extender)
        run = scheduler(queueing_hints=hints)
        run.create("a")
        run.env.run(3)
        run.api.show_running(run.make_pod("other"))
        run.env.run(5)
        assert [at for at, _ in run.tried] == [0.001, *([3.001] if hints and extender else [])]

    def test_from_1_33_on_pods_that_back_off_come_after_the_others_in_the_order_in_which_it_ends(self, scheduler):
        run = scheduler(pop_from_backoff=True)
        run.create("early")
        run.env.run(0.2)
        run.create("late")
        run.env.run(0.4)
        run.create("new")
        run.event()
        run.env.run(10)
        assert [name for _, name in run.tried] == ["early", "late", "new", "early", "late"]

    def test_back_off_doubles_up_to_ten_seconds(self, scheduler):
        run = scheduler()
        run.env.process(run.events_every(0.01))
        run.create("a")
        run.env.run(80)
        tried = [at for at, _ in run.tried]
        gaps = [after - before for before, after in pairwise(tried)]
        assert len(gaps) >= 8
        for gap, back_off in zip(gaps, [1, 2, 4, 8, 10, 10, 10, 10], strict=False):
            assert back_off <= gap <= back_off + 1 + 0.01, gaps

    def test_a_pod_that_was_refused_goes_before_those_that_came_after_its_refusal(self, scheduler):
        """PrioritySort goes by the time stamp of creation or refusal: waiting does not send a pod to the back."""
        run = scheduler(scheduling_attempts_per_s=1)
        run.create("old")
        run.env.run(3)
        assert run.tried == [(1.0, "old")]
        run.create(*(f"new-{i}" for i in range(4)))
        run.create("urgent", priority=1)
        run.plugin.room = 10
        run.event()
        run.env.run(20)
        # One of the new ones was under way already when the event came.
        assert [name for _, name in run.tried[1:]] in (
            ["urgent", "old", "new-0", "new-1", "new-2", "new-3"],
            ["new-0", "urgent", "old", "new-1", "new-2", "new-3"],
        )

    def test_back_off_is_the_parameters(self, scheduler):
        run = scheduler(backoff_initial_s=3.0, backoff_max_s=5.0, carico_backoff_max_s=5.0)
        run.env.process(run.events_every(0.01))
        run.create("a")
        run.env.run(25)
        tried = [at for at, _ in run.tried]
        gaps = [after - before for before, after in pairwise(tried)]
        for gap, back_off in zip(gaps, [3, 5, 5], strict=False):
            assert back_off <= gap <= back_off + 1.01

    def test_a_thousand_refusals_overflow_nothing(self, scheduler):
        run = scheduler(backoff_initial_s=0.001, backoff_max_s=0.01)
        run.env.process(run.events_every(0.5))
        run.create("a")
        run.env.run(1200)
        assert len(run.tried) > 1100

    def test_an_event_during_the_attempt_is_not_missed(self, scheduler):
        run = scheduler(scheduling_attempts_per_s=1)
        run.create("a")
        run.env.run(0.5)
        run.event()  # the attempt is under way and ends at 1.0
        run.env.run(5)
        # It goes to the back-off queue: another event is not needed.
        assert [at for at, _ in run.tried] == [1.0, 3.0]

    def test_an_event_before_the_attempt_does_not_count(self, scheduler):
        run = scheduler()
        run.event()
        run.create("a")
        run.env.run(100)
        assert len(run.tried) == 1

    def test_all_waiting_pods_are_moved_in_the_order_of_refusal(self, scheduler):
        run = scheduler(room=0)
        run.create("c", "a", "b")
        run.env.run(3)
        run.plugin.room = 2
        run.event()
        run.env.run(4)
        assert [name for _, name in run.tried] == ["c", "a", "b"] * 2
        assert [name for _, name in run.bound] == ["c", "a"]

    def test_pods_leave_the_back_off_queue_in_the_order_in_which_it_ends(self, scheduler):
        run = scheduler()
        run.create("tried-before")
        run.env.run(2)
        run.event()  # refused again at 2.001: backs off until 4.001
        run.env.run(2.5)
        run.create("new")  # refused at 2.501: backs off until 3.501
        run.env.run(2.9)
        run.event()
        run.env.run(10)
        assert [name for _, name in run.tried][-2:] == ["new", "tried-before"]

    def test_a_pod_that_was_deleted_meanwhile_is_not_tried_again(self, scheduler):
        run = scheduler()
        (pod,) = run.create("a")
        run.env.run(2)
        pod.deleted = True
        run.event()
        run.env.run(400)
        assert len(run.tried) == 1

    def test_a_bound_pod_is_never_tried_again(self, scheduler):
        run = scheduler(room=1)
        run.env.process(run.events_every(0.1))
        run.create("a")
        run.env.run(400)
        assert len(run.tried) == len(run.bound) == 1
