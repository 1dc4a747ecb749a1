import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.errors import InvalidInput
from carico.model.subspace import Subspace

usages = st.floats(0, 1)
weights = st.floats(1e-3, 1e3)


@st.composite
def batches(draw, count=1, min_d=1):
    """Draw `count` batches with the same number of resources and 1 to 12 samples each."""
    d = draw(st.integers(min_d, 6))
    return [draw(arrays(np.float64, (d, draw(st.integers(1, 12))), elements=usages)) for _ in range(count)]


def gram(subspace):
    """Return U Σ² Uᵀ, the estimate of Y Yᵀ, which does not depend on signs or the order of equal singular values."""
    columns = subspace.columns
    return columns @ np.swapaxes(columns, -1, -2)


def check_against_lapack(samples):
    d, n = samples.shape
    found = Subspace.from_batch(samples)
    kept = min(d, n)
    assert found.basis.shape == (d, kept)
    assert found.singular_values.shape == (kept,)
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(samples, compute_uv=False), rtol=0, atol=1e-13)
    assert (np.diff(found.singular_values) <= 0).all()
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(kept), atol=1e-12)
    np.testing.assert_allclose(gram(found), samples @ samples.T, atol=1e-12)


class TestBatch:
    @given(batches())
    def test_equals_the_decomposition_of_lapack(self, found):
        check_against_lapack(found[0])

    @pytest.mark.parametrize(
        "rows",
        [
            pytest.param([[0, 0, 0], [0, 0, 0]], id="zeros"),
            pytest.param([[1, 1, 1], [1, 1, 1]], id="ones"),
            pytest.param([[0.3, 0.7, 0.1], [0.3, 0.7, 0.1]], id="equal-rows"),
            pytest.param([[0.3], [0.7]], id="one-column"),
            pytest.param([[0], [0]], id="one-column-of-zeros"),
            pytest.param([[0.2, 0.4, 0.6], [0.1, 0.2, 0.3]], id="rank-one"),
            pytest.param([[0, 0, 0], [0.1, 0.2, 0.3]], id="first-row-zero"),
            pytest.param([[0.1, 0.2, 0.3], [0, 0, 0]], id="second-row-zero"),
            pytest.param([[1, 0], [0, 1]], id="orthogonal-and-equal"),
            pytest.param([[0, 1], [1, 0]], id="orthogonal-and-equal-swapped"),
            pytest.param([[0.9, 0], [0, 0.1]], id="orthogonal"),
            pytest.param([[0.1, 0], [0, 0.9]], id="orthogonal-swapped"),
            pytest.param([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5 + 1e-8]], id="almost-parallel"),
            pytest.param([[1, 0], [0, 1 - 1e-15]], id="almost-equal-singular-values"),
            pytest.param([[0.68, 0.37, 0.58, 0, 0, 0], [0, 0, 0, 0.68, 0.58, 0.37]], id="equal-but-for-rounding"),
            pytest.param([[1, 1], [1e-12, 0]], id="one-resource-tiny"),
            pytest.param([[1e-9, 2e-9], [2e-9, 1e-9]], id="all-tiny"),
        ],
    )
    def test_of_two_resources_has_no_degenerate_case(self, rows):
        samples = np.array(rows, dtype=np.float64)
        check_against_lapack(samples)
        check_against_lapack(samples[::-1].copy())

    @given(batches(min_d=2))
    def test_the_workload_is_the_first_component_of_lapack(self, found):
        (samples,) = found
        u, sigma, _ = np.linalg.svd(samples, full_matrices=False)
        subspace = Subspace.from_batch(samples)
        assert np.linalg.norm(subspace.workload) == pytest.approx(sigma[0], abs=1e-9)
        if sigma.size < 2 or sigma[0] > 1.01 * sigma[1]:
            np.testing.assert_allclose(subspace.workload, sigma[0] * np.abs(u[:, 0]), atol=1e-6)

    @given(batches(), st.integers(1, 8))
    def test_a_rank_keeps_the_first_components(self, found, rank):
        (samples,) = found
        full, cut = Subspace.from_batch(samples), Subspace.from_batch(samples, rank)
        kept = min(rank, *samples.shape)
        assert np.array_equal(cut.basis, full.basis[:, :kept])
        assert np.array_equal(cut.singular_values, full.singular_values[:kept])

    @given(batches(), st.randoms(use_true_random=False))
    def test_the_order_of_samples_does_not_matter(self, found, random):
        (samples,) = found
        order = list(range(samples.shape[1]))
        random.shuffle(order)
        np.testing.assert_allclose(
            gram(Subspace.from_batch(samples)), gram(Subspace.from_batch(samples[:, order])), atol=1e-12
        )

    @pytest.mark.parametrize("d", [1, 2, 3, 6])
    @pytest.mark.parametrize("lead", [(4,), (3, 1), (2, 3), (0,)])
    def test_many_nodes_at_once_equal_single_nodes(self, d, lead):
        samples = np.random.default_rng(2).random((*lead, d, 10))
        many = Subspace.from_batch(samples)
        assert many.basis.shape == (*lead, d, d)
        for index in np.ndindex(lead):
            one = Subspace.from_batch(samples[index])
            np.testing.assert_array_equal(many.basis[index], one.basis)
            np.testing.assert_array_equal(many.singular_values[index], one.singular_values)
            np.testing.assert_array_equal(many.workload[index], one.workload)

    @pytest.mark.parametrize(
        "samples",
        [[[1, 0, 1], [0, 0, 1]], ((1, 0, 1), (0, 0, 1)), np.float32([[1, 0, 1], [0, 0, 1]]), np.eye(3, dtype=bool)[:2]],
    )
    def test_accepts_all_kinds_of_numbers(self, samples):
        found = Subspace.from_batch(samples)
        assert found.basis.dtype == found.singular_values.dtype == np.float64
        np.testing.assert_allclose(gram(found), np.asarray(samples, float) @ np.asarray(samples, float).T, atol=1e-12)

    @pytest.mark.parametrize(
        "samples",
        [
            pytest.param([[0.5, np.nan], [0.1, 0.1]], id="nan"),
            pytest.param([[0.5, np.inf], [0.1, 0.1]], id="inf"),
            pytest.param([[0.5, -1e-9], [0.1, 0.1]], id="below-0"),
            pytest.param([[0.5, 1 + 1e-9], [0.1, 0.1]], id="above-1"),
            pytest.param([0.5, 0.1], id="one-dimension"),
            pytest.param(0.5, id="scalar"),
            pytest.param([[], []], id="no-sample"),
            pytest.param(np.zeros((0, 3)), id="no-resource"),
            pytest.param([[0.5], [0.1, 0.2]], id="ragged"),
            pytest.param([["half"], ["full"]], id="words"),
            pytest.param(None, id="none"),
        ],
    )
    def test_refuses_invalid_telemetry(self, samples):
        with pytest.raises(InvalidInput):
            Subspace.from_batch(samples)

    @pytest.mark.parametrize("rank", [0, -1, 1.5, "1"])
    def test_refuses_an_invalid_rank(self, rank):
        with pytest.raises(InvalidInput, match="rank must be a whole number from 1 on, or None for all, got"):
            Subspace.from_batch([[0.5], [0.5]], rank)

    def test_does_not_change_its_input(self):
        samples = np.random.default_rng(3).random((2, 10))
        before = samples.copy()
        Subspace.from_batch(samples)
        assert np.array_equal(samples, before)


class TestMerge:
    @given(batches(count=2), weights, weights)
    def test_weighs_the_two_sides(self, found, weight_a, weight_b):
        a, b = (Subspace.from_batch(samples) for samples in found)
        share = weight_a / (weight_a + weight_b)
        merged = Subspace.merge(a, b, weight_a, weight_b)
        np.testing.assert_allclose(gram(merged), share * gram(a) + (1 - share) * gram(b), atol=1e-12)

    @given(batches(count=2), weights, weights, st.floats(1e-300, 1e300))
    def test_only_the_ratio_of_weights_counts(self, found, weight_a, weight_b, factor):
        a, b = (Subspace.from_batch(samples) for samples in found)
        merged = Subspace.merge(a, b, weight_a, weight_b)
        scaled = Subspace.merge(a, b, weight_a * factor, weight_b * factor)
        np.testing.assert_allclose(gram(merged), gram(scaled), atol=1e-12)

    @pytest.mark.parametrize("weight", [5e-324, 1e-300, 1, 1e308, 1.7e308])
    def test_weights_may_be_of_any_size(self, weight):
        a, b = Subspace.from_batch([[0.5], [0.1]]), Subspace.from_batch([[0.1], [0.7]])
        np.testing.assert_allclose(gram(Subspace.merge(a, b, weight, weight)), gram(a) / 2 + gram(b) / 2, atol=1e-15)

    @given(batches(count=2), weights, weights)
    def test_merge_is_symmetric(self, found, weight_a, weight_b):
        a, b = (Subspace.from_batch(samples) for samples in found)
        np.testing.assert_allclose(
            gram(Subspace.merge(a, b, weight_a, weight_b)), gram(Subspace.merge(b, a, weight_b, weight_a)), atol=1e-12
        )

    @given(batches(count=2), weights)
    def test_a_weight_of_0_leaves_the_other_side(self, found, weight):
        a, b = (Subspace.from_batch(samples) for samples in found)
        np.testing.assert_allclose(gram(Subspace.merge(a, b, weight, 0)), gram(a), atol=1e-12)
        np.testing.assert_allclose(gram(Subspace.merge(a, b, 0, weight)), gram(b), atol=1e-12)

    @pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
    def test_the_incremental_form_is_the_batch_form_with_forgetting(self, d):
        """The oracle of docs/design.md: G ← 0.9 G + 0.1 Y Yᵀ, and the SVD of all samples with their final weights."""
        rng = np.random.default_rng(d)
        batches = rng.random((60, d, 10)) * rng.random((60, d, 1))
        view = Subspace.from_batch(batches[0])
        oracle = batches[0] @ batches[0].T
        remembered = batches[0]
        for batch in batches[1:]:
            view = Subspace.merge(view, Subspace.from_batch(batch), 0.9, 0.1)
            oracle = 0.9 * oracle + 0.1 * batch @ batch.T
            remembered = np.hstack([np.sqrt(0.9) * remembered, np.sqrt(0.1) * batch])
            np.testing.assert_allclose(gram(view), oracle, atol=1e-11)
        u, sigma, _ = np.linalg.svd(remembered, full_matrices=False)
        np.testing.assert_allclose(view.singular_values, sigma, rtol=1e-9)
        np.testing.assert_allclose(view.workload, sigma[0] * np.abs(u[:, 0]), rtol=1e-9)

    @pytest.mark.parametrize("d", [2, 5])
    def test_updating_with_columns_equals_merging_with_their_decomposition(self, d):
        rng = np.random.default_rng(d)
        known, columns, weight = Subspace.from_batch(rng.random((7, d, 10))), rng.random((7, d, 10)), rng.random(7)
        np.testing.assert_allclose(
            gram(known.updated(columns, weight)),
            gram(Subspace.merge(known, Subspace.from_batch(columns), 1 - weight, weight)),
            atol=1e-12,
        )

    @pytest.mark.parametrize(("d", "rank", "kept"), [(2, None, 2), (4, None, 4), (6, 3, 3), (6, 1, 1), (2, 9, 2)])
    def test_memory_does_not_grow_with_observations(self, d, rank, kept):
        rng = np.random.default_rng(4)
        view = Subspace.from_batch(rng.random((d, 10)), rank)
        for _ in range(50):
            view = Subspace.merge(view, Subspace.from_batch(rng.random((d, 10)), rank), 0.9, 0.1, rank)
            assert (view.basis.shape, view.singular_values.shape) == ((d, kept), (kept,))

    @given(batches(count=3, min_d=3), st.integers(1, 3), weights)
    def test_truncation_only_ever_loses(self, found, rank, weight):
        full = cut = None
        for samples in found:
            whole, part = Subspace.from_batch(samples), Subspace.from_batch(samples, rank)
            full = whole if full is None else Subspace.merge(full, whole, weight, 1)
            cut = part if cut is None else Subspace.merge(cut, part, weight, 1, rank)
        lost = gram(full) - gram(cut)
        assert np.linalg.eigvalsh(lost).min() >= -1e-9

    @given(batches(count=4), st.lists(weights, min_size=3, max_size=3), st.none() | st.integers(1, 3))
    def test_the_workload_is_never_negative(self, found, shares, rank):
        view = Subspace.from_batch(found[0], rank)
        for samples, weight in zip(found[1:], shares, strict=True):
            view = Subspace.merge(view, Subspace.from_batch(samples, rank), weight, 1, rank)
            assert (view.workload >= 0).all()
            assert np.linalg.norm(view.workload) == pytest.approx(view.singular_values[0], abs=1e-12)

    def test_leading_axes_broadcast_and_equal_single_merges(self):
        rng = np.random.default_rng(5)
        for d in (2, 4):
            a, b = Subspace.from_batch(rng.random((3, 1, d, 6))), Subspace.from_batch(rng.random((1, 4, d, 9)))
            weight_a, weight_b = rng.random((3, 1)), rng.random((3, 4))
            many = Subspace.merge(a, b, weight_a, weight_b)
            assert many.basis.shape == (3, 4, d, d)
            for i, j in np.ndindex(3, 4):
                one = Subspace.merge(
                    Subspace(a.basis[i, 0], a.singular_values[i, 0]),
                    Subspace(b.basis[0, j], b.singular_values[0, j]),
                    weight_a[i, 0],
                    weight_b[i, j],
                )
                np.testing.assert_array_equal(many.basis[i, j], one.basis)
                np.testing.assert_array_equal(many.singular_values[i, j], one.singular_values)

    def test_one_pair_may_be_merged_with_many_weights(self):
        a, b = Subspace.from_batch([[0.5], [0.1]]), Subspace.from_batch([[0.1], [0.7]])
        assert Subspace.merge(a, b, [1, 2, 3], 1).workload.shape == (3, 2)

    @pytest.mark.parametrize(
        ("weight_a", "weight_b"),
        [(-1, 1), (1, -1e-9), (0, 0), (np.nan, 1), (1, np.inf), ([1, 0], [1, 0]), ("a", 1), ([1, 2], [1, 2, 3])],
    )
    def test_refuses_invalid_weights(self, weight_a, weight_b):
        a, b = Subspace.from_batch([[0.5], [0.1]]), Subspace.from_batch([[0.1], [0.7]])
        before = [a.basis.copy(), a.singular_values.copy(), b.basis.copy(), b.singular_values.copy()]
        with pytest.raises(InvalidInput):
            Subspace.merge(a, b, weight_a, weight_b)
        for was, now in zip(before, [a.basis, a.singular_values, b.basis, b.singular_values], strict=True):
            assert np.array_equal(was, now)

    def test_refuses_sides_that_observe_different_resources(self):
        with pytest.raises(InvalidInput, match="2 and 3 resources"):
            Subspace.merge(Subspace.from_batch(np.ones((2, 4))), Subspace.from_batch(np.ones((3, 4))), 1, 1)

    def test_refuses_leading_axes_that_do_not_broadcast(self):
        with pytest.raises(InvalidInput, match="broadcast"):
            Subspace.merge(Subspace.from_batch(np.ones((3, 2, 4))), Subspace.from_batch(np.ones((4, 2, 4))), 1, 1)


class TestWorkload:
    @given(batches())
    def test_exponents_scale_the_same_direction(self, found):
        subspace = Subspace.from_batch(found[0])
        sigma = subspace.singular_values[0]
        np.testing.assert_array_equal(subspace.workload, subspace.scaled_workload(1))
        np.testing.assert_allclose(subspace.scaled_workload(0.5) * np.sqrt(sigma), subspace.workload, atol=1e-12)

    def test_workload_of_zero_usage_is_zero(self):
        nothing = Subspace.from_batch(np.zeros((3, 5)))
        assert not nothing.workload.any()
        assert not nothing.scaled_workload(0.5).any()

    def test_does_not_depend_on_the_sign_of_the_decomposition(self):
        subspace = Subspace.from_batch(np.random.default_rng(6).random((4, 9)))
        flipped = Subspace(-subspace.basis, subspace.singular_values)
        assert np.array_equal(flipped.workload, subspace.workload)

    def test_grows_with_usage(self):
        samples = np.random.default_rng(7).random((2, 10))
        assert (Subspace.from_batch(samples).workload > Subspace.from_batch(samples / 2).workload).all()


class TestConstruction:
    @pytest.mark.parametrize(
        ("basis", "singular_values"),
        [
            pytest.param(np.eye(2), [1.0], id="too-few-values"),
            pytest.param(np.eye(2), [[1.0, 1.0]], id="too-many-axes"),
            pytest.param([1.0, 0.0], [1.0], id="no-matrix"),
            pytest.param([[np.nan, 0], [0, 1]], [1.0, 1.0], id="nan-in-basis"),
            pytest.param(np.eye(2), [np.inf, 1.0], id="inf-in-values"),
            pytest.param(np.eye(2), [1.0, -1.0], id="negative-value"),
        ],
    )
    def test_refuses_an_invalid_subspace(self, basis, singular_values):
        with pytest.raises(InvalidInput):
            Subspace(basis, singular_values)

    def test_accepts_lists(self):
        assert Subspace([[1, 0], [0, 1]], [2, 1]).workload.tolist() == [2, 0]

    def test_a_subspace_is_immutable(self):
        with pytest.raises(AttributeError):
            Subspace.from_batch([[0.5]]).basis = np.eye(1)
