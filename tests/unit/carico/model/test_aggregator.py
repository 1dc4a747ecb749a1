import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.errors import InvalidInput
from carico.model.aggregator import Aggregator, ReplicaView, impossible, pooled
from carico.model.subspace import Subspace

telemetry = arrays(np.float64, (2, 10), elements=st.floats(0, 1)).map(Subspace.from_batch)
calls = st.lists(st.tuples(st.sampled_from("abcd"), telemetry), min_size=1, max_size=6)


def subspace(*usage):
    return Subspace.from_batch(np.tile(np.reshape(usage, (-1, 1)), 10))


def gram(view):
    return view.columns @ view.columns.T


def merge_waiting(aggregator):
    """Merge what waits, and return how many subspaces that was."""
    waiting = aggregator.take_waiting()
    aggregator.merge(waiting)
    return len(waiting)


class TestExchange:
    def test_the_first_caller_gets_its_own_subspace_back(self):
        aggregator, own = Aggregator(2), subspace(0.5, 0.1)
        assert aggregator.view is None
        assert aggregator.exchange("a", own) is own
        assert aggregator.view is None, "nothing was merged yet"

    def test_answers_with_the_view_before_the_callers_subspace_is_merged(self):
        aggregator = Aggregator(2)
        aggregator.exchange("a", subspace(0.5, 0.1))
        merge_waiting(aggregator)
        view = aggregator.view
        assert aggregator.exchange("b", subspace(0.1, 0.9)) is view
        assert aggregator.view is view
        merge_waiting(aggregator)
        assert aggregator.view is not view

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(subspace(0.1, 0.2, 0.3), id="resources"),
            pytest.param(Subspace.from_batch(np.ones((4, 2, 10))), id="nodes"),
            pytest.param(Subspace(np.eye(2), [1e200, 1.0]), id="overflow"),
            pytest.param(Subspace(np.eye(2), [4.5, 0.0]), id="more-than-any-telemetry"),
            pytest.param(Subspace(np.eye(2), [3.2, 3.2]), id="more-than-any-telemetry-together"),
            pytest.param(Subspace([[0.0], [1.0]], [20**0.5]), id="all-in-one-resource"),
            pytest.param(Subspace(np.eye(2) * 1e3, [1.0, 1.0]), id="no-unit-vectors"),
        ],
    )
    def test_refuses_an_invalid_subspace_without_any_change(self, wrong):
        aggregator = Aggregator(2)
        aggregator.exchange("a", subspace(0.5, 0.1))
        merge_waiting(aggregator)
        view = aggregator.view
        with pytest.raises(InvalidInput, match=r"^b: "):
            aggregator.exchange("b", wrong)
        assert aggregator.nodes == 1
        assert merge_waiting(aggregator) == 0
        assert aggregator.view is view


class TestMerge:
    @given(calls)
    def test_a_new_subspace_has_the_weight_of_one_node_among_all(self, history):
        """Weights (N - 1) / N and 1 / N, merged one at a time."""
        aggregator, known, oracle = Aggregator(2), set(), None
        for node, own in history:
            aggregator.exchange(node, own)
            known.add(node)
            share = 1 / len(known)
            oracle = gram(own) if oracle is None else (1 - share) * oracle + share * gram(own)
            assert merge_waiting(aggregator) == 1
            assert aggregator.nodes == len(known)
            np.testing.assert_allclose(gram(aggregator.view), oracle, atol=1e-11)

    @given(calls)
    def test_only_the_newest_waiting_subspace_of_a_node_counts(self, history):
        one, other = Aggregator(2), Aggregator(2)
        for node, own in history:
            one.exchange(node, own)
        latest = dict(history)
        assert merge_waiting(one) == len(latest)
        assert merge_waiting(one) == 0
        for node, own in latest.items():
            other.exchange(node, own)
        merge_waiting(other)
        np.testing.assert_array_equal(one.view.basis, other.view.basis)
        np.testing.assert_array_equal(one.view.singular_values, other.view.singular_values)

    def test_with_a_single_node_the_view_is_its_subspace(self):
        aggregator = Aggregator(2)
        for own in [subspace(0.5, 0.1), subspace(0.1, 0.7)]:
            aggregator.exchange("a", own)
            merge_waiting(aggregator)
            np.testing.assert_allclose(aggregator.view.workload, own.workload)

    def test_nothing_waiting_changes_nothing(self):
        assert merge_waiting(Aggregator(2)) == 0
        assert Aggregator(2).view is None

    def test_nodes_that_agree_keep_a_stable_view(self):
        aggregator, own = Aggregator(2), subspace(0.5, 0.1)
        for _ in range(50):
            for node in "abc":
                aggregator.exchange(node, own)
            merge_waiting(aggregator)
        np.testing.assert_allclose(aggregator.view.workload, own.workload, rtol=1e-9)

    def test_no_node_has_more_energy_than_a_full_node(self):
        aggregator, loudest = Aggregator(2), Subspace([[0.0], [1.0]], [10**0.5])
        for node in range(99):
            aggregator.exchange(f"node-{node}", subspace(1.0, 0.0))
        merge_waiting(aggregator)
        aggregator.exchange("loud", loudest)
        merge_waiting(aggregator)
        np.testing.assert_allclose(gram(aggregator.view).diagonal() / 10, [0.99, 0.01], rtol=1e-5)
        assert not impossible(subspace(1.0, 1.0))
        assert "at most 10, got 10.1, 10.1" in impossible(Subspace(np.eye(2), [10.1**0.5] * 2))

    def test_larger_batches_are_taken_where_all_nodes_have_them(self):
        own = Subspace.from_batch(np.ones((2, 50)))
        with pytest.raises(InvalidInput, match="the energy of a resource is at most 10, got 50, 50"):
            Aggregator(2).exchange("a", own)
        assert Aggregator(2, samples=50).exchange("a", own) is own

    def test_follows_a_cluster_that_changes(self):
        aggregator = Aggregator(2)
        for own in [subspace(0.1, 0.5)] + [subspace(0.9, 0.1)] * 30:
            for node in "abc":
                aggregator.exchange(node, own)
            merge_waiting(aggregator)
        np.testing.assert_allclose(aggregator.view.workload, subspace(0.9, 0.1).workload, rtol=1e-3)

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_the_view_keeps_its_rank(self, rank):
        rng = np.random.default_rng(1)
        aggregator = Aggregator(4, rank)
        for node in "abc":
            aggregator.exchange(node, Subspace.from_batch(rng.random((4, 10))))
            merge_waiting(aggregator)
            assert aggregator.view.basis.shape == (4, rank)

    def test_the_callers_arrays_are_not_touched(self):
        own = Subspace.from_batch(np.random.default_rng(2).random((2, 10)))
        basis, singular_values = own.basis.copy(), own.singular_values.copy()
        aggregator = Aggregator(2, rank=1)
        for node in "abab":
            aggregator.exchange(node, own)
            merge_waiting(aggregator)
        assert np.array_equal(own.basis, basis)
        assert np.array_equal(own.singular_values, singular_values)


class TestPeriod:
    def view_after(self, exchanges_per_s, period_s=1.0, seconds=10):
        """Return the view of a cluster in which one node exchanges so often, and three others once a second."""
        aggregator = Aggregator(2, period_s=period_s)
        for tick in range(seconds * 50):
            if tick % (50 // exchanges_per_s) == 0:
                aggregator.exchange("a", subspace(1.0, 1.0))
            if tick % 50 == 0:
                for node in "bcd":
                    aggregator.exchange(node, subspace(0.1, 0.2))
            aggregator.merge(aggregator.take_waiting(tick / 50))
        return gram(aggregator.view)

    def test_who_exchanges_fifty_times_as_often_has_no_more_say(self):
        np.testing.assert_allclose(self.view_after(50), self.view_after(1), rtol=1e-12)
        assert self.view_after(50, period_s=0.0)[0, 0] > 1.5 * self.view_after(1, period_s=0.0)[0, 0]

    def test_the_newest_subspace_waits_until_the_period_is_over(self):
        aggregator, newest = Aggregator(2, period_s=1.0), subspace(0.5, 0.5)
        aggregator.exchange("a", subspace(0.1, 0.1))
        assert len(aggregator.take_waiting(100.0)) == 1
        for own in (subspace(0.9, 0.9), newest):
            aggregator.exchange("a", own)
            aggregator.exchange("b", own)
        assert (len(aggregator.take_waiting(100.9)), aggregator.waiting) == (1, 1)
        assert aggregator.take_waiting(101.0) == [newest]

    def test_who_is_merged_somewhat_late_is_not_later_with_the_next(self):
        aggregator, taken = Aggregator(2, period_s=1.0), 0
        for tick in range(1, 1000):
            if tick % 10 == 0:
                aggregator.exchange("a", subspace(0.5, 0.1))
            taken += len(aggregator.take_waiting(tick / 10 + 0.05 * (tick % 3)))
        assert taken == 99

    def test_who_was_silent_for_long_is_not_merged_twice_in_a_row(self):
        aggregator, taken = Aggregator(2, period_s=5.0), []
        for now in (0.0, 9.9, 10.0, 14.8, 15.0):
            aggregator.exchange("a", subspace(0.5, 0.1))
            taken += [now] * len(aggregator.take_waiting(now))
        assert taken == [0.0, 9.9, 15.0]

    def test_a_forgotten_node_may_begin_anew(self):
        aggregator = Aggregator(2, period_s=1.0)
        for _ in range(2):
            aggregator.exchange("a", subspace(0.5, 0.1))
            assert len(aggregator.take_waiting(1.0)) == 1
            aggregator.forget("a")

    @pytest.mark.parametrize("period_s", [-1.0, np.nan, np.inf])
    def test_is_a_number_of_seconds(self, period_s):
        with pytest.raises(InvalidInput, match="period_s must be a number of seconds from 0 on"):
            Aggregator(2, period_s=period_s)


def one_after_the_other(view, subspaces, nodes, rank=None):
    """Return what merging each by itself gives: weights (N - 1) / N and 1 / N (thesis §4.3)."""
    for subspace in subspaces:
        view = subspace if view is None else Subspace.merge(view, subspace, nodes - 1, 1, rank)
    return view


class TestMergeAtOnce:
    @given(calls, calls)
    def test_is_what_merging_one_after_the_other_gives(self, before, history):
        aggregator, oracle = Aggregator(2), None
        for batch in (before, history):
            for node, own in batch:
                aggregator.exchange(node, own)
            waiting = aggregator.take_waiting()
            aggregator.merge(waiting)
            oracle = one_after_the_other(oracle, waiting, aggregator.nodes)
            np.testing.assert_allclose(gram(aggregator.view), gram(oracle), atol=1e-9)

    @pytest.mark.parametrize("resources", [1, 2, 5])
    def test_works_for_many_nodes_and_any_number_of_resources(self, resources):
        rng = np.random.default_rng(3)
        aggregator = Aggregator(resources)
        for node in range(500):
            aggregator.exchange(f"node-{node}", Subspace.from_batch(rng.random((resources, 10))))
        waiting = aggregator.take_waiting()
        aggregator.merge(waiting)
        np.testing.assert_allclose(gram(aggregator.view), gram(one_after_the_other(None, waiting, 500)), rtol=1e-9)

    def test_keeps_the_rank(self):
        rng = np.random.default_rng(4)
        aggregator = Aggregator(4, rank=2)
        for node in "abc":
            aggregator.exchange(node, Subspace.from_batch(rng.random((4, 10))))
        merge_waiting(aggregator)
        assert aggregator.view.basis.shape == (4, 2)


class TestPooled:
    def test_averages_by_number_of_nodes_in_any_order(self):
        views = [ReplicaView("x", 3, subspace(0.9, 0.1)), ReplicaView("y", 1, subspace(0.1, 0.5))]
        wanted = (3 * gram(views[0].subspace) + gram(views[1].subspace)) / 4
        for order in (views, views[::-1], [*views, ReplicaView("z", 0, None)]):
            np.testing.assert_allclose(gram(pooled(order)), wanted, atol=1e-12)

    def test_is_none_if_no_replica_has_a_view(self):
        assert pooled([ReplicaView("x", 0, None)]) is None
        assert pooled([]) is None


class TestForget:
    def test_a_forgotten_node_has_no_weight_and_no_waiting_subspace(self):
        aggregator = Aggregator(2)
        for node in "abc":
            aggregator.exchange(node, subspace(0.5, 0.1))
        aggregator.forget("b")
        aggregator.forget("b")
        aggregator.forget("never-heard-of")
        assert aggregator.nodes == 2
        assert merge_waiting(aggregator) == 2

    def test_the_view_outlives_the_nodes(self):
        aggregator = Aggregator(2)
        aggregator.exchange("a", subspace(0.5, 0.1))
        merge_waiting(aggregator)
        aggregator.forget("a")
        assert aggregator.nodes == 0
        view = aggregator.view
        assert aggregator.exchange("b", subspace(0.1, 0.5)) is view


@pytest.mark.parametrize(("resources", "rank", "samples"), [(0, None, 10), (2, 0, 10), (2, -1, 10), (2, None, 0)])
def test_refuses_zero_resources_components_or_samples(resources, rank, samples):
    with pytest.raises(InvalidInput, match="must be at least 1"):
        Aggregator(resources, rank, samples)
