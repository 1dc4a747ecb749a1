"""Values that fit a schema, and plain words for those that do not.

msgspec validates; its messages name types (``Expected `int`, got `str```) and paths. People look for the value that was
seen and the value that is wanted.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from workloads.errors import Key, Misfit, did_you_mean, shown, suggested

_MESSAGE = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[\w.\[\]]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_OTHER = re.compile(r"Expected |Invalid (enum )?value |(Number|Integer value) out of range")
_UNQUOTED = ": on, yes, numbers and dates need quotes to be text"
_TYPES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.FloatType: (int, float),
    inspect.IntType: (int,),
    inspect.BoolType: (bool,),
    inspect.NoneType: (type(None),),
}


def fitted(value: Any, schema: Any, *, strict: bool = True) -> Any:
    """Return a value as its schema says.

    Parameters
    ----------
    value : object
        Mappings, lists and scalars.
    schema : type
        As `msgspec.convert` takes it. Where a constraint has no plain words of its own, such as a pattern, its
        `msgspec.Meta` has them: ``extra={"wanted": "a name of small letters"}``; with ``"hidden": True`` the value
        seen, which may be a secret, is left out.
    strict : bool, optional
        False if numbers and switches may be texts.

    Raises
    ------
    Misfit
        If it does not fit: ``jobs[0].pods: a whole number from 1 to 9 is needed, got 'five'``. What these words do not
        cover has msgspec's.
    """
    try:
        return msgspec.convert(value, schema, strict=strict)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), value, inspect.type_info(schema)) from error
    except UnicodeEncodeError as error:
        raise Misfit(str(error)) from error


def _misfit(message: str, value: Any, kind: inspect.Type) -> Misfit:
    """Return what is wrong: a field, a key, or the value at the path in the message."""
    match = _MESSAGE.fullmatch(message)
    problem = match["problem"] if match else message
    path: list[Key] = []
    for step in _STEP.finditer((match and match["path"]) or ""):
        # msgspec does not say which value of a plain mapping is wrong.
        key = step[1] or (int(step[2]) if step[2] else _wrong_key(kind, value))
        kind, value = _kind_of(kind, key, value), _at(value, key)
        path.append(key)
    structs = _structs(kind, value)
    if isinstance(value, dict) and (problem.startswith("Object contains unknown field ") or (match and match["key"])):
        tags = dict.fromkeys(one.tag_field for one in structs if one.tag_field is not None)
        known = [*tags, *(field.encode_name for one in structs for field in one.fields)]
        for key in value:
            if structs and key not in known:
                return _of_key(key, f"there is no field {_name(key)}{suggested(str(key), known)}", path)
            if not isinstance(key, str):
                return _of_key(key, f"the name {_name(key)} is no text{_UNQUOTED}", path)
    if missing := _MISSING.fullmatch(problem):
        wanted = _wanted(_kind_of(kind, missing[1], value))
        return Misfit(f"{missing[1]} is missing" + f": {wanted} is needed" * bool(wanted), *path)
    if _OTHER.match(problem):
        if wanted := _wanted(kind):
            meant = did_you_mean(value, _choices(kind)) if isinstance(value, str) else ""
            unquoted = _UNQUOTED if _is_text(kind) and not isinstance(value, str | list | dict | None) else ""
            got = "" if _extra(kind).get("hidden") else f", got {shown(value)}{meant}{unquoted}"
            return Misfit(f"{wanted} is needed{got}", *path)
        problem += f": {shown(value)}"
    return Misfit("".join(each if each.isprintable() else repr(each)[1:-1] for each in problem), *path)


def _of_key(key: Key, problem: str, path: list[Key]) -> Misfit:
    """Return what is wrong with a key of the mapping at a path; the problem names it, its place is its own."""
    misfit = Misfit(problem, *path)
    misfit.path = (*path, key)
    return misfit


def _name(key: Key) -> str:
    return "null" if key is None else shown(key)


def _at(value: Any, key: Key) -> Any:
    try:
        return value[key]
    except (LookupError, TypeError):
        return None


def _wrong_key(kind: inspect.Type, value: Any) -> Key:
    """Return the first key whose value has none of the types that a mapping's values may have."""
    items = list(value.items()) if isinstance(value, dict) else []
    wanted = [one.value_type for one in _members(kind) if isinstance(one, inspect.DictType)]
    types = {each for one in wanted for member in _members(one) for each in _TYPES.get(type(member), ())}
    return next((key for key, each in items if type(each) not in types), items[0][0] if items else "...")


def _kind_of(kind: inspect.Type, key: Key, value: Any) -> Any:
    """Return the type of what a value of a given type has at a key or an index."""
    for one in _members(kind):
        if isinstance(one, inspect.ListType):
            return one.item_type
        if isinstance(one, inspect.DictType):
            return one.value_type
    for one in _structs(kind, value):
        for field in one.fields:
            if field.encode_name == key:
                return field.type
    # The tag of a union is no field of its members.
    tags = [str(one.tag) for one in _members(kind) if getattr(one, "tag_field", None) == key]
    return inspect.LiteralType(values=tuple(tags)) if tags else inspect.AnyType()


def _members(kind: Any) -> list[Any]:
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type)
    return [member for one in kind.types for member in _members(one)] if isinstance(kind, inspect.UnionType) else [kind]


def _structs(kind: Any, value: Any) -> list[inspect.StructType]:
    """Return the structs of a type; of a union only the one whose tag the value has."""
    found = [one for one in _members(kind) if isinstance(one, inspect.StructType)]
    tagged = [one for one in found if one.tag_field is not None and _at(value, one.tag_field) == one.tag]
    return tagged or found


def _choices(kind: Any) -> list[str]:
    return [
        str(value)
        for one in _members(kind)
        for value in (
            one.values
            if isinstance(one, inspect.LiteralType)
            else [member.value for member in one.cls]
            if isinstance(one, inspect.EnumType)
            else ()
        )
    ]


def _is_text(kind: Any) -> bool:
    return {type(one) for one in _members(kind)} - {inspect.NoneType} == {inspect.StrType}


def _extra(kind: Any) -> dict[str, Any]:
    return (isinstance(kind, inspect.Metadata) and kind.extra) or {}


def _wanted(kind: Any) -> str:
    """Return in words what is wanted; an empty text where there are none."""
    if isinstance(kind, inspect.Metadata):
        return _extra(kind).get("wanted") or _wanted(kind.type)
    if isinstance(kind, inspect.UnionType):
        # Whoever may leave a value out knows; every whole number is a number.
        kinds = [type(one) for one in _members(kind)]
        left_out = (inspect.NoneType, *([inspect.IntType] if inspect.FloatType in kinds else []))
        words = dict.fromkeys(_wanted(one) for one in kind.types if type(one) not in left_out)
        return " or ".join(words) if all(words) else ""
    if choices := _choices(kind):
        return f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    if isinstance(kind, inspect.StructType):
        required = [field.encode_name for field in kind.fields if field.required]
        # Which others a struct of a union requires depends on its tag.
        needed = ", ".join(required if kind.tag_field is None else [kind.tag_field])
        return "a mapping" + f" with at least {needed}" * bool(needed)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        if kind.multiple_of is not None:
            return ""
        return ("a whole number" if isinstance(kind, inspect.IntType) else "a number") + _range(kind)
    if isinstance(kind, inspect.StrType):
        return "" if kind.pattern is not None else "text" + _length(kind, "character")
    if isinstance(kind, inspect.ListType):
        return "a list" + _length(kind, "entry")
    if isinstance(kind, inspect.DictType):
        return "a mapping"
    return "true or false" if isinstance(kind, inspect.BoolType) else ""


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {_number(kind.ge)} to {_number(kind.le)}"
    limits = [
        f"{words} {_number(limit)}"
        for words, limit in (("from", kind.ge), ("above", kind.gt), ("below", kind.lt), ("up to", kind.le))
        if limit is not None
    ]
    on = " on" if kind.ge is not None and len(limits) == 1 else ""
    return f" {' and '.join(limits)}{on}" if limits else ""


def _number(limit: float) -> str:
    return str(int(limit) if limit == int(limit) else limit)


def _length(kind: Any, of: str) -> str:
    least, most = kind.min_length, kind.max_length
    if least is None and most is None:
        return ""
    count = f"{least} to {most}" if least and most else f"at least {least}" if least else f"at most {most}"
    plural = of if (most or least) == 1 else {"entry": "entries"}.get(of, f"{of}s")
    return f" of {count} {plural}"
