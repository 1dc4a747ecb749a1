"""CPU sharing is weighted max-min fairness, pressure is the kernel's formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.nodes.cpu import share_cpu, some_pressure, throttled_pressure

cores = st.floats(0.0, 64.0) | st.sampled_from([0.0, 1.0, 4.0])
demands = st.floats(0.0, 16.0) | st.sampled_from([0.0, 1.0, 4.0])
weights = st.floats(1.0, 10_000.0) | st.sampled_from([1.0, 4.0, 20.0, 39.0])
tasks = st.lists(st.tuples(demands, weights), min_size=1, max_size=12)


def share(pairs, capacity):
    """The shares of tasks (demand, weight) of one node."""
    demand, weight = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    return share_cpu(demand, weight, np.zeros(len(pairs), dtype=np.int64), np.array([float(capacity)]))


def water_filling(pairs, capacity):
    """The oracle: raise one water level under all tasks until the cores are used up, by bisection in plain Python."""

    def filled(level):
        return [min(demand, weight * level) for demand, weight in pairs]

    if sum(demand for demand, _ in pairs) <= capacity:
        return [demand for demand, _ in pairs]
    low, high = 0.0, 16.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(filled(middle)) < capacity else (low, middle)
    return filled(low)


class TestShares:
    @pytest.mark.parametrize(
        ("pairs", "capacity", "expected"),
        [
            ([(1, 1), (1, 1)], 4, [1, 1]),
            ([(1, 1)] * 8, 4, [0.5] * 8),
            ([(4, 1), (4, 1)], 4, [2, 2]),
            ([(4, 1), (4, 3)], 4, [1, 3]),
            ([(0.5, 1), (4, 1), (4, 1)], 4, [0.5, 1.75, 1.75]),
            ([(4, 1000), (1, 1)], 4, [4 * 1000 / 1001, 4 / 1001]),
            ([(1, 1000), (4, 1), (4, 1)], 4, [1, 1.5, 1.5]),
            ([(1, 1), (0, 5)], 0.5, [0.5, 0]),
            ([(1, 1), (2, 1)], 0, [0, 0]),
        ],
    )
    def test_known_cases(self, pairs, capacity, expected):
        assert share(pairs, capacity) == pytest.approx(expected)

    @given(tasks, cores)
    def test_agrees_with_water_filling(self, pairs, capacity):
        assert share(pairs, capacity) == pytest.approx(water_filling(pairs, capacity), rel=1e-6, abs=1e-9)

    @given(tasks, cores)
    def test_no_task_gets_more_than_it_wants_and_no_cpu_is_invented(self, pairs, capacity):
        rate = share(pairs, capacity)
        assert (rate >= 0).all()
        assert (rate <= [demand for demand, _ in pairs]).all()
        assert rate.sum() <= capacity + 1e-9

    @given(tasks, cores)
    def test_no_core_idles_while_somebody_wants_it(self, pairs, capacity):
        wanted = sum(demand for demand, _ in pairs)
        assert share(pairs, capacity).sum() == pytest.approx(min(wanted, capacity))

    @given(tasks, cores)
    def test_whoever_wants_more_has_the_highest_rate_per_weight(self, pairs, capacity):
        rate = share(pairs, capacity)
        level = rate / [weight for _, weight in pairs]
        for own, got, (demand, _) in zip(level, rate, pairs, strict=True):
            if got < demand * (1 - 1e-9):
                assert own >= level.max() * (1 - 1e-9)

    @given(tasks, cores, st.randoms(use_true_random=False))
    def test_the_order_does_not_matter(self, pairs, capacity, random):
        order = random.sample(range(len(pairs)), len(pairs))
        shuffled = share([pairs[i] for i in order], capacity)
        assert shuffled == pytest.approx(share(pairs, capacity)[order])

    @given(st.lists(st.tuples(tasks, cores), min_size=1, max_size=4), st.randoms(use_true_random=False))
    def test_nodes_do_not_meddle_with_each_other(self, nodes, random):
        everyone = [(pair, node) for node, (pairs, _) in enumerate(nodes) for pair in pairs]
        random.shuffle(everyone)
        demand, weight, group = (
            np.array(column) for column in zip(*((d, w, node) for (d, w), node in everyone), strict=True)
        )
        rate = share_cpu(demand, weight, group, np.array([capacity for _, capacity in nodes]))
        for node, (_, capacity) in enumerate(nodes):
            mine = [pair for pair, of in everyone if of == node]
            assert rate[group == node] == pytest.approx(share(mine, capacity))

    @given(tasks, st.floats(0.1, 64.0), st.floats(0.01, 100.0))
    def test_only_proportions_of_weights_matter(self, pairs, capacity, factor):
        scaled = share([(demand, weight * factor) for demand, weight in pairs], capacity)
        assert scaled == pytest.approx(share(pairs, capacity), rel=1e-6, abs=1e-12)

    def test_leaves_its_arguments_alone(self):
        demand, weight = np.array([4.0, 4.0]), np.array([1.0, 1.0])
        group, capacity = np.array([0, 0]), np.array([4.0])
        share_cpu(demand, weight, group, capacity)
        assert (demand.tolist(), weight.tolist(), capacity.tolist()) == ([4, 4], [1, 1], [4])


def waiting_cpus(threads, cpus):
    """The kernel's definition, by hand: threads are spread evenly; a CPU waits for nothing unless it has two."""
    queues = [0] * cpus
    for thread in range(threads):
        queues[thread % cpus] += 1
    return sum(queue > 1 for queue in queues) / cpus


class TestPressure:
    @pytest.mark.parametrize("cpus", [1, 2, 4, 16])
    @pytest.mark.parametrize("threads", range(40))
    def test_is_the_share_of_cpus_that_somebody_waits_for(self, threads, cpus):
        assert some_pressure(np.array([float(threads)]), cpus, "kernel") == [waiting_cpus(threads, cpus)]

    def test_measured_on_a_machine_of_two_cpus(self):
        # CALIBRATION §2: 0 to 5 busy processes gave .01 .00 .01 .51 .92 1.00 (Linux 6.18).
        computed = some_pressure(np.arange(6.0), 2, "kernel")
        assert computed == pytest.approx([0.01, 0.00, 0.01, 0.51, 0.92, 1.00], abs=0.1)

    @pytest.mark.parametrize(("threads", "pressure"), [(0, 0), (4, 0), (4.5, 0.5), (5, 1), (8, 1), (100, 1)])
    def test_read_literally_one_waiting_thread_is_full_pressure(self, threads, pressure):
        assert some_pressure(np.array([threads]), 4, "at-least-one-waiting") == [pressure]

    @given(st.floats(0, 1000), st.floats(0, 1000), st.floats(1, 64))
    def test_grows_with_the_threads_within_bounds_and_the_literal_reading_is_never_lower(self, a, b, cpus):
        fewer, more = sorted((a, b))
        for reading in ("kernel", "at-least-one-waiting"):
            low, high = some_pressure(np.array([fewer, more]), cpus, reading)
            assert 0 <= low <= high <= 1
        kernel, literal = (some_pressure(np.array([a]), cpus, r)[0] for r in ("kernel", "at-least-one-waiting"))
        assert kernel <= literal


class TestPressureOfAQuota:
    @pytest.mark.parametrize(("threads", "pressure"), [(0, 0.0), (1, 0.5), (2, 0.75), (4, 1.0)])
    def test_half_a_cpu_of_two(self, threads, pressure):
        assert throttled_pressure(np.array([float(threads)]), np.array([0.5]), 2.0, "kernel") == [pressure]

    def test_measured_on_containers_of_half_a_cpu(self):
        # A node of kind with 1 and with 4 pods: 0.47 to 0.51 and 0.88 to 0.99, second by second.
        one, four = throttled_pressure(np.array([1.0, 4.0]), np.full(2, 0.5), 2.0, "kernel")
        assert one == pytest.approx(0.49, abs=0.03)
        assert four == pytest.approx(0.93, abs=0.08)

    @given(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 64), st.floats(1, 64))
    def test_grows_with_the_threads_within_bounds_and_is_never_below_that_of_the_whole_machine(self, a, b, quota, cpus):
        for reading in ("kernel", "at-least-one-waiting"):
            threads = np.array(sorted((a, b)))
            low, high = throttled_pressure(threads, np.full(2, quota), cpus, reading)
            assert 0 <= low <= high + 1e-9 <= 1 + 2e-9
            assert low >= some_pressure(threads[:1], cpus, reading)[0] - 1e-9

    @given(st.floats(0, 100), st.floats(1, 64))
    def test_a_quota_of_all_cpus_is_none(self, threads, cpus):
        whole = throttled_pressure(np.array([threads]), np.array([cpus]), cpus, "kernel")
        assert whole == pytest.approx(some_pressure(np.array([threads]), cpus, "kernel"))
