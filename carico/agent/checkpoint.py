"""The checkpoint: the file that keeps what an agent has learned across restarts.

The file is JSON: the agent's state (arrays as lists, null for unknown values), and the variant that learned it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from carico.errors import InvalidState
from carico.files import write_whole

CHECKPOINT_VERSION = 1


def write_checkpoint(path: Path, variant: str, state: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all; raises as `write_whole` does."""
    content = json.dumps({"version": CHECKPOINT_VERSION, "variant": variant, "state": _as_json(state)}, allow_nan=False)
    write_whole(path, content.encode())


def read_checkpoint(path: Path, variant: str) -> dict[str, Any]:
    """Return the state that `write_checkpoint` wrote, for `AgentLoop.restore`, which checks it.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint yet.
    InvalidState
        If the file cannot be read, is not a checkpoint of this version, or was learned by another variant.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidState(f"cannot read the checkpoint {path}: {error}; delete it") from error
    if not isinstance(document, dict) or document.get("version") != CHECKPOINT_VERSION:
        raise InvalidState(f"{path} is not a checkpoint of version {CHECKPOINT_VERSION}; delete it")
    if document.get("variant") != variant:
        raise InvalidState(f"{path} was learned by variant {document.get('variant')!r}, not {variant!r}; delete it")
    state = document.get("state")
    if not isinstance(state, dict):
        raise InvalidState(f"{path} holds no state; delete it")
    return state


def _as_json(value: Any) -> Any:
    """Return a value that JSON can hold, with None for each number that is not finite: JSON has no NaN."""
    if isinstance(value, np.ndarray):
        return _as_json(value.tolist())
    if isinstance(value, Mapping):
        return {name: _as_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
