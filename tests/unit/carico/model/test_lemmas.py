"""Lemmas of the thesis's appendix A, which justify σ_1 u_1 as an average workload."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.model.subspace import Subspace

shares = st.floats(0, 1)


@st.composite
def matrices(draw, same_rows=1, same_columns=False):
    """Draw `same_rows` matrices in [0, 1] with the same number of rows and, optionally, of columns."""
    d = draw(st.integers(1, 6))
    n = draw(st.integers(1, 12))
    found = []
    for _ in range(same_rows):
        found.append(draw(arrays(np.float64, (d, n), elements=shares)))
        n = n if same_columns else draw(st.integers(1, 12))
    return found


def first(matrix):
    """Return σ_1 and the non-negative u_1."""
    subspace = Subspace.from_batch(matrix)
    sigma = subspace.singular_values[0]
    return sigma, np.abs(subspace.basis[:, 0])


def projected(matrix, u):
    """Return P_M(u), the sum of squared scalar projections of the columns onto u."""
    return np.sum((u @ matrix) ** 2)


@given(matrices())
def test_a_1_first_direction_is_a_conic_combination_of_the_samples(found):
    (a,) = found
    sigma, u = first(a)
    assume(sigma > 1e-3)
    weights = a.T @ u / sigma**2
    assert (weights >= 0).all()
    np.testing.assert_allclose(a @ weights, u, atol=1e-9)


@given(matrices())
def test_a_1_the_longer_and_the_better_aligned_sample_weighs_more(found):
    (a,) = found
    sigma, u = first(a)
    assume(sigma > 1e-3)
    lengths = np.linalg.norm(a, axis=0)
    cosines = np.divide(u @ a, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    weights = u @ a / sigma**2
    np.testing.assert_allclose(weights, lengths * cosines / sigma**2, atol=1e-12)
    for i in range(a.shape[1]):
        dominated = (lengths <= lengths[i]) & (cosines <= cosines[i])
        assert (weights[dominated] <= weights[i] + 1e-12).all()


@given(matrices())
def test_a_1_3_the_non_negative_choice_of_the_first_direction_exists(found):
    (a,) = found
    sigma, u = first(a)
    assert (u >= 0).all()
    assert np.linalg.norm(u) == pytest.approx(1)
    np.testing.assert_allclose(a @ (a.T @ u), sigma**2 * u, atol=1e-9)


@given(matrices())
def test_equation_3_1_sigma_squared_is_the_sum_of_squared_projections(found):
    (a,) = found
    sigma, u = first(a)
    assert sigma**2 == pytest.approx(projected(a, u), abs=1e-12)


@given(matrices(same_rows=2, same_columns=True))
def test_a_2_more_usage_never_lowers_the_first_singular_value(found):
    less, more = np.minimum(*found), np.maximum(*found)
    assert first(less)[0] <= first(more)[0] + 1e-12


@given(matrices(same_rows=2))
def test_a_3_more_samples_never_lower_the_first_singular_value(found):
    a, b = found
    assert first(np.hstack([a, b]))[0] >= max(first(a)[0], first(b)[0]) - 1e-12


@given(matrices(same_rows=2), shares)
def test_a_4_a_weighted_merge_lies_between_both_sides(found, weight):
    a, b = found
    merged = Subspace.merge(Subspace.from_batch(a), Subspace.from_batch(b), weight, 1 - weight)
    u, sigma = np.abs(merged.basis[:, 0]), merged.singular_values[0]
    of_a, of_b = projected(a, u), projected(b, u)
    assert sigma**2 == pytest.approx(weight * of_a + (1 - weight) * of_b, abs=1e-9)
    assert min(of_a, of_b) - 1e-9 <= sigma**2 <= max(of_a, of_b) + 1e-9


@given(matrices(), st.lists(shares, min_size=1, max_size=20))
def test_a_4_a_stable_usage_keeps_a_stable_magnitude(found, weights):
    """The reason for the square roots in §3.3: repeated merges of the same subspace must not increase σ_1."""
    (a,) = found
    once = view = Subspace.from_batch(a)
    for weight in weights:
        view = Subspace.merge(view, once, weight, 1 - weight)
    assert view.singular_values[0] == pytest.approx(once.singular_values[0], abs=1e-9)
