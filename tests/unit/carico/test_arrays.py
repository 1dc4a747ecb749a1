import numpy as np
import pytest

from carico.arrays import common_shape, finite, whole
from carico.errors import CaricoError, InvalidInput


@pytest.mark.parametrize("values", [1, 1.5, [1, 2], (), np.float32(1), np.zeros((0, 3)), True, [[1], [2]]])
def test_finite_accepts_all_kinds_of_numbers(values):
    found = finite("x", values)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.asarray(values, float))


@pytest.mark.parametrize(
    "values", [np.nan, [1, np.nan], [1, np.inf], -np.inf, None, "much", [1, "much"], [[1], [1, 2]], {}]
)
def test_finite_refuses_other_values(values):
    with pytest.raises(InvalidInput, match=r"^x must be"):
        finite("x", values)


@pytest.mark.parametrize(("value", "fits"), [(0, True), (1, True), (-1e-300, False), (1.0000001, False)])
def test_bounds_are_inclusive(value, fits):
    if fits:
        assert finite("x", value, low=0, high=1) == value
    else:
        with pytest.raises(InvalidInput, match=r"x must be finite and in \[0, 1\], got"):
            finite("x", [0.5, value], low=0, high=1)


def test_the_message_names_the_first_wrong_value():
    with pytest.raises(InvalidInput, match="got 7"):
        finite("x", [[0, 1], [7, 8]], high=5)


@pytest.mark.parametrize("values", [3, -3, [1, 2], 2.0, np.uint64(5), np.int8(-1), True])
def test_whole_numbers_become_integers(values):
    found = whole("pods", values)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.asarray(values).astype(int))


@pytest.mark.parametrize("values", [1.5, [1, 0.1], np.nan, np.inf, "two", None])
def test_other_numbers_are_not_rounded(values):
    with pytest.raises(InvalidInput, match="pods must be"):
        whole("pods", values)


def test_shapes_broadcast_or_are_named():
    assert common_shape("a and b", (3, 1), (1, 4), ()) == (3, 4)
    with pytest.raises(InvalidInput, match=r"a and b must broadcast, got shapes \(3,\), \(4,\)"):
        common_shape("a and b", (3,), (4,))


def test_a_caller_may_catch_all_of_carico_or_plain_value_errors():
    assert issubclass(InvalidInput, CaricoError)
    assert issubclass(InvalidInput, ValueError)
