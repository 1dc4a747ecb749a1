"""kube-scheduler's default decision: scores as Go computes them, nodes looked at as kube-scheduler does."""

from collections import Counter

import numpy as np
import pytest

from testbed.simulation.control_plane.api import Pod
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.schedulers.kube_scheduler import KubeScheduler
from workloads.scenario import ClusterShape, JobSpec

MIB = 2**20


def pod(millicpu=0, memory_mib=0, name="pod", **job):
    spec = JobSpec(name="job", workload="pi", pods=1, **job)
    return Pod(
        uid=name, name=name, job=spec, work=1, created_s=0, millicpu=millicpu, memory_bytes=round(memory_mib * MIB)
    )


def scheduler(nodes=1, seed=0, cores=4, memory="8Gi", **parameters):
    """Nodes of 4 cores and 8 GiB, of which the platform's pods request 200m and 200 MiB."""
    shape = ClusterShape(nodes=nodes, cores=cores, memory=memory)
    return KubeScheduler(shape, SimulationParameters(**parameters), np.random.default_rng(seed))


def score(of, a_pod, node=0):
    return of._score(a_pod, np.array([node])).item()


class TestScore:
    """LeastAllocated is ((cap - cpu) * 100 / cap + (cap - mem) * 100 / cap) / 2 in integers, BalancedAllocation
    int((1 - |cpu share - mem share| / 2) * 100)."""

    @pytest.mark.parametrize(
        ("millicpu", "memory_mib", "least_allocated", "balanced"),
        [
            # (4000 - 300) * 100 / 4000 = 92, (8192 - 400) * 100 / 8192 = 95; 187 / 2. Balanced: 0.075, 0.0244.
            (100, 0, 93, 97),
            # 82, 95; 177 / 2 = 88. Balanced: 0.175 and 0.0244.
            (500, 0, 88, 92),
            # 92, (8192 - 950) * 100 / 8192 = 88; 180 / 2. Balanced: 0.05 and 0.1160.
            (0, 750, 90, 96),
            # 90, 88; 178 / 2. Balanced: 0.1 and 0.1160.
            (200, 750, 89, 99),
            # The node is full: 0, 0. Balanced: 1 and 1.
            (3800, 7992, 0, 100),
            # 0, 95. Balanced: 1 and 0.0244.
            (3800, 0, 47, 51),
        ],
    )
    def test_of_an_empty_node(self, millicpu, memory_mib, least_allocated, balanced):
        assert score(scheduler(), pod(millicpu, memory_mib)) == least_allocated + balanced

    def test_a_best_effort_pod_is_scored_as_if_it_asked_for_a_little_and_not_balanced(self):
        # 100m and 200 MiB assumed: 92 and 95. BalancedAllocation skips it (kubernetes#129138).
        assert score(scheduler(), pod()) == 93

    def test_assumed_requests_count_for_one_score_and_not_for_the_other(self):
        one = scheduler()
        for _ in range(10):
            one.reserve(pod(millicpu=100), 0)
        # LeastAllocated sees 1300m and 200 + 11 * 200 MiB: 67, 70; BalancedAllocation 1300m and 200 MiB: 0.325, 0.0244.
        assert score(one, pod(millicpu=100)) == 68 + 84
        # A best-effort pod makes LeastAllocated see the same again.
        assert score(one, pod()) == 68

    def test_more_than_there_is_counts_as_full(self):
        one = scheduler()
        for _ in range(60):
            one.reserve(pod(), 0)  # 60 * 100m assumed
        assert score(one, pod()) == 0
        assert score(scheduler(memory="1Gi", platform_memory_mib=0), pod(memory_mib=2048)) == (92 + 0) // 2 + 52

    def test_a_pod_that_has_ended_no_longer_counts(self):
        one, gone = scheduler(), pod(millicpu=500, memory_mib=100)
        before = score(one, pod(millicpu=100))
        one.reserve(gone, 0)
        gone.node = 0
        assert score(one, pod(millicpu=100)) < before
        one.pod_running(gone)
        assert score(one, pod(millicpu=100)) < before, "running or not, requests count the same"
        one.pod_finished(gone)
        assert score(one, pod(millicpu=100)) == before

    def test_a_pod_that_ended_without_a_node_changes_nothing(self):
        one = scheduler()
        before = score(one, pod(millicpu=100))
        one.pod_finished(pod(millicpu=500))
        assert score(one, pod(millicpu=100)) == before


class TestSelect:
    def test_spreads_equal_pods_evenly(self):
        one = scheduler(nodes=7)
        placed = []
        for _ in range(7 * 5):
            placed.append(one.select(pod(millicpu=100)))
            one.reserve(pod(millicpu=100), placed[-1])
        assert set(Counter(placed).values()) == {5}

    def test_takes_the_balanced_one_of_equally_allocated_nodes(self):
        one = scheduler(nodes=2, platform_millicpu=0, platform_memory_mib=0)
        one.reserve(pod(millicpu=2000, memory_mib=1e-6), 0)  # 50 % of the CPU
        one.reserve(pod(millicpu=1000, memory_mib=2048), 1)  # 25 % of both
        assert (
            score(one, pod(millicpu=1000, memory_mib=2048), 0) - score(one, pod(millicpu=1000, memory_mib=2048), 1) < 0
        )
        assert one.select(pod(millicpu=1000, memory_mib=2048)) == 1

    @pytest.mark.parametrize(("millicpu", "slots"), [(100, 38), (500, 7), (1000, 3), (2000, 1), (3801, 0)])
    def test_a_node_takes_what_its_requests_leave(self, millicpu, slots):
        one = scheduler()
        for _ in range(slots):
            assert one.select(pod(millicpu=millicpu)) == 0
            one.reserve(pod(millicpu=millicpu), 0)
        assert one.select(pod(millicpu=millicpu)) is None

    def test_memory_is_a_limit_too(self):
        one = scheduler()
        for _ in range(10):
            one.reserve(pod(memory_mib=750), 0)
        assert one.select(pod(memory_mib=750)) is None
        assert one.select(pod(memory_mib=492)) == 0

    def test_a_kubelet_takes_110_pods(self):
        one = scheduler()
        for _ in range(110):
            assert one.select(pod()) == 0
            one.reserve(pod(), 0)
        assert one.select(pod()) is None

    @pytest.mark.parametrize(("placement", "allowed"), [("any", {0, 1, 2}), ("first", {0}), ("rest", {1, 2})])
    def test_keeps_to_node_affinity(self, placement, allowed):
        one = scheduler(nodes=3)
        assert {one.select(pod(placement=placement)) for _ in range(60)} == allowed

    def test_ties_are_broken_at_random_but_the_seed_decides(self):
        assert {scheduler(nodes=10, seed=seed).select(pod()) for seed in range(200)} == set(range(10))
        sequences = []
        for seed in (1, 1, 2):
            one = scheduler(nodes=10, seed=seed)
            sequences.append([one.select(pod()) for _ in range(20)])
        assert sequences[0] == sequences[1] != sequences[2]

    def test_without_a_tie_nothing_is_drawn(self):
        one = scheduler(nodes=2)
        one.reserve(pod(millicpu=1000), 0)
        before = one._rng.bit_generator.state
        assert one.select(pod(millicpu=100)) == 1
        assert one._rng.bit_generator.state == before


class TestHowManyNodesAreLookedAt:
    @pytest.mark.parametrize(
        ("nodes", "wanted"),
        [
            (1, 1),
            (99, 99),
            (100, 100),
            (101, 100),  # 50 % would be 50: never fewer than 100
            (250, 120),  # 50 - 250 // 125 = 48 %
            (500, 230),  # 46 %
            (1000, 420),  # 42 %
            (5000, 500),  # 10 %
            (6000, 300),  # 2 % would be too few: 5 %
        ],
    )
    def test_as_num_feasible_nodes_to_find(self, nodes, wanted):
        assert scheduler(nodes=nodes)._feasible(pod()).size == wanted

    def test_goes_on_where_it_stopped(self):
        one = scheduler(nodes=300)  # 48 %: 144
        assert one._feasible(pod()).tolist() == list(range(144))
        assert one._feasible(pod()).tolist() == list(range(144, 288))
        assert one._feasible(pod()).tolist() == [*range(288, 300), *range(132)]
        assert one._feasible(pod())[0] == 132

    def test_passes_over_full_nodes(self):
        one = scheduler(nodes=300)
        for node in range(0, 300, 2):
            one.reserve(pod(millicpu=3800), node)
        found = one._feasible(pod(millicpu=100))
        assert found.tolist() == list(range(1, 288, 2))
        assert one._next_start == 288

    def test_looks_at_all_of_them_if_it_must(self):
        one = scheduler(nodes=300)
        for node in range(300):
            if node != 7:
                one.reserve(pod(millicpu=3800), node)
        for _ in range(3):
            assert one._feasible(pod(millicpu=100)).tolist() == [7]
            assert one._next_start == 0
        assert one.select(pod(millicpu=100)) == 7
        one.reserve(pod(millicpu=3800), 7)
        assert one.select(pod(millicpu=100)) is None
