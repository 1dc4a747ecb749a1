"""The checkpoint: the file that keeps what a process has learned across restarts.

The file is JSON: the state (arrays as lists, null for unknown values), and the variant that learned it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from carico.errors import InvalidState
from carico.files import write_whole

_log = logging.getLogger(__name__)

CHECKPOINT_VERSION = 1
MOST_BYTES = 16 << 20
"""Several times as much as any state takes; a larger file is not read."""


def write_checkpoint(path: Path, variant: str, state: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all; raises as `write_whole` does."""
    content = json.dumps({"version": CHECKPOINT_VERSION, "variant": variant, "state": _as_json(state)}, allow_nan=False)
    write_whole(path, content.encode())


def read_checkpoint(path: Path, variant: str) -> dict[str, Any]:
    """Return the state that `write_checkpoint` wrote; its content is not checked.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint yet.
    InvalidState
        If the file cannot be read, is too large or not a checkpoint of this version, or was learned by another variant.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InvalidState(f"the checkpoint {path} has {size} bytes, a state has at most {MOST_BYTES}; delete it")
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


def continue_from(path: Path, variant: str, restore: Callable[[Mapping[str, Any]], None]) -> None:
    """Restore a checkpoint, if there is one; one that cannot be used is moved aside, so that learning begins anew.

    Parameters
    ----------
    path : Path
    variant : str
    restore : callable
        Called with the state; raises InvalidState if the state is damaged.
    """
    try:
        restore(read_checkpoint(path, variant))
    except FileNotFoundError:
        return
    except InvalidState as error:
        suffixes = chain([".unusable"], (f".unusable.{number}" for number in count(1)))
        aside = next(free for suffix in suffixes if not (free := path.with_name(path.name + suffix)).exists())
        path.replace(aside)
        _log.warning("starting without the checkpoint, which is %s now: %s", aside, error)


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
