"""Checks of array arguments, shared by the mathematics: array-likes in, arrays of one type or InvalidInput out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carico.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_LARGEST = float(np.finfo(np.float64).max)


def numbers(name: str, values: ArrayLike) -> FloatArray:
    """Return `values` as floats.

    Raises
    ------
    InvalidInput
        If they are not numbers, or their rows differ in length.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be numbers, got {values!r:.200}") from error


def finite(name: str, values: ArrayLike, low: float = -np.inf, high: float = np.inf) -> FloatArray:
    """Return `values` as floats, all finite and within [`low`, `high`].

    Raises
    ------
    InvalidInput
        If any value is not a number, infinite or out of range; the message names the first such value.
    """
    array = numbers(name, values)
    # Checking the extremes is enough: one NaN makes both of them NaN, and NaN fails every comparison.
    if array.size and not (
        max(low, -_LARGEST) <= np.minimum.reduce(array, axis=None)
        and np.maximum.reduce(array, axis=None) <= min(high, _LARGEST)
    ):
        fine = (array >= low) & (array <= high) & (np.abs(array) != np.inf)
        wanted = "finite" if np.isinf([low, high]).all() else f"finite and in [{low:g}, {high:g}]"
        raise InvalidInput(f"{name} must be {wanted}, got {array[~fine].flat[0]:g}")
    return array


def whole(name: str, values: ArrayLike) -> IntArray:
    """Return `values` as integers.

    Raises
    ------
    InvalidInput
        If a value is not a whole number.
    """
    array = finite(name, values)
    rounded = np.rint(array)
    if not (rounded == array).all():
        raise InvalidInput(f"{name} must be whole numbers, got {values!r}")
    return rounded.astype(np.int64)


def common_shape(what: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to.

    Raises
    ------
    InvalidInput
        If the shapes do not broadcast.
    """
    if len(set(shapes)) == 1:  # the common case; np.broadcast_shapes is slow
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise InvalidInput(f"{what} must broadcast, got shapes {', '.join(map(str, shapes))}") from None


def zero_if_nan(values: FloatArray) -> FloatArray:
    """Replace NaN, an unknown value, by 0; np.nan_to_num, which replaces infinities too, takes ten times as long."""
    return np.where(np.isnan(values), 0.0, values)
