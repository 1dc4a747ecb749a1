"""Work takes the time that it should on simulated nodes, and CPU used is work done."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30


def exact_completion_s(tasks, cores):
    """The oracle: equal-weight processor sharing of single-threaded tasks (start, work), from event to event."""
    left = {index: work for index, (_, work) in enumerate(tasks)}
    ended, now = {}, 0.0
    while left:
        running = [index for index in left if tasks[index][0] <= now]
        arrivals = [tasks[index][0] for index in left if tasks[index][0] > now]
        rate = min(1.0, cores / len(running)) if running else 0.0
        step = min([left[index] / rate for index in running] + [arrival - now for arrival in arrivals])
        now += step
        for index in running:
            left[index] -= rate * step
            if left[index] < 1e-12:
                del left[index]
                ended[index] = now
        # A next arrival that rounding has left a hair away has come.
        now = min([arrival for arrival in arrivals if arrival - now < 1e-9], default=now)
    return [ended[index] for index in range(len(tasks))]


class TestWork:
    @pytest.mark.parametrize(("pods", "cores"), [(1, 1), (1, 4), (4, 4), (5, 4), (8, 4), (38, 4), (3, 1), (100, 16)])
    def test_equal_pods_share_the_cores(self, make_nodes, pods, cores):
        nodes = make_nodes(cores=cores)
        for pod in range(pods):
            nodes.start(pod, work=5.46)
        ended = nodes.until_all_ended()
        expected = 5.46 * max(pods / cores, 1)
        assert list(ended.values()) == pytest.approx([expected] * pods, abs=1e-9)

    def test_a_pod_alone_takes_its_work_divided_by_its_threads(self, make_nodes):
        nodes = make_nodes(nodes=3, cores=4)
        for node, threads in enumerate([0.5, 3, 8]):
            nodes.start(node, work=6, node=node, threads=threads)
        ended = nodes.until_all_ended()
        assert [ended[node] for node in range(3)] == pytest.approx([12.0, 2.0, 1.5])

    def test_a_shorter_pod_leaves_its_share_to_the_others(self, make_nodes):
        nodes = make_nodes(cores=1)
        nodes.start("short", work=1)
        nodes.start("long", work=3)
        ended = nodes.until_all_ended()
        assert ended == {"short": pytest.approx(2.0), "long": pytest.approx(4.0)}

    def test_cpu_is_shared_by_weight(self, make_nodes):
        nodes = make_nodes(cores=3)
        nodes.start("light", work=10, threads=3, weight=1)
        nodes.start("heavy", work=10, threads=3, weight=2)
        ended = nodes.until_all_ended()
        assert ended["heavy"] == pytest.approx(5.0)
        assert ended["light"] == pytest.approx(5.0 + 5.0 / 3, abs=0.1)

    def test_nodes_are_separate(self, make_nodes):
        nodes = make_nodes(nodes=2, cores=1)
        nodes.start("alone", work=2, node=0)
        nodes.start("a", work=2, node=1)
        nodes.start("b", work=2, node=1)
        assert nodes.until_all_ended() == {"alone": pytest.approx(2), "a": pytest.approx(4), "b": pytest.approx(4)}

    @given(
        st.lists(st.tuples(st.integers(0, 10), st.floats(0.2, 2.0)), min_size=1, max_size=8),
        st.sampled_from([1, 2, 4]),
    )
    def test_agrees_with_exact_processor_sharing(self, make_nodes, tasks, cores):
        tick = 0.025
        tasks = [(start / 10, work) for start, work in tasks]
        nodes = make_nodes(cores=cores, tick_s=tick)
        waiting = sorted(range(len(tasks)), key=lambda index: tasks[index][0])
        while waiting or len(nodes.ended) < len(tasks):
            while waiting and tasks[waiting[0]][0] <= nodes.fleet.now + 1e-9:
                index = waiting.pop(0)
                nodes.start(index, work=tasks[index][1])
            nodes.advance(tick)
        # Whoever ends keeps its CPU to the end of the tick: the others lose at most a tick for each.
        slack = tick * len(tasks)
        for index, expected in enumerate(exact_completion_s(tasks, cores)):
            assert expected - 1e-6 <= nodes.ended[index][0] <= expected + slack

    def test_a_stopped_container_is_gone_and_its_callback_is_not_called(self, make_nodes):
        nodes = make_nodes(cores=1)
        nodes.start("stopped", work=100)
        nodes.start("other", work=2)
        nodes.advance(2.0)
        nodes.fleet.stop(nodes.tasks.pop("stopped"))
        assert nodes.until_all_ended() == {"other": pytest.approx(3.0)}
        nodes.advance(1.0)
        assert nodes.busy_s == pytest.approx(3.0)

    def test_more_tasks_than_there_was_room_for(self, make_nodes):
        few, many = make_nodes(nodes=2, cores=2), make_nodes(nodes=2, cores=2)
        for nodes, others in ((few, 0), (many, 500)):
            nodes.start("first", work=2, memory_bytes=GIB, initial_memory_bytes=0, memory_ramp=0.5)
            for other in range(others):
                nodes.start(other, work=0.01, node=1)
            nodes.until_all_ended()
        assert many.ended["first"] == few.ended["first"]

    def test_ends_are_told_in_the_order_of_their_times(self, make_nodes):
        nodes = make_nodes(cores=8)
        for pod, work in enumerate([0.09, 0.02, 0.05, 0.02]):
            nodes.start(pod, work=work)
        nodes.advance(0.1)
        assert list(nodes.ended.items()) == [
            (1, (pytest.approx(0.02), "done")),
            (3, (pytest.approx(0.02), "done")),
            (2, (pytest.approx(0.05), "done")),
            (0, (pytest.approx(0.09), "done")),
        ]

    def test_time_does_not_run_backwards(self, make_nodes):
        nodes = make_nodes()
        nodes.start("pod", work=10)
        nodes.advance(1.0)
        before = nodes.busy_s
        nodes.fleet.advance(0.5)
        assert (nodes.fleet.now, nodes.busy_s) == (1.0, before)


class TestConservation:
    @given(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(0, 2), st.floats(0.05, 4.0), st.sampled_from([0.5, 1, 4])),
            min_size=1,
            max_size=15,
        )
    )
    def test_cpu_used_is_work_done(self, make_nodes, schedule):
        nodes = make_nodes(nodes=3, cores=2)
        works = 0.0
        for tick in range(31):
            for index, (start, node, work, threads) in enumerate(schedule):
                if start == tick:
                    works += work
                    nodes.start(index, work=work, node=node, threads=threads)
            assert nodes.busy_s <= 3 * 2 * nodes.fleet.now + 0.05
            nodes.advance(0.1)
        nodes.until_all_ended()
        # Each may have kept its CPU, at most two cores of it, to the end of its last tick.
        assert works - 0.05 <= nodes.busy_s <= works + 0.1 * sum(min(threads, 2) for *_, threads in schedule) + 0.05

    def test_all_cores_are_used_while_there_is_work(self, make_nodes):
        nodes = make_nodes(cores=4)
        for pod in range(12):
            nodes.start(pod, work=10)
        nodes.advance(20.0)
        assert nodes.busy_s == pytest.approx(80.0)

    def test_a_burst_takes_its_cpu_and_no_tick_more(self, make_nodes):
        # 0.2 - 0.1 - 0.1 is not 0 where ticks are differences of times.
        nodes, ended = make_nodes(cores=1), []
        for burst in range(200):
            nodes.advance(0.3)
            nodes.fleet.run_burst(0, 0.2, lambda at, how: ended.append((at, how)))
            nodes.advance(0.2)
            assert len(ended) == burst + 1
        assert nodes.busy_s == pytest.approx(200 * 0.2, abs=0.02)
        assert {how for _, how in ended} == {"done"}

    def test_contention_loses_work_at_full_pressure_only(self, make_nodes):
        for pods, expected in ((1, 4.0), (4, 4.0), (6, 6.0 / (1 - 0.25 * 0.5)), (8, 8.0 / (1 - 0.25))):
            nodes = make_nodes(cores=4)
            for pod in range(pods):
                nodes.start(pod, work=4.0, contention_loss=0.25)
            assert max(nodes.until_all_ended().values()) == pytest.approx(expected, abs=0.01), pods

    def test_the_larger_of_the_losses_counts(self, make_nodes):
        nodes = make_nodes(nodes=3, cores=1, contention_loss=0.2)
        for node, loss in enumerate([0.0, 0.1, 0.5]):
            for twin in "ab":
                nodes.start((node, twin), work=2, node=node, contention_loss=loss)
        ended = nodes.until_all_ended()
        assert [ended[node, "a"] for node in range(3)] == pytest.approx([4 / 0.8, 4 / 0.8, 4 / 0.5], abs=0.01)

    def test_work_wasted_by_contention_is_used_cpu_all_the_same(self, make_nodes):
        nodes = make_nodes(cores=1, contention_loss=0.5)
        for pod in range(2):
            nodes.start(pod, work=1)
        nodes.until_all_ended()
        assert nodes.busy_s == pytest.approx(4.0)


class TestNodes:
    def test_are_of_one_speed_unless_asked(self, make_nodes):
        for variation, spread in ((0, 0.0), (0.1, 0.1)):
            nodes = make_nodes(nodes=400, cores=1, node_speed_variation=variation, seed=3)
            for node in range(400):
                nodes.start(node, work=1, node=node)
            speeds = 1 / np.array(list(nodes.until_all_ended().values()))
            assert speeds.mean() == pytest.approx(1, abs=0.02)
            assert speeds.std() == pytest.approx(spread, abs=0.02)

    def test_background_load_has_the_given_mean_and_grows_with_the_pods(self, make_nodes):
        nodes = make_nodes(nodes=100, background_cores=0.2, background_cores_per_pod=0.05)
        nodes.advance(20.0)
        idle = nodes.busy_s
        assert idle / (100 * 20) == pytest.approx(0.2, rel=0.02)
        for pod in range(300):
            nodes.start(pod, work=1e6, node=pod % 100, threads=1e-6)
        nodes.advance(20.0)
        assert (nodes.busy_s - idle) / (100 * 20) == pytest.approx(0.2 + 3 * 0.05, rel=0.02)

    def test_pods_cost_their_overhead_on_a_node_without_a_load_of_its_own(self, make_nodes):
        nodes = make_nodes(background_cores=0, background_cores_per_pod=0.1)
        nodes.advance(1.0)
        assert nodes.busy_s == 0
        for pod in range(5):
            nodes.start(pod, work=1e6, threads=1e-6)
        nodes.advance(100.0)
        assert nodes.busy_s / 100 == pytest.approx(0.5, rel=0.05)

    def test_daemons_get_their_share_of_a_busy_node(self, make_nodes):
        nodes, ended = make_nodes(cores=4, system_weight=157 / 3), []
        for pod in range(50):
            nodes.start(pod, work=1000)
        for _ in range(4):
            nodes.fleet.run_burst(0, 0.5, lambda at, how: ended.append(at))
        nodes.advance(5.0)
        assert ended == pytest.approx([2.0] * 4)  # four bursts of 0.5 s on 0.25 x 4 cores

    def test_and_all_of_what_pods_leave(self, make_nodes):
        nodes, ended = make_nodes(cores=4, system_weight=0), []
        nodes.start("pod", work=1000)
        for _ in range(6):
            nodes.fleet.run_burst(0, 0.5, lambda at, how: ended.append(at))
        nodes.advance(5.0)
        assert ended == pytest.approx([1.0] * 6)

    def test_pods_get_all_that_daemons_leave(self, make_nodes):
        nodes = make_nodes(cores=4, system_weight=1e9, background_cores=0)
        for pod in range(8):
            nodes.start(pod, work=4)
        assert max(nodes.until_all_ended().values()) == pytest.approx(8.0)


class TestEndsWithinATick:
    """A task uses CPU, and waits for it, only until it ends."""

    @pytest.mark.parametrize(("processes", "pressure"), [(1, 0.0), (4, 0.0), (6, 0.25), (8, 0.5)])
    def test_a_burst_of_several_processes_uses_its_cpu_time_and_presses_as_long_as_it_lasts(
        self, make_nodes, processes, pressure
    ):
        nodes = make_nodes(burst_processes=processes)
        nodes.fleet.run_burst(0, 0.2)
        nodes.advance(1.0)
        counters = nodes.fleet.counters()
        assert nodes.fleet._counters.busy_s[0] == pytest.approx(0.2)
        # On 4 CPUs it is over after 0.05 s, half a tick.
        assert counters.cpu_pressure_us[0] == pytest.approx(2 * pressure * 0.05e6)
