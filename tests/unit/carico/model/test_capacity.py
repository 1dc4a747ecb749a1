import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.errors import InvalidInput
from carico.model.capacity import MAX_PODS, capacity_signal, pod_capacity, pod_capacity_from_baseline
from carico.model.subspace import Subspace

dimensions = st.shared(st.integers(1, 5), key="d")
usages = dimensions.flatmap(lambda d: arrays(np.float64, d, elements=st.floats(0, 1)))
workloads = dimensions.flatmap(lambda d: arrays(np.float64, d, elements=st.just(0.0) | st.floats(1e-6, 3)))
amounts = st.floats(0, 1e6)
costs = st.floats(1e-6, 1e6)


class TestSignal:
    @given(usages, workloads)
    def test_is_the_largest_k_that_overfills_no_resource(self, usage, workload):
        """Eq. 3.3 and 3.4: y + k w stays within 1, and any more of w would not."""
        k = capacity_signal(usage, workload)
        assume(np.isfinite(k) and (usage < 1).all())
        assert (usage + k * workload <= 1 + 1e-9).all()
        assert (usage + (k * (1 + 1e-6) + 1e-6) * workload >= 1).any()

    @given(usages, workloads)
    def test_is_never_negative_and_never_nan(self, usage, workload):
        assert capacity_signal(usage, workload) >= 0

    @given(usages, workloads)
    def test_with_a_full_resource_k_is_zero_for_any_workload(self, usage, workload):
        usage[0] = 1.0
        assert capacity_signal(usage, workload) == 0
        assert capacity_signal(usage * 3, np.zeros_like(workload)) == 0

    @given(usages)
    def test_without_any_workload_k_is_infinite(self, usage):
        assume((usage < 1).all())
        assert capacity_signal(usage, np.zeros_like(usage)) == np.inf

    def test_a_resource_without_workload_sets_no_limit(self):
        assert capacity_signal([0.999, 0.5], [0.0, 0.25]) == 2.0
        assert capacity_signal([0.5, 0.999], [0.25, 0.0]) == 2.0

    @given(usages, workloads, st.floats(0, 1))
    def test_more_usage_or_more_workload_never_leaves_more_room(self, usage, workload, share):
        k = capacity_signal(usage, workload)
        assert capacity_signal(usage + share * (1 - usage), workload) <= k * (1 + 1e-12)
        assert capacity_signal(usage, workload * (1 + share)) <= k

    @given(usages, workloads, st.sampled_from([2.0**-40, 0.25, 2.0, 2.0**40]))
    def test_counts_in_units_of_the_workload(self, usage, workload, factor):
        assert capacity_signal(usage, workload * factor) == capacity_signal(usage, workload) / factor

    def test_many_nodes_at_once_equal_single_nodes(self):
        rng = np.random.default_rng(1)
        usage, workload = rng.random((3, 1, 2)), rng.random((1, 4, 2)) * (rng.random((1, 4, 2)) > 0.3)
        many = capacity_signal(usage, workload)
        assert many.shape == (3, 4)
        for i, j in np.ndindex(3, 4):
            assert many[i, j] == capacity_signal(usage[i, 0], workload[0, j])

    def test_learning_of_conflicting_usage_lowers_k(self):
        """Fig. 3.1: the workload grows in the direction that is used already."""
        usage = [0.5, 0.15]
        light = Subspace.from_batch(np.tile([[0.5], [0.15]], 10)).workload
        heavy = Subspace.from_batch(np.tile([[0.9], [0.25]], 10)).workload
        assert capacity_signal(usage, heavy) < capacity_signal(usage, light)

    def test_learning_of_complementary_usage_raises_k(self):
        """Fig. 3.2: the workload turns towards the resource that is free."""
        usage = [0.05, 0.65]
        own = Subspace.from_batch(np.tile([[0.05], [0.65]], 10))
        peers = Subspace.from_batch(np.tile([[0.65], [0.1]], 10))
        together = Subspace.merge(own, peers, 1, 1).workload
        assert capacity_signal(usage, together) > capacity_signal(usage, own.workload)

    @pytest.mark.parametrize(
        ("usage", "workload", "k"),
        [
            pytest.param([0, 0], [1, 2], 0.5, id="integers"),
            pytest.param([0.5], [0.25], 2, id="one-resource"),
            pytest.param(np.float32([0.5, 0.5]), np.float32([0.25, 0.125]), 2, id="float32"),
            pytest.param([0.0, 0.0], [5e-324, 1e308], 1e-308, id="tiny-and-huge"),
            pytest.param([0.5, 0.5], [5e-324, 0.0], np.inf, id="too-small-to-divide-by"),
            pytest.param([1 - 2**-53, 0.0], [1.0, 1.0], 2**-53, id="almost-full"),
            pytest.param([1e308, 0.0], [1.0, 1.0], 0, id="more-than-full"),
        ],
    )
    def test_accepts_all_kinds_of_numbers(self, usage, workload, k):
        assert capacity_signal(usage, workload) == k

    @pytest.mark.parametrize(
        ("usage", "workload"),
        [
            ([np.nan, 0.1], [0.1, 0.1]),
            ([0.1, 0.1], [0.1, np.nan]),
            ([-0.1, 0.1], [0.1, 0.1]),
            ([0.1, 0.1], [0.1, -0.1]),
            ([0.1, np.inf], [0.1, 0.1]),
            ([0.1, 0.1], [0.1, np.inf]),
            ([0.1, 0.1], [0.1]),
            (0.1, 0.1),
            ([], []),
            (np.zeros((3, 2)), np.zeros((4, 2))),
            (["full"], [0.1]),
        ],
    )
    def test_refuses_invalid_arguments(self, usage, workload):
        with pytest.raises(InvalidInput):
            capacity_signal(usage, workload)


class TestPods:
    @given(amounts, costs)
    def test_capacity_is_the_signal_in_units_of_a_pods_cost(self, signal, cost):
        assert pod_capacity(signal, cost) == min(signal / cost, MAX_PODS)

    @given(st.floats(0.1, 100), st.floats(0.001, 10), st.integers(0, 120))
    def test_both_equations_agree_if_the_model_holds(self, baseline, cost, pods):
        """Eq. 3.5 and 3.6 are one for signal = baseline - cost × pods."""
        signal = max(baseline - cost * pods, 0.0)
        assert pod_capacity_from_baseline(baseline, cost, pods) == pytest.approx(pod_capacity(signal, cost), abs=1e-9)

    @given(amounts, amounts, st.integers(0, 200), st.integers(0, 110))
    def test_capacity_lies_between_0_and_the_nodes_maximum(self, amount, cost, pods, max_pods):
        assert 0 <= pod_capacity(amount, cost, max_pods) <= max_pods
        assert 0 <= pod_capacity_from_baseline(amount, cost, pods, max_pods) <= max_pods

    @pytest.mark.parametrize(
        ("signal", "cost", "capacity"),
        [
            pytest.param(np.inf, 0.5, MAX_PODS, id="nothing-known"),
            pytest.param(np.inf, 0.0, MAX_PODS, id="nothing-known-at-no-cost"),
            pytest.param(np.inf, np.inf, MAX_PODS, id="nothing-known-of-either"),
            pytest.param(0.0, 0.5, 0, id="full"),
            pytest.param(0.0, 0.0, 0, id="full-at-no-cost"),
            pytest.param(1.0, 0.0, MAX_PODS, id="pods-cost-nothing"),
            pytest.param(1.0, np.inf, 0, id="pods-cost-everything"),
            pytest.param(1e308, 1e-308, MAX_PODS, id="overflow"),
            pytest.param(3, 2, 1.5, id="integers"),
        ],
    )
    def test_limits(self, signal, cost, capacity):
        assert pod_capacity(signal, cost) == capacity
        assert pod_capacity_from_baseline(signal, cost, 0) == capacity

    @pytest.mark.parametrize(("pods", "capacity"), [(0, 4), (1, 3), (4, 0), (9, 0)])
    def test_capacity_from_the_baseline_subtracts_running_pods(self, pods, capacity):
        assert pod_capacity_from_baseline(2.0, 0.5, pods) == capacity

    def test_maximum_may_differ_between_nodes(self):
        assert pod_capacity([9.0, 9.0], 1.0, [5, 20]).tolist() == [5, 9]
        assert pod_capacity_from_baseline(9.0, 1.0, [0, 8], [5, 20]).tolist() == [5, 1]

    def test_many_nodes_at_once_equal_single_nodes(self):
        rng = np.random.default_rng(2)
        amount, cost, pods = rng.random((3, 1)), rng.random((1, 4)) * 0.1, rng.integers(0, 9, (3, 4))
        from_signal, from_baseline = pod_capacity(amount, cost), pod_capacity_from_baseline(amount, cost, pods)
        assert from_signal.shape == from_baseline.shape == (3, 4)
        for i, j in np.ndindex(3, 4):
            assert from_signal[i, j] == pod_capacity(amount[i, 0], cost[0, j])
            assert from_baseline[i, j] == pod_capacity_from_baseline(amount[i, 0], cost[0, j], pods[i, j])

    @pytest.mark.parametrize("wrong", [-1.0, np.nan, "many", [1.0, -1.0]])
    def test_refuses_invalid_arguments(self, wrong):
        for arguments in [(wrong, 1), (1, wrong), (1, 1, wrong)]:
            with pytest.raises(InvalidInput):
                pod_capacity(*arguments)
        for arguments in [(wrong, 1, 1), (1, wrong, 1), (1, 1, wrong), (1, 1, 1, wrong), (1, 1, np.inf)]:
            with pytest.raises(InvalidInput):
                pod_capacity_from_baseline(*arguments)

    def test_refuses_shapes_that_do_not_broadcast(self):
        with pytest.raises(InvalidInput, match="broadcast"):
            pod_capacity([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(InvalidInput, match="broadcast"):
            pod_capacity_from_baseline(1.0, [1.0, 2.0], [1, 2, 3])
