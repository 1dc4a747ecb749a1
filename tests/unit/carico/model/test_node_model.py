"""The model of one node: the order of its steps, and the figures in its reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico.errors import InvalidInput
from carico.model.node_model import NodeModel
from carico.model.subspace import Subspace
from carico.model.variants import THESIS_LITERAL, THESIS_REBASED

from .node_models import EVERY_FILTER, EVERY_VARIANT, IDLE, History, loaded, run, state_of, values_of, varied, warmed_up


class TestFreshNode:
    @EVERY_VARIANT
    def test_advertises_two_pods(self, variant):
        report, _ = run(NodeModel(variant), IDLE, 0.0)
        assert report.pod_capacity == pytest.approx(2.0)
        assert report.pods == 0

    @EVERY_VARIANT
    def test_bootstraps_from_running_pods(self, variant):
        """The pods' cost is the difference between an empty node's signal and this node's."""
        report, _ = run(NodeModel(variant, pods=3), loaded(3), 0.0)
        assert report.pods == 3
        assert report.baseline == pytest.approx(report.capacity_signal + 3 * report.pod_cost)
        # CPU is the scarcest resource: 0.05 + 3 x 0.1 are used, so each pod accounts for 0.35 / 3.
        assert report.pod_capacity == pytest.approx(0.65 / (0.35 / 3))

    @EVERY_VARIANT
    @pytest.mark.parametrize("pods", [8, 12])
    def test_a_node_that_starts_full_accepts_no_pod(self, variant, pods):
        """A saturated node's utilisation is slightly below 1; the remaining room must not count as room for a pod."""
        model, at, running = NodeModel(variant, pods=pods), 0.0, pods
        for _ in range(30):
            report, at = run(model, (0.995, 0.2), at, 2)
            if report.pod_capacity >= 1:
                running += 1
                model.pod_event(+1, at=at)
        assert running == pods

    def test_a_wrong_bootstrap_is_corrected(self):
        model = NodeModel(pods=6)
        at = 0.0
        for n in [6, 4, 2, 0]:
            model.reconcile(n, at=at)
            _, at = run(model, loaded(n), at, 20)
        for n in [1, 2, 3, 4, 5] * 6:
            model.reconcile(n, at=at)
            report, at = run(model, loaded(n), at, 5)
        # CPU is the scarcest resource: (1 - 0.05) / 0.1 pods fit.
        assert report.pods + report.pod_capacity == pytest.approx(9.5, rel=0.15)

    def test_advertises_nothing_before_any_telemetry(self):
        report = NodeModel().step(at=1.0)
        assert report.pod_capacity == 0
        assert np.isnan(report.baseline)
        assert not report.exchange_due

    def test_advertises_two_pods_before_anything_uses_a_resource(self):
        report, _ = run(NodeModel(), (0.0, 0.0), 0.0)
        assert report.capacity_signal == np.inf
        assert report.pod_capacity == 2

    @pytest.mark.parametrize("max_pods", [1, 2, 5])
    def test_never_advertises_more_than_the_maximum(self, max_pods):
        report, _ = run(NodeModel(max_pods=max_pods), IDLE, 0.0)
        assert report.pod_capacity == pytest.approx(min(max_pods, 2.0))


class TestCapacity:
    @pytest.mark.parametrize("usage", [(1.0, 0.2), (0.1, 1.0), (1.0, 1.0)])
    @pytest.mark.parametrize("variant", [THESIS_REBASED, THESIS_LITERAL], ids=lambda variant: variant.name)
    def test_a_saturated_node_advertises_nothing(self, variant, usage):
        fresh, _ = run(NodeModel(variant), usage, 0.0)
        assert fresh.pod_capacity == 0
        almost, _ = run(NodeModel(variant), np.multiply(usage, 1 - 1e-6), 0.0)
        assert almost.pod_capacity == 0, "a node that is full up to rounding advertises nothing either"
        model, at = warmed_up(variant)
        # The average approaches 1 without ever reaching it.
        report, _ = run(model, usage, at, 8)
        assert report.pod_capacity < 1e-3

    def test_learns_how_many_pods_fit(self):
        model, at = warmed_up()
        for n in range(1, 5):
            model.pod_event(+1, at=at)
            report, at = run(model, loaded(n), at, 6)
        assert report.pods + report.pod_capacity == pytest.approx(9.5, rel=0.15)

    def test_one_pod_below_the_maximum_there_is_room_for_one(self):
        model, at = warmed_up(max_pods=5)
        model.pod_event(+4, at=at)
        report, at = run(model, loaded(4), at, 3)
        assert report.pod_capacity == 1
        model.pod_event(+1, at=at)
        report, at = run(model, loaded(5), at, 3)
        assert report.pod_capacity == 0
        model.pod_event(+3, at=at)
        report, at = run(model, loaded(8), at, 3)
        assert report.pod_capacity == 0, "also with more pods than the maximum"

    @EVERY_FILTER
    @settings(max_examples=15)
    @given(
        history=st.lists(
            st.tuples(
                st.sampled_from([0.0, 1.0, 1e-12]) | st.floats(0, 1),
                st.floats(0, 1),
                st.integers(-3, 5),
                st.booleans(),
            ),
            min_size=1,
            max_size=25,
        )
    )
    def test_capacity_is_always_a_valid_number_of_pods(self, variant, history):
        model, at = NodeModel(variant, max_pods=30), 0.0
        for cpu, memory, change, telemetry in history:
            model.pod_event(max(change, -int(model.pods)), at=at)
            if telemetry:
                report, at = run(model, (cpu, memory), at)
            else:
                at += 1
                report = model.step(at=at)
            assert 0 <= report.pod_capacity <= max(30 - model.pods, 0)
            assert report.capacity_signal >= 0
            assert np.isnan(report.baseline) or report.baseline > 0

    def test_an_idle_node_recovers_from_a_saturated_start(self):
        """When the agent starts, another load than pods saturates the node, for instance an image build."""
        levels = np.array([0.5, 0.9, 0.99, 0.999, 0.9999, 1.0])
        model = NodeModel(nodes=levels.size)
        _, at = run(model, np.column_stack([levels, np.full(levels.size, 0.2)]), 0.0, 60)
        report, _ = run(model, [IDLE] * levels.size, at, 120)
        assert (report.pod_capacity > 1.05).all()

    def test_capacity_stays_modest_when_an_idle_nodes_usage_falls_to_zero(self):
        model, at = warmed_up()
        report, at = run(model, (0.0, 0.0), at, 30)
        modest = report.pod_capacity
        saved = model.save()
        # The state after hours without any usage.
        saved["own_values"] = np.zeros_like(saved["own_values"])
        model.restore(saved)
        report = model.step(at=at)
        assert report.capacity_signal == np.inf
        assert report.pod_capacity == pytest.approx(modest, rel=0.05)


class TestUnits:
    """k counts average workloads, whose size changes several-fold; rebased filters do not depend on this size."""

    @staticmethod
    def capacities(variant, factors):
        """Return the warm node's Pod-Capacity and k while the aggregator's view changes its size, not its direction."""
        variant = varied(variant, global_weight=1.0, batch_weight=0.0)
        model, at = NodeModel(variant), 0.0
        view = Subspace.from_batch(np.tile([[0.4], [0.3]], 10))
        for n in [0, 1, 2, 3, 4, 5, 0, 3, 5]:
            model.reconcile(n, at=at)
            _, at = run(model, loaded(n), at, 4, view=view)
        found = []
        for factor in factors:
            grown = Subspace(view.basis, view.singular_values * factor)
            report, at = run(model, loaded(5), at, view=grown)
            found.append((float(report.pod_capacity), float(report.capacity_signal)))
        return np.array(found).T

    @pytest.mark.parametrize("factor", [0.25, 2.0, 8.0])
    def test_rebased_pod_capacity_does_not_depend_on_the_size_of_the_workload(self, factor):
        capacity, signal = self.capacities(THESIS_REBASED, [1.0, factor])
        steady, steady_signal = self.capacities(THESIS_REBASED, [1.0, 1.0])
        assert signal[1] == steady_signal[1] / factor
        assert capacity[1] == steady[1]

    @pytest.mark.parametrize("factor", [0.25, 2.0, 8.0])
    def test_literal_pod_capacity_depends_on_the_size_of_the_workload(self, factor):
        capacity, _ = self.capacities(THESIS_LITERAL, [1.0, factor])
        assert capacity[1] / capacity[0] == pytest.approx(1 / factor, rel=0.5)

    def test_rescaling_keeps_estimates_relative_to_the_idle_node(self):
        variant = varied(global_weight=1.0)
        model, at = NodeModel(variant), 0.0
        view = Subspace.from_batch(np.tile([[0.4], [0.3]], 10))
        _, at = run(model, IDLE, at, 10, view=view)
        model.pod_event(+1, at=at)
        before, at = run(model, loaded(1), at, 10)
        grown = Subspace(view.basis, view.singular_values * 4)
        after, _ = run(model, loaded(1), at, view=grown)
        assert after.baseline * 4 == pytest.approx(before.baseline, rel=1e-6)
        assert after.pod_cost * 4 == pytest.approx(before.pod_cost, rel=0.05)


class TestHoldOff:
    def test_subtracts_pods_from_the_baseline(self):
        """Eq. 3.6 applies during container churn, and nothing is learned; otherwise Eq. 3.5 applies."""
        model, at = warmed_up()
        model.pod_event(+2, at=at)
        _, at = run(model, loaded(2), at, 5)
        known = model.save()
        model.pod_event(+1, at=at + 0.5)
        # The start of a container uses all of the CPU.
        report, at = run(model, (1.0, 0.3), at)
        assert report.pods == 3
        assert report.pod_capacity == pytest.approx(report.baseline / report.pod_cost - 3)
        for name, array in model.save().items():
            if name.startswith("estimator_"):
                assert np.array_equal(array, known[name]), name
        report, at = run(model, loaded(3), at, 2)
        assert report.pod_capacity == pytest.approx(report.capacity_signal / report.pod_cost)
        assert not np.array_equal(model.save()["estimator_cost"], known["estimator_cost"])

    @pytest.mark.parametrize(("since", "held"), [(0.0, True), (0.999, True), (1.0, False), (5.0, False)])
    def test_lasts_as_long_as_the_variant_says(self, since, held):
        model, at = warmed_up()
        model.pod_event(+1, at=at)
        before = state_of(model)["estimator_cost"]
        for tick in range(10):
            model.observe(loaded(1), at=at + (tick + 1) / 1000)
        model.step(at=at + since)
        assert (state_of(model)["estimator_cost"] == before) is held

    def test_a_late_event_does_not_shorten_the_hold_off(self):
        model, at = warmed_up()
        model.pod_event(+1, at=at + 0.9)
        model.pod_event(+1, at=at - 0.5)
        before = state_of(model)["estimator_cost"]
        run(model, loaded(2), at)
        assert state_of(model)["estimator_cost"] == before

    @pytest.mark.parametrize(("node", "held"), [(None, False), (0, True)])
    def test_a_change_of_zero_is_an_event_only_for_a_named_node(self, node, held):
        """A container that failed to start does not change the count, but it did use the CPU."""
        model, at = warmed_up()
        before = state_of(model)
        model.pod_event(0, at=at + 0.9, node=node)
        run(model, IDLE, at)
        assert (state_of(model)["estimator_baseline_variance"] == before["estimator_baseline_variance"]) is held

    def test_other_nodes_learn_on(self):
        history = History(nodes=3, seconds=20, lost=0)
        calm, disturbed = NodeModel(nodes=3), NodeModel(nodes=3)
        for one, other in zip(history.play(calm), history.play(disturbed), strict=True):
            for node in (0, 2):
                assert values_of(one, node) == values_of(other, node)
            disturbed.pod_event(0, at=other.at_s, node=1)


class TestPodEvents:
    def test_are_counted(self):
        model = NodeModel(nodes=3, pods=[1, 0, 2])
        model.pod_event([1, 2, -1], at=0.0)
        model.pod_event(+1, at=0.1, node=1)
        model.pod_event(+1, at=0.2)
        assert model.pods.tolist() == [3, 4, 2]
        assert model.step(at=1.0).pods.tolist() == [3, 4, 2]

    def test_a_count_below_zero_is_refused_without_any_change(self):
        model = NodeModel(nodes=2, pods=[1, 3])
        with pytest.raises(InvalidInput, match="a start was missed"):
            model.pod_event([-2, -1], at=5.0)
        with pytest.raises(InvalidInput, match="a start was missed"):
            model.pod_event(-4, at=5.0, node=1)
        assert model.pods.tolist() == [1, 3]
        model.observe([IDLE, IDLE], at=5.1)
        model.step(at=5.2)
        assert not np.isnan(model.save()["estimator_baseline"]).any(), "the refused event caused no hold-off"

    def test_reconciling_sets_the_count_and_holds_off_where_it_differed(self):
        model = NodeModel(nodes=2)
        model.reconcile([2, 0], at=5.0)
        assert model.pods.tolist() == [2, 0]
        model.observe([IDLE, IDLE], at=5.1)
        model.step(at=5.2)
        assert np.isnan(model.save()["estimator_baseline"]).tolist() == [True, False]

    def test_counts_handed_out_are_copies(self):
        model = NodeModel(nodes=2)
        model.pods[:] = 7
        assert model.pods.tolist() == [0, 0]

    def test_counts_stay_whole_numbers_of_one_type(self):
        model = NodeModel(nodes=2, pods=np.uint8(3))
        for change in (np.uint64(1), np.int8(-1), 1.0, True):
            model.pod_event(change, at=0.0)
        model.reconcile(np.array([1.0, 2.0]), at=0.0)
        assert model.pods.dtype == np.int64
        assert model.pods.tolist() == [1, 2]

    @pytest.mark.parametrize("change", [0.5, np.nan, "one", None, [1, 1, 1], [[1], [1]]])
    def test_refuses_invalid_changes(self, change):
        model = NodeModel(nodes=2, pods=4)
        for call in (model.pod_event, model.reconcile):
            with pytest.raises(InvalidInput):
                call(change, at=0.0)
        with pytest.raises(InvalidInput):
            NodeModel(nodes=2, pods=change)
        assert model.pods.tolist() == [4, 4]

    @pytest.mark.parametrize("arguments", [{"node": 2}, {"node": -1}, {"at": np.nan}, {"node": 0, "change": [1, 1]}])
    def test_refuses_events_of_unknown_nodes_or_times(self, arguments):
        model = NodeModel(nodes=2)
        with pytest.raises(InvalidInput):
            model.pod_event(**{"change": 1, "at": 0.0} | arguments)
        assert model.pods.tolist() == [0, 0]

    def test_a_negative_count_is_refused(self):
        with pytest.raises(InvalidInput, match="negative"):
            NodeModel(pods=-1)
        model = NodeModel(pods=2)
        with pytest.raises(InvalidInput, match="negative"):
            model.reconcile(-1, at=0.0)
        assert model.pods == 2


def offered_if_counted_late(late_s: int) -> float:
    """What a node of 85 % offers 15 s after six equal pods began to compute at once and were counted so much later."""
    model, at = NodeModel(THESIS_REBASED), 0.0
    full = (0.05 + 6 * 0.8 / 6, 0.22)
    _, at = run(model, (0.05, 0.1), at, 10)
    if late_s:
        _, at = run(model, full, at, late_s)
    model.reconcile(6, at)
    report, _ = run(model, full, at, 15 - late_s)
    return float(report.pod_capacity)


def test_pods_that_are_counted_late_seem_to_cost_less():
    """Room for 0.15 / 0.133 pods is left; docs/design.md says how much too much is offered."""
    assert offered_if_counted_late(0) == pytest.approx(1.1, abs=0.15)
    assert offered_if_counted_late(1) < 1.6
    assert offered_if_counted_late(2) < 2.5
    assert offered_if_counted_late(10) > 12, "a weakness that is told"


def test_the_same_history_gives_the_same_bytes():
    first, second = (
        [values_of(report) for report in History(nodes=4, seconds=15).play(NodeModel(nodes=4))] for _ in range(2)
    )
    assert first == second
