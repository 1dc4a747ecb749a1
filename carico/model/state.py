"""What a node model saves: the names of its arrays, what they may hold, and the check of a state that is read back.

Pure; where the arrays are kept (a file, a volume) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import FloatArray, numbers
from carico.errors import InvalidInput, InvalidState

_ANY = 1e15
"""The bound of arrays without a bound of their own: far above real values, and its powers are still finite."""
BOUNDS: dict[str, tuple[float, float, bool]] = {
    "pods": (0.0, 2.0**53, False),
    "smoothed": (0.0, 1.0, True),
    "deviating": (-(2.0**53), 2.0**53, False),
    "batch": (0.0, 1.0, False),
    "batched": (0.0, 2.0**53, False),
    "last_sample_at": (-np.inf, _ANY, True),
    "last_event_at": (-np.inf, _ANY, True),
    "exchanged_at": (-np.inf, _ANY, True),
    "own_basis": (-2.0, 2.0, False),
    "own_values": (0.0, _ANY, False),
    "global_basis": (-2.0, 2.0, False),
    "global_values": (0.0, _ANY, False),
    "has_own": (0.0, 1.0, False),
    "has_global": (0.0, 1.0, False),
    "exchanged": (0.0, _ANY, True),
    "idle_usage": (0.0, 1.0 + 1e-9, True),
    "rebase": (0.0, 1.0, False),
}
"""Of each array: the lowest and the highest sensible value, and whether NaN stands for a value not known yet."""
TIMES = ("last_sample_at", "last_event_at", "exchanged_at")
"""Times; -inf means never. Strict JSON writes it as null, which is read as NaN."""


def checked_state(state: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, FloatArray]:
    """Return the arrays of a saved state, one for every name in `shapes`.

    Raises
    ------
    InvalidState
        If one is missing, has another shape or holds values that no model learns; the message says which.
    """
    arrays: dict[str, FloatArray] = {}
    for name, shape in shapes.items():
        if name not in state:
            raise InvalidState(f"the saved state lacks {name!r}: it was written by another version; delete it")
        try:
            array = numbers(name, state[name])
        except InvalidInput as error:
            raise InvalidState(f"the state is damaged, delete it: {error}") from error
        if array.shape != shape:
            raise InvalidState(
                f"{name} has shape {array.shape}, this model needs {shape}: "
                f"the state belongs to other nodes or resources; delete it"
            )
        low, high, may_be_unknown = BOUNDS[name]
        fine = (array >= low) & (array <= high) | (np.isnan(array) & may_be_unknown)
        if not fine.all():
            raise InvalidState(f"{name} holds {array[~fine][0]:g}: the state is damaged; delete it")
        arrays[name] = np.where(np.isnan(array), -np.inf, array) if name in TIMES else array
    return arrays
