"""What does not fit its type in a YAML text: the line, and what was probably meant; needs msgspec and PyYAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
import yaml
from msgspec import inspect

_MESSAGE = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>[\w.\[\]]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_UNKNOWN_VALUE = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)


def misfit(error: msgspec.ValidationError, text: str, kind: type) -> str:
    """Return in one sentence what is wrong, with its line and, for unknown names, those that are known.

    Parameters
    ----------
    error : msgspec.ValidationError
        What `msgspec.convert` has said of the text's content.
    text : str
        A valid YAML text.
    kind : type
        What the content was to be.

    Returns
    -------
    str
        For example ``line 3: status: there is no field 'prot', did you mean 'port'? Known: host, port, tls, key``.
    """
    match = _MESSAGE.fullmatch(str(error))
    problem, place = (match["problem"], match["path"] or "") if match else (str(error), "")
    path: list[str | int] = [step[1] or int(step[2]) for step in _STEP.finditer(place)]
    here: list[Any] = _members(inspect.type_info(kind))
    for step in path:
        here = [member for one in here for member in _inside(one, step)]
    if unknown := _UNKNOWN_FIELD.fullmatch(problem):
        path.append(unknown[1])
        known = [field.encode_name for one in here if isinstance(one, inspect.StructType) for field in one.fields]
        problem = f"there is no field '{unknown[1]}'{_meant(unknown[1], known)}"
    elif unknown := _UNKNOWN_VALUE.fullmatch(problem):
        known = [str(value) for one in here if isinstance(one, inspect.LiteralType) for value in one.values]
        problem = f"there is no value '{unknown[1]}'{_meant(unknown[1], known)}"
    label = f"{place.removeprefix('.')}: " if place else ""
    return f"line {_line_of(text, path)}: {label}{problem}"


def _members(kind: inspect.Type) -> list[Any]:
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type)
    return [member for one in kind.types for member in _members(one)] if isinstance(kind, inspect.UnionType) else [kind]


def _inside(kind: inspect.Type, step: str | int) -> list[Any]:
    """Return the types that a value of a type may have at a field or an index."""
    if isinstance(kind, inspect.StructType):
        return [member for field in kind.fields if field.encode_name == step for member in _members(field.type)]
    return _members(kind.item_type) if isinstance(kind, inspect.VarTupleType | inspect.ListType) else []


def _meant(given: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(given, names, n=1)
    return f", did you mean {close[0]!r}? Known: {', '.join(names)}" if close else f"; known: {', '.join(names)}"


def _line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the line of the value at a path, or of the last one before it that the text has."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    line = 0 if node is None else node.start_mark.line
    for step in path:
        found = next((pair for pair in _pairs(node) if pair[0] == step), None)
        if found is None:
            break  # a default, or what a merge (<<) brings
        _, line, node = found
    return line + 1


def _pairs(node: yaml.Node | None) -> list[tuple[str | int, int, yaml.Node]]:
    """Return the key or index, the line and the value of each part of a node."""
    if isinstance(node, yaml.MappingNode):
        keyed = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        return [(key.value, key.start_mark.line, value) for key, value in keyed]
    listed = node.value if isinstance(node, yaml.SequenceNode) else []
    return [(index, value.start_mark.line, value) for index, value in enumerate(listed)]
