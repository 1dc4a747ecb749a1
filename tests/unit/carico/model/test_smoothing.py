import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.errors import InvalidInput
from carico.model.smoothing import DynamicEma

usages = st.floats(0, 1)


def smooth(samples, **settings):
    ema = DynamicEma(**settings)
    return np.array([ema.update(sample) for sample in samples])


def reference(samples, received, alpha_slow=0.1, alpha_fast=0.5, threshold=0.05, patience=3):
    """Compute thesis §4.2.2 for one resource, with scalars."""
    value, deviating = None, 0
    for sample, arrived in zip(samples, received, strict=True):
        if arrived and value is None:
            value = sample
        elif arrived:
            if abs(sample - value) <= threshold:
                deviating = 0
            elif sample > value:
                deviating = max(deviating, 0) + 1
            else:
                deviating = min(deviating, 0) - 1
            value += (alpha_fast if abs(deviating) > patience else alpha_slow) * (sample - value)
        yield value


@given(st.lists(st.tuples(usages, st.booleans()), min_size=1, max_size=40))
def test_is_the_recurrence_of_the_thesis(history):
    samples, received = zip(*history, strict=True)
    ema = DynamicEma()
    for sample, arrived, expected in zip(samples, received, reference(samples, received), strict=True):
        found = ema.update([sample], [arrived])
        assert np.isnan(found[0]) if expected is None else found[0] == expected


@given(usages, st.integers(1, 50))
def test_a_constant_stays_constant(level, count):
    assert (smooth([level] * count) == level).all()


@given(st.lists(usages, min_size=1, max_size=60))
def test_never_leaves_the_range_of_the_samples(samples):
    found = smooth(samples)
    assert min(samples) - 1e-12 <= found.min()
    assert found.max() <= max(samples) + 1e-12


@pytest.mark.parametrize("level", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("samples_long", [1, 2, 3])
def test_suppresses_a_burst_of_up_to_300_ms(level, samples_long):
    """A container event lasts about 200 ms: two, at most three samples at 10 Hz."""
    found = smooth([level] * 10 + [1.0] * samples_long + [level] * 10)
    height = 1.0 - level
    assert found.max() - level <= height * (1 - 0.9**samples_long) + 1e-12
    assert found.max() - level < 0.28 * height
    assert abs(found[-1] - level) < 0.05


@pytest.mark.parametrize(("before", "after"), [(0.1, 0.9), (0.9, 0.1), (0.0, 1.0), (0.4, 0.5)])
def test_follows_a_step_that_lasts_over_300_ms(before, after):
    found = smooth([before] * 10 + [after] * 10)
    gap = np.abs(found[10:] - after) / abs(after - before)
    assert gap[2] > 0.7, "still suppressed after 300 ms"
    assert gap[3] == pytest.approx(gap[2] / 2), "the fourth sample is followed fast"
    # Within the threshold the slow factor applies again.
    assert np.abs(found[-1] - after) < max(0.05, 0.1 * abs(after - before))


def test_a_gap_of_exactly_the_threshold_is_no_deviation():
    assert smooth([0.0, 0.25], threshold=0.25, patience=0, alpha_slow=0.125)[1] == 0.25 * 0.125
    assert smooth([0.0, 0.25], threshold=0.125, patience=0, alpha_slow=0.125)[1] == 0.25 * 0.5


def test_every_resource_is_filtered_separately():
    rng = np.random.default_rng(1)
    samples = rng.random((30, 3, 2))
    together = smooth(samples)
    for index in np.ndindex(3, 2):
        assert np.array_equal(together[(slice(None), *index)], smooth(samples[(slice(None), *index)]))


def test_a_lost_sample_changes_nothing():
    rng = np.random.default_rng(2)
    kept, disturbed = DynamicEma(), DynamicEma()
    for sample in rng.random((30, 2)):
        expected = kept.update(sample)
        disturbed.update(sample)
        assert np.array_equal(disturbed.update([np.nan, np.inf], received=False), expected)
    assert np.array_equal(kept.deviating, disturbed.deviating)


def test_starts_from_the_first_sample_that_arrives():
    ema = DynamicEma()
    assert np.isnan(ema.update([0.5, 0.5], received=False)).all()
    assert ema.update([0.5, 0.25], received=[True, False])[0] == 0.5
    assert ema.update([0.5, 0.75]).tolist() == [0.5, 0.75]


@pytest.mark.parametrize("sample", [1, [1, 0], np.float32(0.5), np.array(0.5), [[0.1], [0.2]], ()])
def test_takes_samples_of_any_shape(sample):
    ema = DynamicEma()
    for _ in range(3):
        found = ema.update(sample)
        assert found.shape == np.shape(sample)
        assert found.dtype == np.float64
        assert np.array_equal(found, sample)


@pytest.mark.parametrize(
    ("sample", "received"),
    [
        pytest.param([np.nan, 0.1], True, id="nan"),
        pytest.param([np.inf, 0.1], [True, False], id="inf"),
        pytest.param([0.1, 0.1, 0.1], True, id="other-shape"),
        pytest.param(0.1, True, id="scalar"),
        pytest.param([0.1, 0.1], [True, True, True], id="received-of-another-shape"),
        pytest.param([0.1, 0.1], [[True], [False]], id="received-larger-than-the-sample"),
        pytest.param(["a", "b"], True, id="words"),
        pytest.param(None, True, id="none"),
    ],
)
def test_refuses_a_wrong_sample_without_any_change(sample, received):
    ema = DynamicEma()
    for level in [0.1, 0.9, 0.9]:
        ema.update([level, level])
    value, deviating = ema.value.copy(), ema.deviating.copy()
    with pytest.raises(InvalidInput):
        ema.update(sample, received)
    assert np.array_equal(ema.value, value)
    assert np.array_equal(ema.deviating, deviating)


def test_a_refused_first_sample_leaves_the_filter_unset():
    ema = DynamicEma()
    with pytest.raises(InvalidInput):
        ema.update([np.nan])
    assert ema.value is None
    assert ema.update([0.1, 0.2]).tolist() == [0.1, 0.2]


def test_callers_may_change_the_result():
    ema = DynamicEma()
    for _ in range(2):
        ema.update([0.5])[:] = 9
    assert ema.value.tolist() == [0.5]


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha_slow": 0},
        {"alpha_slow": 1.1},
        {"alpha_fast": -0.5},
        {"alpha_fast": np.nan},
        {"threshold": -0.1},
        {"threshold": np.nan},
        {"patience": -1},
    ],
)
def test_refuses_invalid_settings(settings):
    with pytest.raises(InvalidInput):
        DynamicEma(**settings)


def test_each_burst_of_a_quick_succession_is_suppressed():
    """The fall after a burst does not count towards the next one."""
    bursts = np.tile([1.0, 1.0, 0.1, 0.1, 0.1], 20)
    smoothed = smooth(np.concatenate([np.full(20, 0.1), bursts]))
    assert smoothed.max() < 0.6
    assert abs(smoothed[-10:].mean() - bursts.mean()) < 0.1
