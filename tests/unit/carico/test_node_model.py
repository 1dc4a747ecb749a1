"""One node's pipeline: its sequencing, and what users read off its reports."""

import copy
import dataclasses
import functools
import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico.capacity import MAX_PODS, capacity_signal
from carico.errors import InvalidInput, InvalidState
from carico.estimators import ESTIMATORS
from carico.node_model import NodeModel
from carico.node_report import Report
from carico.subspace import Subspace
from carico.variants import DEFAULT_VARIANT, THESIS_LITERAL, THESIS_REBASED, VARIANTS

IDLE = (0.05, 0.20)
EVERY_VARIANT = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
EVERY_FILTER = pytest.mark.parametrize(
    "variant",
    [
        THESIS_LITERAL,
        *(dataclasses.replace(THESIS_REBASED, estimator=name, name=f"rebased-{name}") for name in ESTIMATORS),
    ],
    ids=lambda variant: variant.name,
)


def varied(variant=DEFAULT_VARIANT, **changes):
    return dataclasses.replace(variant, **changes)


def run(model, usage, at, seconds=1, **step):
    """Feed `usage` at 10 Hz from `at` on, step at every full second, and return the last report and the time."""
    for _ in range(seconds):
        for tick in range(1, 11):
            model.observe(usage, at=at + tick / 10)
        at += 1
        report = model.step(at=at, **step)
    return report, at


def loaded(pods, cpu=0.1, memory=0.03):
    return (min(IDLE[0] + cpu * pods, 1.0), min(IDLE[1] + memory * pods, 1.0))


def warmed_up(variant=DEFAULT_VARIANT, max_pods=MAX_PODS):
    """A node that has run 0 to 5 pods a few times and is idle now; returned with the time."""
    return copy.deepcopy(warm_up(variant, max_pods))


@functools.cache
def warm_up(variant, max_pods):
    model, at = NodeModel(variant, max_pods=max_pods), 0.0
    for _ in range(4):
        _, at = run(model, IDLE, at, 5)
        for n in range(1, 6):
            model.pod_event(+1, at=at)
            _, at = run(model, loaded(n), at, 5)
        model.pod_event(-5, at=at)
        _, at = run(model, IDLE, at, 5)
    return model, at


def values_of(report, index=...):
    """Every number of a report, as bytes."""
    found = {}
    for field in dataclasses.fields(Report):
        value = getattr(report, field.name)
        if field.name == "subspace":
            found["basis"] = value.basis[index].tobytes()
            found["singular_values"] = value.singular_values[index].tobytes()
        elif field.name == "at_s":
            found[field.name] = value
        else:
            found[field.name] = np.asarray(value)[index].tobytes()
    return found


def state_of(model):
    return {name: array.tobytes() for name, array in model.save().items()}


class Weather:
    """A history of `nodes` nodes: telemetry, lost samples, pod events, global subspaces, all from one seed."""

    def __init__(self, nodes, seconds, seed=1, resources=2, lost=0.1):
        rng = np.random.default_rng(seed)
        self.start = 0.0
        steps = rng.integers(-2, 3, (seconds, nodes))
        counts = np.zeros((seconds + 1, nodes), dtype=int)
        for second in range(seconds):
            counts[second + 1] = np.clip(counts[second] + np.where(rng.random(nodes) < 0.3, steps[second], 0), 0, 12)
        self.changes = np.diff(counts, axis=0)
        self.times = np.arange(seconds)[:, None] + rng.random((seconds, nodes))
        load = counts[:-1, None, :, None] * rng.uniform(0.02, 0.1, resources)
        noise = rng.normal(0, 0.01, (seconds, 10, nodes, resources))
        self.usage = np.clip(0.1 + load + noise, 0, 1)
        self.received = rng.random((seconds, 10, nodes)) >= lost
        self.views = [Subspace.from_batch(rng.random((resources, 10))) for _ in range(seconds)]

    def play(self, model, node=None, stepping=None):
        """Yield the model's report of every second; `node` plays the history of that node alone."""
        for second, usage in enumerate(self.usage):
            for tick, sample in enumerate(usage):
                at = self.start + second + tick / 10
                received = self.received[second, tick]
                if node is None:
                    model.observe(sample, at, received)
                else:
                    model.observe(sample[node], at, received[node])
            for i in range(self.changes.shape[1]) if node is None else [node]:
                change = int(self.changes[second, i])
                if change:
                    model.pod_event(change, self.start + self.times[second, i], node=i if node is None else None)
            view = self.views[second] if second % 3 == 0 else None
            if stepping is None:
                yield model.step(self.start + second + 1.0, view)
            else:
                yield model.step(self.start + second + 1.0, view, nodes=stepping)


class TestFreshNode:
    @EVERY_VARIANT
    def test_advertises_two_pods(self, variant):
        report, _ = run(NodeModel(variant), IDLE, 0.0)
        assert report.pod_capacity == pytest.approx(2.0)
        assert report.pods == 0

    @EVERY_VARIANT
    def test_bootstraps_from_the_pods_that_run_already(self, variant):
        """What an empty node would have and this one has not is what the pods take."""
        report, _ = run(NodeModel(variant, pods=3), loaded(3), 0.0)
        assert report.pods == 3
        assert report.baseline == pytest.approx(report.capacity_signal + 3 * report.pod_cost)
        # CPU is what runs out: 0.05 + 3 x 0.1 are used, so each pod accounts for 0.35 / 3.
        assert report.pod_capacity == pytest.approx(0.65 / (0.35 / 3))

    @EVERY_VARIANT
    @pytest.mark.parametrize("pods", [8, 10, 12])
    def test_a_node_that_starts_full_takes_no_more(self, variant, pods):
        """A saturated kernel reports a little less than full, which is next to no room, not half a node a pod."""
        model, at, running = NodeModel(variant, pods=pods), 0.0, pods
        for _ in range(30):
            report, at = run(model, (0.995, 0.2), at, 2)
            if report.pod_capacity >= 1:
                running += 1
                model.pod_event(+1, at=at)
        assert running == pods

    def test_a_wrong_bootstrap_is_put_right(self):
        model = NodeModel(pods=6)
        at = 0.0
        for n in [6, 4, 2, 0]:
            model.reconcile(n, at=at)
            _, at = run(model, loaded(n), at, 20)
        for n in [1, 2, 3, 4, 5] * 6:
            model.reconcile(n, at=at)
            report, at = run(model, loaded(n), at, 5)
        # CPU is what runs out: (1 - 0.05) / 0.1 pods in all.
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
    def test_never_advertises_more_than_the_node_may_run(self, max_pods):
        report, _ = run(NodeModel(max_pods=max_pods), IDLE, 0.0)
        assert report.pod_capacity == pytest.approx(min(max_pods, 2.0))


class TestCapacity:
    @pytest.mark.parametrize("usage", [(1.0, 0.2), (0.1, 1.0), (1.0, 1.0)])
    @pytest.mark.parametrize("variant", [THESIS_REBASED, THESIS_LITERAL], ids=lambda variant: variant.name)
    def test_a_saturated_node_advertises_nothing(self, variant, usage):
        fresh, _ = run(NodeModel(variant), usage, 0.0)
        assert fresh.pod_capacity == 0
        almost, _ = run(NodeModel(variant), np.multiply(usage, 1 - 1e-6), 0.0)
        assert almost.pod_capacity == 0, "nor one that is full but for a rounding"
        model, at = warmed_up(variant)
        # The average approaches 1 without ever reaching it.
        report, _ = run(model, usage, at, 8)
        assert report.pod_capacity < 1e-3

    def test_learns_what_a_node_can_take(self):
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
        assert report.pod_capacity == 0, "also where more run than may"

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
    def test_is_a_number_of_pods_whatever_happens(self, variant, history):
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
        """Something else than pods keeps the node busy when the agent starts, an image build perhaps."""
        levels = np.array([0.5, 0.9, 0.99, 0.999, 0.9999, 1.0])
        model = NodeModel(nodes=levels.size)
        _, at = run(model, np.column_stack([levels, np.full(levels.size, 0.2)]), 0.0, 60)
        report, _ = run(model, [IDLE] * levels.size, at, 120)
        assert (report.pod_capacity > 1.05).all()

    def test_an_idle_node_whose_telemetry_fades_to_nothing_stays_modest(self):
        model, at = warmed_up()
        report, at = run(model, (0.0, 0.0), at, 30)
        modest = report.pod_capacity
        saved = model.save()
        # What hours of zero telemetry come to.
        saved["own_values"] = np.zeros_like(saved["own_values"])
        model.restore(saved)
        report = model.step(at=at)
        assert report.capacity_signal == np.inf
        assert report.pod_capacity == pytest.approx(modest, rel=0.05)


class TestUnits:
    """k counts average workloads, and their size changes several-fold; the rebased filters do not count in it."""

    @staticmethod
    def capacities(variant, factors):
        """The warm node's Pod-Capacity as the aggregator's view grows in size, not in direction."""
        variant = varied(variant, global_weight=1.0, batch_weight=0.0)
        model, at = NodeModel(variant), 0.0
        view = Subspace.from_batch(np.tile([[0.4], [0.3]], 10))
        for n in [0, 1, 2, 3, 4, 5, 0, 3, 5]:
            model.reconcile(n, at=at)
            _, at = run(model, loaded(n), at, 4, global_subspace=view)
        found = []
        for factor in factors:
            grown = Subspace(view.basis, view.singular_values * factor)
            report, at = run(model, loaded(5), at, global_subspace=grown)
            found.append((float(report.pod_capacity), float(report.capacity_signal)))
        return np.array(found).T

    @pytest.mark.parametrize("factor", [0.25, 2.0, 8.0])
    def test_rebased_pod_capacity_does_not_depend_on_the_size_of_the_workload(self, factor):
        capacity, signal = self.capacities(THESIS_REBASED, [1.0, factor])
        steady, steady_signal = self.capacities(THESIS_REBASED, [1.0, 1.0])
        assert signal[1] == steady_signal[1] / factor
        assert capacity[1] == steady[1]

    @pytest.mark.parametrize("factor", [0.25, 2.0, 8.0])
    def test_literal_pod_capacity_does(self, factor):
        capacity, _ = self.capacities(THESIS_LITERAL, [1.0, factor])
        assert capacity[1] / capacity[0] == pytest.approx(1 / factor, rel=0.5)

    def test_a_rescaling_leaves_what_was_learned_relative_to_the_idle_node(self):
        variant = varied(global_weight=1.0)
        model, at = NodeModel(variant), 0.0
        view = Subspace.from_batch(np.tile([[0.4], [0.3]], 10))
        _, at = run(model, IDLE, at, 10, global_subspace=view)
        model.pod_event(+1, at=at)
        before, at = run(model, loaded(1), at, 10)
        grown = Subspace(view.basis, view.singular_values * 4)
        after, _ = run(model, loaded(1), at, global_subspace=grown)
        assert after.baseline * 4 == pytest.approx(before.baseline, rel=1e-6)
        assert after.pod_cost * 4 == pytest.approx(before.pod_cost, rel=0.05)


class TestHoldOff:
    def test_counts_pods_off_the_baseline(self):
        """Eq. 3.6 while containers churn, Eq. 3.5 otherwise; and nothing is learned meanwhile."""
        model, at = warmed_up()
        model.pod_event(+2, at=at)
        _, at = run(model, loaded(2), at, 5)
        known = model.save()
        model.pod_event(+1, at=at + 0.5)
        # The start of a container takes all of the CPU.
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

    def test_an_event_that_is_heard_late_does_not_shorten_it(self):
        model, at = warmed_up()
        model.pod_event(+1, at=at + 0.9)
        model.pod_event(+1, at=at - 0.5)
        before = state_of(model)["estimator_cost"]
        run(model, loaded(2), at)
        assert state_of(model)["estimator_cost"] == before

    @pytest.mark.parametrize(("node", "held"), [(None, False), (0, True)])
    def test_no_change_is_no_event_unless_the_node_is_named(self, node, held):
        """A container that failed to start leaves the count as it was, and has churned all the same."""
        model, at = warmed_up()
        before = state_of(model)
        model.pod_event(0, at=at + 0.9, node=node)
        run(model, IDLE, at)
        assert (state_of(model)["estimator_baseline_variance"] == before["estimator_baseline_variance"]) is held

    def test_other_nodes_learn_on(self):
        weather = Weather(nodes=3, seconds=20, lost=0)
        calm, disturbed = NodeModel(nodes=3), NodeModel(nodes=3)
        for one, other in zip(weather.play(calm), weather.play(disturbed), strict=True):
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
        assert not np.isnan(model.save()["estimator_baseline"]).any(), "the refused event held nothing off"

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
    def test_refuses_changes_that_make_no_sense(self, change):
        model = NodeModel(nodes=2, pods=4)
        for call in (model.pod_event, model.reconcile):
            with pytest.raises(InvalidInput):
                call(change, at=0.0)
        with pytest.raises(InvalidInput):
            NodeModel(nodes=2, pods=change)
        assert model.pods.tolist() == [4, 4]

    @pytest.mark.parametrize("arguments", [{"node": 2}, {"node": -1}, {"at": np.nan}, {"node": 0, "change": [1, 1]}])
    def test_refuses_events_nowhere_and_never(self, arguments):
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


class TestSamples:
    def test_a_lost_sample_is_one_that_was_never_taken(self):
        rng = np.random.default_rng(1)
        told, silent = NodeModel(), NodeModel()
        for second in range(20):
            for tick in range(10):
                at, sample, received = second + tick / 10, rng.random(2), rng.random() > 0.4
                told.observe(sample if received else [np.nan, 7.0], at, received)
                if received:
                    silent.observe(sample, at)
            assert values_of(told.step(at=second + 1.0)) == values_of(silent.step(at=second + 1.0))
        assert told.late_samples.sum() == 0

    def test_a_late_sample_is_dropped_and_counted(self):
        rng = np.random.default_rng(2)
        told, silent = NodeModel(nodes=2), NodeModel(nodes=2)
        for second in range(10):
            for tick in range(10):
                at, sample = second + tick / 10, rng.random((2, 2))
                for model in (told, silent):
                    model.observe(sample, at)
                told.observe(rng.random((2, 2)), at, received=[True, False])
                told.observe(rng.random((2, 2)), at - 0.05, received=[True, False])
            assert values_of(told.step(at=second + 1.0)) == values_of(silent.step(at=second + 1.0))
        assert told.late_samples.tolist() == [200, 0]
        assert silent.late_samples.tolist() == [0, 0]

    def test_a_sample_that_overtook_nothing_is_not_late(self):
        """Sent late, but the next one was lost."""
        one, other = NodeModel(), NodeModel()
        one.observe(IDLE, at=0.1)
        other.observe(IDLE, at=0.1)
        other.observe(IDLE, at=0.3, received=False)
        one.observe((0.9, 0.9), at=0.2)
        other.observe((0.9, 0.9), at=0.2)
        assert values_of(one.step(at=1.0)) == values_of(other.step(at=1.0))
        assert other.late_samples == 0

    def test_holes_in_a_batch_do_not_make_the_workload_smaller(self):
        full, sparse = NodeModel(), NodeModel()
        for tick in range(10):
            full.observe((0.3, 0.2), at=tick / 10)
            sparse.observe((0.3, 0.2), at=tick / 10, received=tick in (0, 7))
        np.testing.assert_allclose(full.step(at=1.0).subspace.workload, sparse.step(at=1.0).subspace.workload)

    def test_a_full_batch_forgets_its_oldest_sample(self):
        variant = varied(batch_size=4, alpha_slow=1.0, alpha_fast=1.0)
        rng = np.random.default_rng(3)
        samples = np.round(rng.random((11, 2)) * 64) / 64
        model = NodeModel(variant)
        for tick, sample in enumerate(samples):
            model.observe(sample, at=float(tick))
        columns = model.step(at=20.0).subspace.columns
        np.testing.assert_allclose(columns @ columns.T, samples[-4:].T @ samples[-4:], atol=1e-12)

    def test_without_telemetry_nothing_is_learned(self):
        """Least of all that pods which came meanwhile cost nothing, or that their load is the idle node's."""
        model, at = warmed_up()
        before = state_of(model)
        model.pod_event(+8, at=at)
        for _ in range(30):
            at += 1
            model.step(at=at)
        model.pod_event(-8, at=at)
        for _ in range(30):
            at += 1
            model.step(at=at)
        after = state_of(model)
        del before["last_event_at"], after["last_event_at"]
        assert after == before

    def test_without_telemetry_a_node_counts_its_pods_and_then_offers_nothing(self):
        model, at = warmed_up()
        capacity = model.step(at=at + 0.5).pod_capacity
        for taken in range(1, 4):
            at += 2.0
            model.pod_event(+1, at=at)
            assert model.step(at=at + 1.5).pod_capacity <= capacity - taken + 0.5
        assert model.step(at=at + 60.0).pod_capacity == 0

    @pytest.mark.parametrize(
        ("sample", "arguments"),
        [
            pytest.param([[np.nan, 0.1], [0.1, 0.1]], {}, id="nan"),
            pytest.param([[0.1, 0.1], [np.inf, 0.1]], {}, id="inf"),
            pytest.param([[0.1, 0.1], [-0.1, 0.1]], {}, id="below-0"),
            pytest.param([[0.1, 0.1], [0.1, 1.1]], {}, id="above-1"),
            pytest.param([[0.1, np.nan], [0.1, np.nan]], {"received": [True, False]}, id="nan-received"),
            pytest.param([0.1, 0.1], {}, id="one-node"),
            pytest.param([[0.1], [0.1]], {}, id="one-resource"),
            pytest.param([[0.1, 0.1], [0.1]], {}, id="ragged"),
            pytest.param([["a", "b"], ["c", "d"]], {}, id="words"),
            pytest.param(None, {}, id="none"),
            pytest.param([[0.1, 0.1], [0.1, 0.1]], {"received": [True, True, True]}, id="received-of-three"),
            pytest.param([[0.1, 0.1], [0.1, 0.1]], {"at": np.nan}, id="at-nan"),
            pytest.param([[0.1, 0.1], [0.1, 0.1]], {"at": np.inf}, id="at-inf"),
        ],
    )
    def test_a_wrong_one_is_refused_without_any_change(self, sample, arguments):
        disturbed, calm = NodeModel(nodes=2), NodeModel(nodes=2)
        rng = np.random.default_rng(4)
        for tick in range(25):
            usage = rng.random((2, 2))
            for model in (disturbed, calm):
                model.observe(usage, at=tick / 10)
            with pytest.raises(InvalidInput):
                disturbed.observe(sample, **{"at": tick / 10 + 0.05} | arguments)
            if tick % 10 == 9:
                assert values_of(disturbed.step(at=tick / 10)) == values_of(calm.step(at=tick / 10))
        assert np.array_equal(disturbed.late_samples, calm.late_samples)

    def test_refused_first_sample_leaves_a_fresh_model(self):
        model = NodeModel()
        with pytest.raises(InvalidInput):
            model.observe([np.nan, 0.1], at=0.0)
        assert model.step(at=1.0).pod_capacity == 0


class TestSeries:
    """Samples taken in at a stretch, as an agent does."""

    @given(
        samples=st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=0, max_size=25),
        gaps=st.lists(st.sampled_from([-0.05, 0.0, 0.1, 0.35]), min_size=25, max_size=25),
    )
    def test_is_the_same_as_one_by_one(self, samples, gaps):
        times = np.cumsum(gaps)[: len(samples)]
        one_by_one, series = NodeModel(), NodeModel()
        for sample, at in zip(samples, times, strict=True):
            one_by_one.observe(sample, at=at)
        series.observe_series(np.reshape(samples, (-1, 2)), times)
        assert values_of(series.step(at=10.0)) == values_of(one_by_one.step(at=10.0))
        assert series.late_samples == one_by_one.late_samples

    @pytest.mark.parametrize(
        ("model", "samples", "at", "message"),
        [
            (NodeModel(), [[0.5, 1.5]], [1.0], "samples must be finite and in"),
            (NodeModel(), [[0.5, 0.5]], [float("nan")], "at must be finite"),
            (NodeModel(), [[0.5, 0.5]], [1.0, 2.0], r"shape \(n, 2\) and their times \(n,\)"),
            (NodeModel(), [0.5, 0.5], 1.0, r"shape \(n, 2\)"),
            (NodeModel(nodes=1), [[0.5, 0.5]], [1.0], "of one node"),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(self, model, samples, at, message):
        before = model.save()
        with pytest.raises(InvalidInput, match=message):
            model.observe_series(samples, at)
        after = model.save()
        assert all(before[name].tobytes() == after[name].tobytes() for name in before)


class TestManyNodes:
    @EVERY_FILTER
    def test_a_node_among_many_is_that_node_alone(self, variant):
        weather = Weather(nodes=3, seconds=20)
        together = list(weather.play(NodeModel(variant, nodes=3)))
        for node in range(3):
            alone = weather.play(NodeModel(variant), node)
            for of_many, of_one in zip(together, alone, strict=True):
                assert values_of(of_many, node) == values_of(of_one)

    @pytest.mark.parametrize("resources", [("cpu",), ("cpu", "memory", "disk"), tuple("abcdef")])
    def test_any_number_of_resources_may_be_observed(self, resources):
        weather = Weather(nodes=2, seconds=10, resources=len(resources))
        together = list(weather.play(NodeModel(nodes=2, resources=resources)))
        for node in range(2):
            for of_many, of_one in zip(together, weather.play(NodeModel(resources=resources), node), strict=True):
                assert values_of(of_many, node) == values_of(of_one)
        assert np.isfinite(together[-1].pod_capacity).all()

    @pytest.mark.parametrize("rank", [1, 2, 9])
    def test_any_rank_may_be_kept(self, rank):
        weather = Weather(nodes=3, seconds=15, resources=4)
        for report in weather.play(NodeModel(varied(rank=rank), nodes=3, resources=tuple("abcd"))):
            assert report.subspace.basis.shape == (3, 4, min(rank, 4))
        assert np.isfinite(report.pod_capacity).all()

    def test_groups_that_step_in_turn_are_as_if_all_stepped_together(self):
        weather = Weather(nodes=5, seconds=20)
        whole = weather.play(NodeModel(nodes=5))
        parts = NodeModel(nodes=5)
        for report, first in zip(whole, weather.play(parts, stepping=[3, 0]), strict=True):
            view = weather.views[int(report.at_s) - 1] if (int(report.at_s) - 1) % 3 == 0 else None
            second = parts.step(report.at_s, view, nodes=np.array([1, 4, 2]))
            for group, found in (([3, 0], first), ([1, 4, 2], second)):
                for position, node in enumerate(group):
                    assert values_of(found, position) == values_of(report, node)

    def test_nodes_that_do_not_step_are_not_touched(self):
        weather = Weather(nodes=3, seconds=10)
        model = NodeModel(nodes=3)
        for _ in weather.play(model, stepping=[1]):
            pass
        untouched_model = NodeModel(nodes=3)
        seen = ("pods", "smoothed", "deviating", "batch", "batched", "last_sample_at", "last_event_at")
        for name, array in model.save().items():
            if name in seen:  # all nodes observe
                continue
            untouched = untouched_model.save()[name]
            assert np.array_equal(array[[0, 2]], untouched[[0, 2]], equal_nan=True), name

    def test_no_nodes_is_an_empty_report(self):
        model = NodeModel(nodes=3)
        before = state_of(model)
        assert model.step(at=1.0, nodes=[]).pod_capacity.shape == (0,)
        assert state_of(model) == before

    @pytest.mark.parametrize("nodes", [[3], [-1], [0, 7], [0.0], [True, False, True], [[0], [1]], "ab"])
    def test_refuses_nodes_that_do_not_exist_without_any_change(self, nodes):
        model = NodeModel(nodes=3)
        _, at = run(model, [IDLE] * 3, 0.0)
        before = state_of(model)
        view = Subspace.from_batch([[0.5], [0.5]])
        for call in (
            lambda: model.step(at, view, nodes=nodes),
            lambda: model.adopt(view, nodes),
            lambda: model.exchanged(at, nodes),
        ):
            with pytest.raises(InvalidInput, match="nodes must be"):
                call()
        assert state_of(model) == before

    def test_reports_of_one_node_are_scalars(self):
        report, _ = run(NodeModel(), IDLE, 0.0)
        assert np.shape(report.pod_capacity) == np.shape(report.pods) == np.shape(report.exchange_due) == ()
        assert report.usage.shape == (2,)
        assert report.subspace.basis.shape == (2, 2)

    def test_a_report_is_the_callers(self):
        model, at = NodeModel(nodes=2), 0.0
        twin = NodeModel(nodes=2)
        report, _ = run(model, [IDLE] * 2, at)
        run(twin, [IDLE] * 2, at)
        for name in ("usage", "capacity_signal", "baseline", "pod_cost", "pods", "pod_capacity"):
            getattr(report, name)[...] = 9
        report.subspace.basis[...] = 9
        report.subspace.singular_values[...] = 9
        assert values_of(run(model, [IDLE] * 2, 1.0)[0]) == values_of(run(twin, [IDLE] * 2, 1.0)[0])

    @pytest.mark.parametrize(
        "arguments", [{"nodes": 0}, {"nodes": -1}, {"max_pods": 0}, {"resources": ()}, {"nodes": 2, "pods": [1, 2, 3]}]
    )
    def test_refuses_to_be_built_without_sense(self, arguments):
        with pytest.raises(InvalidInput):
            NodeModel(**arguments)

    def test_refuses_a_time_that_is_none(self):
        model = NodeModel()
        run(model, IDLE, 0.0)
        before = state_of(model)
        with pytest.raises(InvalidInput, match="at must be finite"):
            model.step(at=np.nan, global_subspace=Subspace.from_batch([[0.5], [0.5]]))
        assert state_of(model) == before


class TestExchange:
    BUSY = Subspace.from_batch(np.tile([[0.9], [0.3]], 10))

    def test_is_due_at_first_and_again_when_the_workload_has_moved(self):
        model, at = NodeModel(varied(exchange_age_s=np.inf)), 0.0
        report, at = run(model, IDLE, at)
        assert report.exchange_due
        report, at = run(model, IDLE, at)
        assert report.exchange_due, "until it has happened"
        model.exchanged(report.at_s)
        report, at = run(model, IDLE, at, 20)
        assert not report.exchange_due
        report, at = run(model, (0.06, 0.20), at)
        assert not report.exchange_due, "a small move"
        report, at = run(model, (0.6, 0.3), at, 3)
        assert report.exchange_due

    def test_is_due_again_when_the_last_one_is_old(self):
        """A node in steady state has nothing to say, but its peers may."""
        model, at = NodeModel(varied(exchange_age_s=3.0)), 0.0
        report, at = run(model, IDLE, at)
        for _ in range(2):
            model.exchanged(report.at_s)
            due = []
            for _ in range(4):
                report, at = run(model, IDLE, at)
                due.append(bool(report.exchange_due))
            assert due == [False, False, True, True]

    def test_is_due_for_each_node_by_itself(self):
        model, at = NodeModel(nodes=3), 0.0
        report, at = run(model, [IDLE] * 3, at)
        model.exchanged(report.at_s, [0, 2])
        report, at = run(model, [IDLE] * 3, at)
        assert report.exchange_due.tolist() == [False, True, False]

    def test_the_global_view_enters_the_signal_with_its_weight(self):
        model = NodeModel()
        report, _ = run(model, IDLE, 0.0, global_subspace=self.BUSY)
        both = Subspace.merge(report.subspace, self.BUSY, 0.5, 0.5)
        assert report.capacity_signal == pytest.approx(capacity_signal(report.usage, both.workload))

    def test_the_global_view_is_not_fed_back_into_the_own_one(self):
        with_view, without = NodeModel(), NodeModel()
        one, _ = run(with_view, IDLE, 0.0, 5, global_subspace=self.BUSY)
        other, _ = run(without, IDLE, 0.0, 5)
        assert np.array_equal(one.subspace.basis, other.subspace.basis)
        assert np.array_equal(one.subspace.singular_values, other.subspace.singular_values)
        assert one.capacity_signal < other.capacity_signal

    def test_the_last_view_stays_in_force(self):
        given_once, given_always = NodeModel(), NodeModel()
        given_once.adopt(self.BUSY)
        one, _ = run(given_once, IDLE, 0.0, 5)
        other, _ = run(given_always, IDLE, 0.0, 5, global_subspace=self.BUSY)
        assert values_of(one) == values_of(other)

    def test_every_node_may_be_answered_differently(self):
        views = Subspace.from_batch(np.random.default_rng(1).random((2, 2, 10)))
        together, apart = NodeModel(nodes=3), NodeModel(nodes=3)
        together.adopt(views, [2, 0])
        for position, node in enumerate([2, 0]):
            apart.adopt(Subspace(views.basis[position], views.singular_values[position]), [node])
        one, _ = run(together, [IDLE] * 3, 0.0)
        other, _ = run(apart, [IDLE] * 3, 0.0)
        assert values_of(one) == values_of(other)
        assert len(set(one.capacity_signal.tolist())) == 3

    def test_a_view_of_lower_rank_is_taken(self):
        low = Subspace.from_batch(np.tile([[0.9], [0.3]], 10), rank=1)
        one, _ = run(NodeModel(), IDLE, 0.0, global_subspace=low)
        other, _ = run(NodeModel(), IDLE, 0.0, global_subspace=self.BUSY)
        assert one.pod_capacity == pytest.approx(other.pod_capacity)
        assert one.capacity_signal == pytest.approx(other.capacity_signal)

    def test_nothing_of_the_last_view_remains_under_the_next(self):
        fresh, used = NodeModel(nodes=2), NodeModel(nodes=2)
        used.adopt(Subspace.from_batch(np.random.default_rng(2).random((2, 10))))
        for model in (fresh, used):
            model.adopt(Subspace.from_batch([[0.9], [0.3]], rank=1))
        assert state_of(fresh) == state_of(used)

    def test_a_view_reaches_a_node_before_its_own_telemetry(self):
        model = NodeModel()
        report = model.step(at=1.0, global_subspace=self.BUSY)
        assert report.capacity_signal == pytest.approx(capacity_signal([0, 0], self.BUSY.workload))
        assert report.pod_capacity == 0

    @pytest.mark.parametrize(
        "wrong",
        [Subspace.from_batch(np.ones((3, 4))), Subspace.from_batch(np.ones((5, 2, 4)))],
        ids=["resources", "nodes"],
    )
    def test_refuses_a_view_that_does_not_fit_without_any_change(self, wrong):
        model = NodeModel(nodes=2)
        run(model, [IDLE] * 2, 0.0, global_subspace=self.BUSY)
        before = state_of(model)
        with pytest.raises(InvalidInput):
            model.adopt(wrong)
        with pytest.raises(InvalidInput):
            model.step(at=2.0, global_subspace=wrong)
        assert state_of(model) == before


class TestState:
    @EVERY_FILTER
    def test_restored_continues_identically(self, variant):
        before, after = (Weather(nodes=3, seconds=12, seed=seed) for seed in (1, 2))
        after.changes = np.maximum(after.changes, 0)
        after.start = 12.0
        model = NodeModel(variant, nodes=3)
        for report in before.play(model):
            model.exchanged(report.at_s)
        restored = NodeModel(variant, nodes=3)
        restored.observe(np.full((3, 2), 0.5), at=99.0)  # what it has seen itself is replaced
        restored.restore(model.save())
        assert state_of(restored) == state_of(model)
        for one, other in zip(after.play(model), after.play(restored), strict=True):
            assert values_of(one) == values_of(other)
            if one.at_s == 17.0:
                model.exchanged(one.at_s)
                restored.exchanged(other.at_s)

    def test_a_clock_that_began_anew_makes_no_sample_late(self):
        model, at = warmed_up()
        restored = NodeModel()
        restored.restore(model.save(), now=0.0)
        expected, _ = run(model, IDLE, at, 3)
        report, _ = run(restored, IDLE, 0.0, 3)
        assert report.pod_capacity == pytest.approx(expected.pod_capacity)
        assert restored.late_samples == 0

    def test_a_restored_node_that_sees_nothing_offers_nothing(self):
        model, at = warmed_up()
        restored = NodeModel()
        restored.restore(model.save())
        assert restored.step(at=at + 60.0).pod_capacity == 0

    @EVERY_FILTER
    def test_a_node_that_is_reset_is_a_new_one_and_the_others_go_on(self, variant):
        before, after = (Weather(nodes=3, seconds=12, seed=seed) for seed in (1, 2))
        after.changes = np.maximum(after.changes, 0)
        after.start = 12.0
        model, untouched = NodeModel(variant, nodes=3), NodeModel(variant, nodes=3)
        for _ in zip(before.play(model), before.play(untouched), strict=True):
            pass
        model.reset([1])
        fresh = NodeModel(variant, nodes=3)
        plays = [after.play(one) for one in (model, untouched, fresh)]
        for one, other, new in zip(*plays, strict=True):
            assert values_of(one, 0) == values_of(other, 0)
            assert values_of(one, 1) == values_of(new, 1)
            assert values_of(one, 2) == values_of(other, 2)

    def test_only_nodes_that_there_are_can_be_reset(self):
        with pytest.raises(InvalidInput, match=r"nodes must be in \[0, 2\], got \[3\]"):
            NodeModel(nodes=3).reset([3])

    def test_keeps_what_was_learned(self):
        model, at = warmed_up()
        restored, fresh = NodeModel(), NodeModel()
        restored.restore(model.save())
        expected, _ = run(model, IDLE, at)
        assert run(restored, IDLE, at)[0].pod_capacity == pytest.approx(expected.pod_capacity, rel=0.02)
        assert run(fresh, IDLE, at)[0].pod_capacity < 0.5 * expected.pod_capacity

    def test_survives_json(self):
        model, _ = warmed_up()
        restored = NodeModel()
        restored.restore(json.loads(json.dumps({name: array.tolist() for name, array in model.save().items()})))
        assert state_of(restored) == state_of(model)

    def test_survives_strict_json_which_knows_no_infinity(self):
        model = NodeModel()
        for tick in range(1, 11):
            model.observe([0.2, 0.3], at=tick / 10)
        model.step(at=1.0)
        lists = {name: array.tolist() for name, array in model.save().items()}
        assert -math.inf in lists["last_event_at"]
        restored = NodeModel()
        restored.restore(msgspec.json.decode(msgspec.json.encode(lists)))
        assert state_of(restored) == state_of(model)

    def test_what_was_saved_is_a_copy(self):
        model, _ = warmed_up()
        before, saved = state_of(model), model.save()
        restored = NodeModel()
        restored.restore(saved)
        for array in saved.values():
            array[...] = 0.5
        assert state_of(model) == before
        assert state_of(restored) == before

    def test_a_state_of_nothing_is_a_state(self):
        model, restored = NodeModel(), NodeModel()
        restored.restore(model.save())
        assert values_of(run(model, IDLE, 0.0)[0]) == values_of(run(restored, IDLE, 0.0)[0])

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda state: state.pop("own_basis"), id="array-missing"),
            pytest.param(lambda state: state.pop("estimator_cost"), id="estimate-missing"),
            pytest.param(lambda state: state.update(own_values=np.zeros((1, 3))), id="other-shape"),
            pytest.param(lambda state: state.update(own_values=[[np.nan, 1.0]]), id="nan"),
            pytest.param(lambda state: state.update(own_values=[[-1.0, -1.0]]), id="negative"),
            pytest.param(lambda state: state.update(global_basis=[[[np.inf, 1.0], [0.0, 1.0]]]), id="inf"),
            pytest.param(lambda state: state.update(own_basis=[[[1e3, 0.0], [0.0, 1.0]]]), id="no-basis"),
            pytest.param(lambda state: state.update(idle_usage=[[7.0, 0.1]]), id="impossible-usage"),
            pytest.param(lambda state: state.update(has_own=[np.nan]), id="neither-true-nor-false"),
            pytest.param(lambda state: state.update(own_basis="everything"), id="word"),
            pytest.param(lambda state: state.update(own_basis=[[[1.0, 0.0], [0.0]]]), id="ragged"),
            pytest.param(lambda state: state.update(estimator_baseline=[np.inf]), id="estimate-infinite"),
            pytest.param(
                lambda state: state.update({name: np.ones(2) for name in state if name.startswith("estimator_")}),
                id="estimates-of-two-nodes",
            ),
        ],
    )
    def test_refuses_a_damaged_state_without_any_change(self, damage):
        model, _ = warmed_up()
        before, state = state_of(model), model.save()
        damage(state)
        with pytest.raises(InvalidState):
            model.restore(state)
        assert state_of(model) == before

    @pytest.mark.parametrize(
        "other",
        [
            {"nodes": 2},
            {"resources": ("cpu", "memory", "disk")},
            {"variant": varied(estimator="joint")},
            {"variant": varied(estimator="delta")},
            {"variant": varied(rank=1)},
        ],
        ids=["nodes", "resources", "joint", "delta", "rank"],
    )
    def test_refuses_the_state_of_another_model(self, other):
        with pytest.raises(InvalidState):
            NodeModel().restore(NodeModel(**other).save())


def test_the_same_history_gives_the_same_bytes():
    first, second = (
        [values_of(report) for report in Weather(nodes=4, seconds=15).play(NodeModel(nodes=4))] for _ in range(2)
    )
    assert first == second


def test_a_state_in_another_unit_is_refused():
    state = NodeModel(THESIS_LITERAL).save()
    with pytest.raises(InvalidState, match="another unit"):
        NodeModel(THESIS_REBASED).restore(state)
