"""The checkpoint: the text that keeps what a process has learned, in a file across restarts, or wherever else.

The text is JSON: the state (arrays as lists, null for unknown values) with its checksum, the variant that learned it,
and its owner, which is the node whose agent learned it, or the extender.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import stat
from collections.abc import Callable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from carico.errors import InvalidState
from carico.files import not_following, write_whole

_log = logging.getLogger(__name__)

CHECKPOINT_VERSION = 2
MOST_BYTES = 8 << 20
"""The limit of any checkpoint: 10,000 workloads of the extender, whose names are as long as Kubernetes allows."""
MOST_BYTES_OF_AN_AGENT = 1 << 20
"""The limit of an agent's checkpoint: 64 workloads, with two covariance matrices, take a third of this.

Decoded JSON may take more than twenty times its size, and an agent has 256 MiB.
"""
_MOST_NESTED = 10
"""The limit of nesting: twice that of any state. Deeper values might be read, but not be shown in a message."""


def as_text(variant: str, state: Mapping[str, Any], *, owner: str) -> str:
    """Return a state as the text of a checkpoint."""
    text = _canonical(_as_json(state))
    head = {"version": CHECKPOINT_VERSION, "variant": variant, "owner": owner, "sha256": _checksum(text)}
    # Put together as text, so that the state, which may take megabytes, is encoded only once.
    return f'{json.dumps(head)[:-1]}, "state": {text}}}'


def from_text(text: str | bytes, name: str, variant: str, *, owner: str) -> dict[str, Any]:
    """Return the state in the text of a checkpoint; whether a process can continue from it is not checked.

    Parameters
    ----------
    text : str or bytes
    name : str
        Where the text comes from, for messages.
    variant, owner : str
        What learned the state, and where.

    Raises
    ------
    InvalidState
        If the text is not a checkpoint of this version, belongs to another variant or owner, or is not what was
        written.
    """
    try:
        document = json.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise InvalidState(f"cannot read the checkpoint {name}: {error}; delete it") from error
    if not _is_shallow(document, _MOST_NESTED):
        raise InvalidState(f"the checkpoint {name} nests values deeper than {_MOST_NESTED}, no state does; delete it")
    if not isinstance(document, dict) or document.get("version") != CHECKPOINT_VERSION:
        raise InvalidState(f"{name} is not a checkpoint of version {CHECKPOINT_VERSION}; delete it")
    for field, wanted in (("variant", variant), ("owner", owner)):
        if document.get(field) != wanted:
            raise InvalidState(f"{name} is of the {field} {document.get(field)!r:.300}, not {wanted!r}; delete it")
    state = document.get("state")
    if not isinstance(state, dict):
        raise InvalidState(f"{name} holds no state; delete it")
    said, found = document.get("sha256"), _checksum(_canonical(state))
    if said != found:
        raise InvalidState(f"{name} wants a state of checksum {said!r:.100}, it holds one of {found!r}; delete it")
    return state


def write_checkpoint(path: Path, variant: str, state: Mapping[str, Any], *, owner: str) -> None:
    """Write a checkpoint, whole or not at all; raises as `write_whole` does."""
    write_whole(path, as_text(variant, state, owner=owner).encode())


def unwritten(path: Path, error: OSError, lost: str) -> str:
    """Say that a checkpoint could not be written, what that means, and what to do.

    Parameters
    ----------
    path : Path
    error : OSError
    lost : str
        What the checkpoint keeps, for example "what workloads cost".
    """
    why = error.strerror or str(error)
    return f"a restart would forget {lost}: cannot write {path}: {why}; make room on its disk, or mend the disk"


def read_checkpoint(path: Path, variant: str, *, owner: str, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the state that `write_checkpoint` wrote; whether a process can continue from it is not checked.

    Reading neither waits nor takes much memory, whatever is found under the name.

    Parameters
    ----------
    path : Path
    variant, owner : str
        What learned the state, and where.
    most_bytes : int, optional
        A larger file is refused.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint yet.
    InvalidState
        If the file cannot be read, is too large or not a checkpoint of this version, belongs to another variant or
        owner, or its content is not what was written.
    """
    return from_text(_content(path, most_bytes), str(path), variant, owner=owner)


def continue_from(
    path: Path,
    variant: str,
    restore: Callable[[Mapping[str, Any]], None],
    *,
    owner: str,
    most_bytes: int = MOST_BYTES,
) -> None:
    """Restore a checkpoint, if there is one; one that cannot be used is moved aside, so that learning begins anew.

    If it cannot be moved aside, because the file system is read-only for example, it stays until the next checkpoint.

    Parameters
    ----------
    path : Path
    variant : str
    restore : callable
        Called with the state; raises InvalidState if the state is damaged.
    owner : str
    most_bytes : int, optional
        A larger checkpoint is refused.
    """
    try:
        restore(read_checkpoint(path, variant, owner=owner, most_bytes=most_bytes))
    except FileNotFoundError:
        return
    except InvalidState as error:
        try:
            _log.warning("starting without the checkpoint, which is %s now: %s", _moved_aside(path), error)
        except OSError as failure:
            _log.warning("starting without the checkpoint, which cannot be moved aside (%s): %s", failure, error)


def _moved_aside(path: Path) -> Path:
    """Rename a file to the first name with a suffix that is free, and return that; raises OSError if it cannot."""
    suffixes = chain([".unusable"], (f".unusable.{number}" for number in count(1)))
    aside = next(free for suffix in suffixes if not (free := path.with_name(path.name + suffix)).exists())
    return path.replace(aside)


def _content(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file; raises as `read_checkpoint` does."""
    try:
        with open(path, "rb", opener=not_following) as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is not a regular file")
            content = (stream.read(most_bytes + 1) or b"") if found.st_size <= most_bytes else b""
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise InvalidState(f"cannot read the checkpoint {path}: {error}; delete it") from error
    size = max(found.st_size, len(content))  # the kernel gives some files that it makes up a size of 0
    if size > most_bytes:
        raise InvalidState(f"the checkpoint {path} has {size} bytes, a state has at most {most_bytes}; delete it")
    return content


def _canonical(state: Any) -> str:
    """Return the JSON of a state; a state that is read back has the same."""
    return json.dumps(state, sort_keys=True, separators=(",", ":"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_shallow(value: Any, levels: int) -> bool:
    """Return whether at most this many levels of lists and objects are nested."""
    if not isinstance(value, (dict, list)):
        return True
    return levels > 0 and all(
        _is_shallow(part, levels - 1) for part in (value.values() if isinstance(value, dict) else value)
    )


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
