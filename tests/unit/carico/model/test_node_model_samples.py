"""How a node's model treats samples: lost, late and invalid ones, and series of samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.errors import InvalidInput
from carico.model.node_model import NodeModel

from .node_models import IDLE, state_of, values_of, varied, warmed_up


class TestSamples:
    def test_a_lost_sample_has_no_effect(self):
        rng = np.random.default_rng(1)
        tested, reference = NodeModel(), NodeModel()
        for second in range(20):
            for tick in range(10):
                at, sample, received = second + tick / 10, rng.random(2), rng.random() > 0.4
                tested.observe(sample if received else [np.nan, 7.0], at, received)
                if received:
                    reference.observe(sample, at)
            assert values_of(tested.step(at=second + 1.0)) == values_of(reference.step(at=second + 1.0))

    def test_a_late_sample_is_dropped(self):
        rng = np.random.default_rng(2)
        tested, reference = NodeModel(nodes=2), NodeModel(nodes=2)
        for second in range(10):
            for tick in range(10):
                at, sample = second + tick / 10, rng.random((2, 2))
                for model in (tested, reference):
                    model.observe(sample, at)
                tested.observe(rng.random((2, 2)), at, received=[True, False])
                tested.observe(rng.random((2, 2)), at - 0.05, received=[True, False])
            assert values_of(tested.step(at=second + 1.0)) == values_of(reference.step(at=second + 1.0))

    def test_a_sample_before_a_lost_one_is_not_late(self):
        """The sample came late, but the next one was lost."""
        one, other = NodeModel(), NodeModel()
        one.observe(IDLE, at=0.1)
        other.observe(IDLE, at=0.1)
        other.observe(IDLE, at=0.3, received=False)
        one.observe((0.9, 0.9), at=0.2)
        other.observe((0.9, 0.9), at=0.2)
        assert values_of(one.step(at=1.0)) == values_of(other.step(at=1.0))

    def test_missing_samples_do_not_shrink_the_workload(self):
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
        """In particular not that new pods cost nothing, or that their load is that of the idle node."""
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
    def test_an_invalid_sample_is_refused_without_any_change(self, sample, arguments):
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

    def test_a_refused_first_sample_leaves_the_model_fresh(self):
        model = NodeModel()
        with pytest.raises(InvalidInput):
            model.observe([np.nan, 0.1], at=0.0)
        assert model.step(at=1.0).pod_capacity == 0


class TestSeries:
    """Samples taken in at a stretch, as an agent does, come to the same bits as one by one, as the simulation does.

    An agent has ten samples of one node at a time, the simulation one sample of all nodes: numpy over nodes would cost
    the agent ten times as much, and a loop over samples the simulation.
    """

    @given(
        samples=st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=0, max_size=25),
        gaps=st.lists(st.sampled_from([-0.05, 0.0, 0.1, 0.35]), min_size=25, max_size=25),
    )
    def test_equals_observing_one_by_one(self, samples, gaps):
        times = np.cumsum(gaps)[: len(samples)]
        one_by_one, series = NodeModel(), NodeModel()
        for sample, at in zip(samples, times, strict=True):
            one_by_one.observe(sample, at=at)
        series.observe_series(np.reshape(samples, (-1, 2)), times)
        left, right = series.save(), one_by_one.save()
        assert {name: left[name].tobytes() for name in left} == {name: right[name].tobytes() for name in right}
        assert values_of(series.step(at=10.0)) == values_of(one_by_one.step(at=10.0))

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
    def test_an_invalid_series_is_refused_without_any_change(self, model, samples, at, message):
        before = model.save()
        with pytest.raises(InvalidInput, match=message):
            model.observe_series(samples, at)
        after = model.save()
        assert all(before[name].tobytes() == after[name].tobytes() for name in before)
