"""Checks of saved state that is read back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carico.arrays import FloatArray, finite
from carico.errors import InvalidInput, InvalidState

_MOST = 1e9
"""Bound of all numbers: far more than any node has of any resource."""


def checked_array(state: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> FloatArray:
    """Return an array of a saved state.

    Raises
    ------
    InvalidState
        If it is missing, has another shape, or holds a number that is not finite or too large.
    """
    if name not in state:
        raise InvalidState(f"the saved state lacks {name!r}: it was written by another version; delete it")
    try:
        array = finite(name, state[name], low=-_MOST, high=_MOST)
    except InvalidInput as error:
        raise InvalidState(f"the saved state is damaged, delete it: {error}") from error
    if array.shape != shape:
        raise InvalidState(f"{name} has shape {array.shape}, wanted {shape}: the saved state is damaged; delete it")
    return array


def checked_mapping(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a saved state that is itself a mapping.

    Raises
    ------
    InvalidState
        If it is missing, or not a mapping.
    """
    part = state.get(name)
    if not isinstance(part, dict):
        raise InvalidState(f"the saved state lacks {name!r}: it was written by another version; delete it")
    return part
