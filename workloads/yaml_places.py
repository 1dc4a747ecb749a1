"""Where in a YAML text a value is that does not fit its schema, and what would fit there.

msgspec names the value by a path such as ``$.jobs[0].pods``; people look for a line, and for what is allowed.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from workloads.errors import did_you_mean

_ERROR = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>.*?)`)?")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_NO_CHOICE = re.compile(r"Invalid (?:enum )?value '(.*)'")


def placed(error: msgspec.ValidationError, text: str, loader: type[yaml.SafeLoader], schema: type) -> str:
    """Return what is wrong in a YAML text, with the line, and with the fields or choices that are known there.

    Parameters
    ----------
    error : msgspec.ValidationError
        As `msgspec.convert` raises it for the text's document.
    text : str
        A valid YAML text.
    loader : type
        The loader that read it.
    schema : type
        The struct that the document should be.

    Returns
    -------
    str
        For example ``line 7: Expected `int`, got `str` - at `$.jobs[0].pods```.
    """
    match = _ERROR.fullmatch(str(error))
    assert match is not None
    problem, path = match["problem"], match["path"] or ""
    steps: list[str | int] = [int(index) if index else name for name, index in _STEP.findall(path)]
    unknown = _UNKNOWN.fullmatch(problem)
    node = yaml.compose(text, Loader=loader)
    kind: inspect.Type = inspect.type_info(schema)
    line = 0 if node is None else node.start_mark.line
    for step in steps:
        kind = _kind_of(kind, step, node)
        key, node = _child(node, step)  # nothing where the value comes from a merge (<<)
        if (found := key or node) is not None:
            line = found.start_mark.line
    if unknown and (key := _child(node, unknown[1])[0]) is not None:
        line = key.start_mark.line
    allowed = ""
    if unknown:
        known = [field.encode_name for one in _structs(kind, node) for field in one.fields]
        allowed = f"{did_you_mean(unknown[1], known)}; known: {', '.join(known)}" if known else ""
    elif (wrong := _NO_CHOICE.fullmatch(problem)) and (choices := _choices(kind)):
        allowed = f"{did_you_mean(wrong[1], choices)}; known: {', '.join(choices)}"
    return f"line {line + 1}: {error}{allowed}"


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key, if it has one, and the value at a step of a path; nothing where the path leads nowhere."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), (None, None))
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def _kind_of(kind: Any, step: str | int, node: yaml.Node | None) -> Any:
    """Return the type at a step of a path, which leads on from a value of a given type."""
    if isinstance(step, int):
        return next((one.item_type for one in _members(kind) if isinstance(one, inspect.ListType)), inspect.AnyType())
    for one in _structs(kind, node):
        for field in one.fields:
            if field.encode_name == step:
                return field.type
    # The tag of a union is no field of its members.
    tags = [str(one.tag) for one in _members(kind) if getattr(one, "tag_field", None) == step]
    return inspect.LiteralType(values=tuple(tags)) if tags else inspect.AnyType()


def _members(kind: Any) -> list[Any]:
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type)
    return [member for one in kind.types for member in _members(one)] if isinstance(kind, inspect.UnionType) else [kind]


def _structs(kind: Any, node: yaml.Node | None) -> list[inspect.StructType]:
    """Return the structs of a type; of a union only the one whose tag the value has."""
    found = [one for one in _members(kind) if isinstance(one, inspect.StructType)]
    tagged = [
        one
        for one in found
        if one.tag_field is not None and getattr(_child(node, one.tag_field)[1], "value", None) == one.tag
    ]
    return tagged or found


def _choices(kind: Any) -> list[str]:
    return [str(value) for one in _members(kind) if isinstance(one, inspect.LiteralType) for value in one.values]
