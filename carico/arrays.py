"""Checks shared by the mathematics: every public function takes array-likes and refuses what makes no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carico.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def numbers(name: str, values: ArrayLike) -> FloatArray:
    """Return `values` as floats.

    Raises
    ------
    InvalidInput
        If they are no numbers, or rows of different lengths.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be numbers, got {values!r}") from error


def finite(name: str, values: ArrayLike, low: float = -np.inf, high: float = np.inf) -> FloatArray:
    """Return `values` as floats, all finite and within [`low`, `high`].

    Raises
    ------
    InvalidInput
        If any value is not a number, infinite or out of range; the message names the first such value.
    """
    array = numbers(name, values)
    # One pass in the common case: a comparison with a NaN is False, so NaN fails it too.
    fine = (array >= low) & (array <= high) & (np.abs(array) != np.inf)
    if not fine.all():
        worst: Any = array[~fine].flat[0] if array.ndim else array[()]
        wanted = "finite" if np.isinf([low, high]).all() else f"finite and in [{low:g}, {high:g}]"
        raise InvalidInput(f"{name} must be {wanted}, got {worst:g}")
    return array


def common_shape(what: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to.

    Raises
    ------
    InvalidInput
        If they do not fit each other.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise InvalidInput(f"{what} must broadcast, got shapes {', '.join(map(str, shapes))}") from None
