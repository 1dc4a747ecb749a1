"""Changes inputs without spoiling their syntax: one value of a JSON or YAML document is replaced, dropped or moved."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import yaml

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 110, 1000, 1_000_000, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30),
    *(1e-300, 1e9, 1e12, 1e18, 1e308, -1e308, float("nan"), float("inf")),
    *("", " ", "a", "0", "-1", "1e3", "true", "null", "node-1", "default", "ä", "\ud800", "\0", "\n", "a" * 300),
    *([], {}, [[]], [0], [None], {"a": None}, {"": 1}),
)
_DEEP_VALUES: tuple[Any, ...] = ("<deep>", {"a": "<deep>"})
_DEEP = b"[" * 1500 + b"]" * 1500
"""What ``<deep>`` stands for where it is a value; Python would not write it."""


def changed(data: bytes, form: str, rng: random.Random) -> bytes | None:
    """Return a changed input; None if this one has not the form."""
    try:
        if form == "lines":
            lines = data.splitlines()
            at = rng.randrange(len(lines))
            lines[at] = _text(json.loads(lines[at]), rng)
            return b"\n".join(lines) + b"\n"
        return _text(json.loads(data) if form == "json" else yaml.safe_load(data.decode()), rng)
    except (ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError, RecursionError, OverflowError):
        return None


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which some were removed, inserted or replaced."""
    first = rng.randint(0, len(data))
    last = rng.randint(first, min(first + 40, len(data)))
    inserted = (
        rng.randbytes(rng.randint(0, 8)) if rng.random() < 0.7 else data[: rng.randint(0, 40)] * rng.randint(1, 9)
    )
    return data[:first] + inserted + data[last:]


def _text(document: Any, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _with_change(document, rng)
    return json.dumps(document, separators=(",", ":")).encode().replace(b'"<deep>"', _DEEP)


def _with_change(document: Any, rng: random.Random) -> Any:
    places = list(_places(document))
    if not places:
        return rng.choice(_VALUES + _DEEP_VALUES)
    document = copy.deepcopy(document)
    path = rng.choice(places)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    last, action = path[-1], rng.random()
    if action < 0.15:
        del holder[last]
    elif action < 0.25 and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif action < 0.35 and isinstance(holder, dict):
        holder[str(rng.choice(_VALUES))[:20]] = holder.pop(last)
    elif action < 0.5:
        holder[last] = copy.deepcopy(_at(document, rng.choice(places)))
    elif action < 0.65 and isinstance(holder[last], (int, float)) and not isinstance(holder[last], bool):
        holder[last] = rng.choice((holder[last] + 1, holder[last] * -1, holder[last] * 1000, rng.gauss(0, 1e3)))
    elif action < 0.7:
        for _ in range(rng.choice((2, 12, 100))):
            holder[last] = [holder[last]]
    else:
        holder[last] = rng.choice(_VALUES + _DEEP_VALUES)
    return document


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _places(document: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the paths of all values within a document."""
    entries = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in entries:
        yield (*path, key)
        yield from _places(value, (*path, key))
