"""The three Kalman filters: their correction step compared with filterpy's, and the rules around it."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.errors import InvalidInput, InvalidState
from carico.model.estimators import ESTIMATORS, DeltaKalman, DualKalman, JointKalman, KalmanSettings

ALL = pytest.mark.parametrize("kind", ESTIMATORS.values(), ids=ESTIMATORS)
BASELINE, COST = 5.0, 0.4
# Only the correction: no drift, and bounds that no estimate reaches.
BARE = KalmanSettings(idle_drift=1.0, cost_floor=1e-9)


def truth(steps, seed=1, noise=0.02, most=10, baseline=BASELINE, cost=COST):
    """Return the signal of a node with this baseline and cost, and its changing number of pods."""
    rng = np.random.default_rng(seed)
    pods = np.clip(np.cumsum(rng.integers(-2, 3, steps)), 0, most)
    return baseline - cost * pods + noise * rng.normal(size=steps), pods


def state_of(estimator):
    return {name: array.tobytes() for name, array in estimator.save().items()}


@functools.cache
def learned_state(kind, cost):
    estimator = kind()
    for signal, n in zip(*truth(300, noise=0.0, cost=cost), strict=True):
        estimator.update(signal, n)
    return estimator.save()


def learned(kind, cost=COST):
    """Return a filter that has converged on a signal without noise."""
    estimator = kind()
    estimator.restore(learned_state(kind, cost))
    return estimator


def filter_of(x, P):
    """Return a filterpy filter of a constant state with one measured number."""
    from filterpy.kalman import KalmanFilter  # here, because the import takes a second

    found = KalmanFilter(dim_x=len(x), dim_z=1)
    found.x, found.P, found.F = np.reshape(x, (-1, 1)).astype(float), np.array(P, float), np.eye(len(x))
    return found


def learn(found, z, H, Q, R):
    found.predict(Q=np.diag(Q))
    found.update(z, R=R, H=np.reshape(H, (1, -1)))


class TestAgainstFilterpy:
    """The oracle gets the same absolute noises at every step: those of the settings times baseline²."""

    @pytest.mark.parametrize("seed", range(2))
    def test_dual_is_two_filters_of_one_dimension(self, seed):
        estimator = DualKalman(BARE)
        signals, pods = truth(200, seed)
        estimator.update(signals[0], pods[0])
        baseline = filter_of([estimator.baseline], [[estimator.save()["baseline_variance"]]])
        cost = filter_of([estimator.cost], [[estimator.save()["cost_variance"]]])
        for k, n in zip(signals[1:], pods[1:], strict=True):
            scale = baseline.x[0, 0] ** 2
            if n == 0:
                learn(baseline, k, [1], [BARE.baseline_process_noise * scale], BARE.measurement_noise * scale)
            else:
                measured = (baseline.x[0, 0] - k) / n
                learn(cost, measured, [1], [BARE.cost_process_noise * scale], BARE.measurement_noise * scale)
            estimator.update(k, n)
            self.check(estimator, [baseline.x[0, 0], cost.x[0, 0]], [baseline.P[0, 0], cost.P[0, 0]])

    @pytest.mark.parametrize("seed", range(2))
    def test_joint_is_one_filter_of_two_dimensions(self, seed):
        estimator = JointKalman(BARE)
        signals, pods = truth(200, seed)
        estimator.update(signals[0], pods[0])
        both = filter_of(
            [estimator.baseline, estimator.cost],
            np.diag([estimator.save()["baseline_variance"], estimator.save()["cost_variance"]]),
        )
        for k, n in zip(signals[1:], pods[1:], strict=True):
            scale = both.x[0, 0] ** 2
            noise = [BARE.baseline_process_noise * scale, BARE.cost_process_noise * scale]
            learn(both, k, [1, -n], noise, BARE.measurement_noise * scale)
            estimator.update(k, n)
            self.check(estimator, both.x[:, 0], np.diag(both.P))
            assert estimator.save()["covariance"] == pytest.approx(both.P[0, 1], rel=1e-9)

    @pytest.mark.parametrize("seed", range(2))
    def test_delta_is_one_filter_of_changes(self, seed):
        estimator = DeltaKalman(BARE)
        signals, pods = truth(200, seed)
        estimator.update(signals[0], pods[0])
        cost = filter_of([estimator.cost], [[estimator.save()["cost_variance"]]])
        for i in range(1, len(pods)):
            change = pods[i] - pods[i - 1]
            scale = float(estimator.baseline) ** 2
            if change:
                fall = signals[i - 1] - signals[i]
                learn(cost, fall, [change], [BARE.cost_process_noise * scale], BARE.measurement_noise * scale)
            estimator.update(signals[i], pods[i])
            baseline = signals[i] + cost.x[0, 0] * pods[i]
            variance = cost.P[0, 0] * pods[i] ** 2 + BARE.measurement_noise * scale
            self.check(estimator, [baseline, cost.x[0, 0]], [variance, cost.P[0, 0]])

    @staticmethod
    def check(estimator, state, variances):
        assert estimator.baseline == pytest.approx(state[0], rel=1e-9)
        assert estimator.cost == pytest.approx(state[1], rel=1e-9)
        assert estimator.save()["baseline_variance"] == pytest.approx(variances[0], rel=1e-9)
        assert estimator.save()["cost_variance"] == pytest.approx(variances[1], rel=1e-9)


class TestConvergence:
    @ALL
    def test_converges_in_spite_of_noise(self, kind):
        estimator = kind()
        signals, pods = (
            np.stack(found, axis=1) for found in zip(*(truth(500, seed, 0.1) for seed in range(5)), strict=True)
        )
        # The end of the history is busy, because the cost of an idle node drifts.
        noise, pods[-200:] = signals - BASELINE + COST * pods, np.arange(200)[:, None] // 5 % 6 + 1
        signals = BASELINE - COST * pods + noise
        for signal, n in zip(signals, pods, strict=True):
            estimator.update(signal, n)
        np.testing.assert_allclose(estimator.cost, COST, rtol=0.15)
        if kind is not DeltaKalman:  # which cannot estimate it (thesis §4.2.4)
            np.testing.assert_allclose(estimator.baseline, BASELINE, rtol=0.05)

    @ALL
    def test_variances_stay_positive_for_any_signal(self, kind):
        """The signal varies over six decades, where differences of large numbers would lose all precision."""
        rng = np.random.default_rng(1)
        estimator = kind()
        for step in range(400):
            n = rng.integers(0, 110, 200) * (step % 50 > 4)
            estimator.update(10 ** rng.uniform(-3, 3, 200), n)
        assert (estimator.baseline > 1e-7).all()
        assert (estimator.baseline < 1e7).all()
        assert (estimator.save()["baseline_variance"] > 0).all()
        assert (estimator.save()["cost_variance"] > 0).all()

    def test_joint_variances_stay_positive_after_very_precise_measurements(self):
        estimator, pods = JointKalman(), np.arange(1, 111)
        for signal in 10.0 ** -np.arange(12):
            for _ in range(20):
                estimator.update(np.full(110, signal), 0)
        before = estimator.save()["cost_variance"]
        for factor in (0.9, 0.8, 0.7):
            estimator.update(factor * signal, pods)
            assert (estimator.save()["cost_variance"] > 0).all()
            assert (estimator.save()["baseline_variance"] > 0).all()
        assert (estimator.save()["cost_variance"] < 1e-12 * before).all()

    def test_a_dual_filter_leaves_its_floor_immediately(self):
        """The filter's state is limited, too: a cost that went on falling below the floor would have to rise again."""
        estimator = learned(DualKalman)
        for _ in range(200):
            estimator.update(BASELINE, 4)
        assert estimator.cost == 0.05 * estimator.baseline
        estimator.update(BASELINE - 4 * COST, 4)
        assert estimator.cost > 0.05 * estimator.baseline

    @ALL
    def test_follows_a_rising_pod_cost(self, kind):
        estimator = learned(kind, cost=0.2)
        assert estimator.cost == pytest.approx(0.25, rel=0.01), "the floor, 1 / 20 of the baseline"
        for signal, n in zip(*truth(300, noise=0.0, cost=0.45), strict=True):
            estimator.update(signal, n)
        assert estimator.cost == pytest.approx(0.45, rel=0.05)

    @ALL
    def test_variance_falls_with_observations(self, kind):
        estimator = kind()
        estimator.update(BASELINE, 0)
        at_first = float(estimator.save()["cost_variance"])
        for signal, n in zip(*truth(100), strict=True):
            estimator.update(signal, n)
        assert 0 < estimator.save()["cost_variance"] < at_first / 3

    @ALL
    @settings(max_examples=20)
    @given(
        history=st.lists(
            st.tuples(st.floats(0, 3) | st.floats(-3, 3).map(lambda x: 10**x), st.integers(0, 110)),
            min_size=1,
            max_size=30,
        ),
        repeat=st.sampled_from([1, 10]),
    )
    def test_estimates_stay_in_range_for_any_input(self, kind, history, repeat):
        """Holds also for signals that contradict the model, with many pods that cost nothing or with jumps."""
        estimator, highest = kind(), 0.0
        for signal, n in history * repeat:
            estimator.update(signal, n)
            highest = max(highest, signal * (1 + n))
            if np.isnan(estimator.baseline):
                continue
            assert estimator.baseline > 0
            if kind is not JointKalman:  # which may extrapolate beyond anything seen
                assert estimator.baseline <= 2 * highest
            assert estimator.cost >= 0.05 * estimator.baseline * (1 - 1e-12)
            assert estimator.cost <= 2 * max(estimator.baseline, highest)
            assert estimator.save()["cost_variance"] >= 0
            assert estimator.save()["baseline_variance"] >= 0

    @ALL
    @pytest.mark.parametrize("pods", [15, 25, 60, 110])
    def test_pods_of_almost_no_cost_do_not_raise_the_baseline(self, kind, pods):
        """With more than 1 / floor pods the floor contradicts the signal; this must not affect the baseline."""
        estimator = kind()
        for _ in range(5):
            estimator.update(1.0, 0)
        for _ in range(300):
            estimator.update(1.0 - 0.005 * pods, pods)
        assert estimator.baseline == pytest.approx(1.0, rel=0.1)
        assert estimator.cost == pytest.approx(0.05, rel=0.1)


class TestFirstSample:
    @ALL
    def test_all_estimates_are_nan_before_the_first_sample(self, kind):
        estimator = kind()
        assert np.isnan(
            [
                estimator.baseline,
                estimator.cost,
                estimator.save()["baseline_variance"],
                estimator.save()["cost_variance"],
            ]
        ).all()

    @ALL
    @pytest.mark.parametrize("pods", [0, 1, 7, 50])
    def test_initialises_while_pods_run_too(self, kind, pods):
        estimator = kind()
        estimator.update(4.0, pods)
        assert estimator.baseline == 4.0 + 2.0 * pods
        assert estimator.cost == max(2.0, 0.05 * estimator.baseline)
        assert estimator.save()["baseline_variance"] > 0
        assert estimator.save()["cost_variance"] > 0

    @ALL
    def test_an_initial_estimate_with_pods_has_more_variance(self, kind):
        idle, busy = kind(), kind()
        idle.update(4.0, 0)
        busy.update(4.0, 5)
        assert busy.save()["baseline_variance"] / busy.baseline**2 > idle.save()["baseline_variance"] / idle.baseline**2

    @ALL
    def test_a_wrong_initial_estimate_is_corrected_once_the_node_is_idle(self, kind):
        estimator = kind()
        for n in [6] * 30 + [4] * 30 + [2] * 30 + [0] * 60 + [1, 2, 3, 4, 5, 6] * 40:
            estimator.update(BASELINE - COST * n, n)
        assert estimator.baseline == pytest.approx(BASELINE, rel=0.02)
        assert estimator.cost == pytest.approx(COST, rel=0.05)

    @ALL
    @pytest.mark.parametrize("useless", [0.0, -1.0, np.nan, np.inf])
    def test_waits_for_a_usable_sample(self, kind, useless):
        estimator = kind()
        estimator.update(useless, 0)
        estimator.update(3.0, 0, hold_off=True)
        assert np.isnan(estimator.baseline)
        estimator.update(3.0, 0)
        assert estimator.baseline == 3.0


class TestHalt:
    @ALL
    @pytest.mark.parametrize(
        ("signal", "pods", "hold_off"),
        [
            pytest.param(0.0, 3, False, id="signal-zero"),
            pytest.param(1e-9, 3, False, id="signal-next-to-zero"),
            pytest.param(-1.0, 3, False, id="signal-negative"),
            pytest.param(2.0, 3, True, id="hold-off"),
            pytest.param(5.0, 0, True, id="hold-off-while-idle"),
            pytest.param(np.nan, 3, False, id="signal-nan"),
            pytest.param(np.inf, 3, False, id="signal-inf"),
            pytest.param(-np.inf, 0, False, id="signal-minus-inf"),
            pytest.param(2.0, np.nan, False, id="pods-nan"),
            pytest.param(2.0, np.inf, False, id="pods-inf"),
            pytest.param(2.0, -1, False, id="pods-negative"),
            pytest.param(1e-200, 0, False, id="square-is-zero"),
            pytest.param(1e200, 0, False, id="square-is-infinite"),
            pytest.param(1.7e308, 0, False, id="largest-number"),
        ],
    )
    def test_nothing_changes(self, kind, signal, pods, hold_off):
        estimator = learned(kind)
        before = state_of(estimator)
        for _ in range(3):
            estimator.update(signal, pods, hold_off)
        assert state_of(estimator) == before

    @ALL
    def test_a_full_node_does_not_make_pods_look_cheap(self, kind):
        """Thesis §4.2.4: at a signal of zero another pod does not lower the signal."""
        estimator = learned(kind)
        before = float(estimator.cost)
        for n in range(13, 40):
            estimator.update(0.0, n)
        assert estimator.cost == before

    def test_changes_during_a_hold_off_count_after_it(self):
        estimator = learned(DeltaKalman)
        estimator.update(BASELINE, 0)
        for n in range(1, 5):
            estimator.update(1.0, n, hold_off=True)
        estimator.update(BASELINE - 5 * COST, 5)
        assert estimator.cost == pytest.approx(COST, rel=0.02)


class TestIdleDrift:
    @staticmethod
    def idle(estimator, updates, signal=BASELINE):
        costs = []
        for _ in range(updates):
            estimator.update(signal, 0)
            costs.append(float(estimator.cost))
        return np.array(costs)

    @ALL
    def test_the_cost_rises_by_its_factor_up_to_the_ceiling(self, kind):
        estimator = learned(kind)
        estimator.update(BASELINE, 0)
        costs = self.idle(estimator, 200)
        rising = costs[:-1] < 0.49 * BASELINE
        assert rising.sum() > 50
        np.testing.assert_allclose(costs[1:][rising] / costs[:-1][rising], 1.02, rtol=1e-3)
        assert costs[-1] == pytest.approx(0.5 * BASELINE)
        assert (costs <= 0.5 * BASELINE * (1 + 1e-12)).all()

    @ALL
    def test_a_cost_above_the_ceiling_does_not_fall(self, kind):
        estimator = kind()
        estimator.update(1.0, 0)
        for n in [1, 0] * 100:
            estimator.update(1.0 - 0.8 * n, n)
        dear = float(estimator.cost)
        assert dear > 0.7
        assert (self.idle(estimator, 50, signal=1.0) >= dear * (1 - 1e-9)).all()

    @ALL
    def test_an_idle_node_always_has_room_for_a_pod(self, kind):
        """Otherwise no pod would come, and the node could never learn again."""
        estimator = kind()
        for _ in range(30):
            estimator.update(10.0, 0)
        assert estimator.cost == pytest.approx(5.0)
        for signal in np.linspace(10, 1, 20):
            estimator.update(signal, 0)
        self.idle(estimator, 60, signal=1.0)
        assert 1.0 / estimator.cost > 1.1

    @ALL
    def test_no_drift_while_pods_run(self, kind):
        estimator = learned(kind)
        for _ in range(200):
            estimator.update(BASELINE - 3 * COST, 3)
        assert estimator.cost == pytest.approx(COST, rel=0.01)


class TestShapes:
    @ALL
    @pytest.mark.parametrize("shape", [(5,), (2, 3), (1,), (0,)])
    def test_many_nodes_at_once_equal_single_nodes(self, kind, shape):
        rng = np.random.default_rng(3)
        many = kind()
        single = {index: kind() for index in np.ndindex(shape)}
        for _ in range(25):
            n = rng.integers(0, 6, shape)
            k = np.where(rng.random(shape) < 0.1, 0.0, 2.0 - 0.2 * n + 0.1 * rng.normal(size=shape))
            hold_off = rng.random(shape) < 0.2
            many.update(k, n, hold_off)
            saved = many.save()
            for index, estimator in single.items():
                estimator.update(k[index], n[index], hold_off[index])
                for name, array in estimator.save().items():
                    np.testing.assert_array_equal(saved[name][index], array)
        assert many.baseline.shape == many.cost.shape == many.save()["cost_variance"].shape == shape

    @ALL
    def test_pods_and_hold_off_broadcast(self, kind):
        one, other = kind(), kind()
        for n in range(5):
            one.update([[2.0, 1.9]] * 3, n, False)
            other.update(np.full((3, 2), [2.0, 1.9]), np.full((3, 2), n), np.zeros((3, 2), bool))
        assert state_of(one) == state_of(other)

    @ALL
    @pytest.mark.parametrize("number", [float, np.float32, np.int64, np.array, lambda x: [x]])
    def test_accepts_all_kinds_of_numbers(self, kind, number):
        estimator = kind()
        for signal, n in [(4, 0), (3, 1), (2, 2)]:
            estimator.update(number(signal), number(n))
        assert np.shape(estimator.cost) == np.shape(number(1))
        assert np.all(np.isfinite(estimator.cost))

    @ALL
    @pytest.mark.parametrize(
        ("signal", "pods"),
        [([1.0, 2.0, 3.0], 0), (1.0, 0), ([1.0, 2.0], [1, 2, 3]), (["a", "b"], 0), ([[1.0], [2.0]], [0, 0])],
    )
    def test_refuses_another_shape_without_any_change(self, kind, signal, pods):
        estimator = kind()
        estimator.update([2.0, 3.0], 0)
        before = state_of(estimator)
        with pytest.raises(InvalidInput):
            estimator.update(signal, pods)
        assert state_of(estimator) == before

    @ALL
    def test_the_first_usable_sample_determines_the_shape(self, kind):
        estimator = kind()
        estimator.update([np.nan] * 3, 0)
        estimator.update([1.0, 2.0], 0)
        assert estimator.baseline.tolist() == [1.0, 2.0]


class TestScale:
    @ALL
    def test_the_unit_of_the_signal_does_not_matter(self, kind):
        """All noises are relative to the baseline, because the signal has no scale of its own."""
        factors = np.array([1.0, 2.0**-30, 0.25, 8.0, 2.0**30])
        estimator = kind()
        for signal, n in zip(*truth(100), strict=True):
            estimator.update(signal * factors, n)
        assert np.array_equal(estimator.baseline, estimator.baseline[0] * factors)
        assert np.array_equal(estimator.cost, estimator.cost[0] * factors)
        assert np.array_equal(
            estimator.save()["baseline_variance"], estimator.save()["baseline_variance"][0] * factors**2
        )
        assert np.array_equal(estimator.save()["cost_variance"], estimator.save()["cost_variance"][0] * factors**2)


class TestState:
    @ALL
    @pytest.mark.parametrize("cut", [0, 1, 30])
    def test_restored_continues_identically(self, kind, cut):
        signals, pods = truth(60)
        estimator, restored = kind(), kind()
        for i, (signal, n) in enumerate(zip(signals, pods, strict=True)):
            if i == cut:
                restored.restore(estimator.save())
            estimator.update(signal, n)
            if i >= cut:
                restored.update(signal, n)
                assert state_of(restored) == state_of(estimator)

    @ALL
    def test_survives_json(self, kind):
        estimator = learned(kind)
        restored = kind()
        restored.restore(json.loads(json.dumps({name: array.tolist() for name, array in estimator.save().items()})))
        assert state_of(restored) == state_of(estimator)

    @ALL
    def test_saved_state_is_a_copy(self, kind):
        estimator = kind()
        estimator.update([2.0, 3.0], 0)
        before = state_of(estimator)
        saved = estimator.save()
        restored = kind()
        restored.restore(saved)
        for array in saved.values():
            array[:] = 7.0
        assert state_of(estimator) == before
        assert state_of(restored) == before

    @pytest.mark.parametrize("saved", ESTIMATORS)
    @pytest.mark.parametrize("reader", ESTIMATORS)
    def test_refuses_the_state_of_another_filter(self, saved, reader):
        if saved == reader:
            return
        estimator = learned(ESTIMATORS[reader])
        before = state_of(estimator)
        with pytest.raises(InvalidState, match="another kind of filter"):
            estimator.restore(learned(ESTIMATORS[saved]).save())
        assert state_of(estimator) == before

    @ALL
    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param({"cost": [1.0, 2.0]}, id="shape"),
            pytest.param({"cost": np.nan}, id="nan"),
            pytest.param({"cost_variance": np.inf}, id="inf"),
            pytest.param({"baseline": 1e308}, id="overflow"),
            pytest.param({"baseline": -1.0}, id="negative-baseline"),
            pytest.param({"baseline": 1e-300}, id="baseline-whose-square-vanishes"),
            pytest.param({"baseline_variance": -1.0}, id="negative-baseline-variance"),
            pytest.param({"cost_variance": -1.0}, id="negative-cost-variance"),
            pytest.param({"baseline": "five"}, id="word"),
        ],
    )
    def test_refuses_a_damaged_state_without_any_change(self, kind, damage):
        estimator = learned(kind)
        before = state_of(estimator)
        with pytest.raises(InvalidState):
            estimator.restore({**estimator.save(), **damage})
        assert state_of(estimator) == before

    def test_a_covariance_has_a_bound(self):
        estimator = learned(JointKalman)
        with pytest.raises(InvalidState, match="no covariance"):
            estimator.restore({**estimator.save(), "covariance": 50.0})


class TestSettings:
    @pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(KalmanSettings)])
    def test_every_constant_is_positive_and_finite(self, name):
        for value in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(InvalidInput, match=f"{name} must be positive"):
                KalmanSettings(**{name: value})

    @pytest.mark.parametrize(
        "bounds",
        [{"cost_floor": 0.6}, {"cost_ceiling": 0.95}, {"cost_ceiling": 1.0, "cost_limit": 1.0}, {"cost_limit": 0.4}],
    )
    def test_bounds_of_the_cost_are_in_order_and_below_the_baseline(self, bounds):
        with pytest.raises(InvalidInput, match="cost_floor <= cost_ceiling <= cost_limit < 1"):
            KalmanSettings(**bounds)

    def test_all_filters_have_the_same_default_settings(self):
        assert {kind().settings for kind in ESTIMATORS.values()} == {KalmanSettings()}


@settings(max_examples=20)
@given(arrays(np.float64, 20, elements=st.floats(0.5, 2)))
def test_the_dual_filter_learns_its_baseline_only_while_no_pod_runs(signals):
    estimator = DualKalman()
    estimator.update(2.0, 0)
    for signal in signals:
        estimator.update(signal, 3)
    assert estimator.baseline == 2.0
    for signal in signals:
        estimator.update(signal, 0)
    assert min(*signals, 2.0) <= estimator.baseline <= 2.0
