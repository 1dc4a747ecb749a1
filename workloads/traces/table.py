"""Rows of a CSV file with a header, each validated against a msgspec struct whose fields are named like the columns.

This module knows of no trace. A file is read completely or refused: no row is guessed, dropped or counted twice.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

from workloads.errors import InvalidTrace

Row = TypeVar("Row", bound=msgspec.Struct)
Name = Annotated[str, Meta(min_length=1, max_length=253)]


def read_rows(path: Path, kind: type[Row], key: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield every row, preceded by its place in words, for messages.

    Parameters
    ----------
    path : Path
        A CSV file in UTF-8 whose first line names the columns; more columns than `kind` has fields are fine.
    kind : type
        The struct that says what a row is. An empty cell is a field that is not given.
    key : sequence of str
        The fields that together differ from row to row.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, is empty or lacks a column, or if a row is not what `kind` says or is repeated; the
        message has the line, the value seen and the value wanted.
    """
    seen: dict[tuple[Any, ...], int] = {}
    for line, row in _rows(_text(path), path, kind):
        where = f"{path}, line {line}"
        identity = tuple(getattr(row, name) for name in key)
        if identity in seen:
            named = ", ".join(f"{name} {shown(str(value))}" for name, value in zip(key, identity, strict=True))
            raise InvalidTrace(f"{where}: {named} already occurs in line {seen[identity]}: remove one of them")
        seen[identity] = line
        yield where, row


def shown(value: str) -> str:
    """Return a value of the file for a message, shortened to fit one line."""
    return repr(value if len(value) <= 40 else value[:40] + "…")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidTrace(f"{path}, line {line} is not UTF-8 text: {error.reason}; is the file compressed?") from error
    except (OSError, ValueError) as error:
        raise InvalidTrace(f"cannot read {path}: {error}") from error


def _rows(text: str, path: Path, kind: type[Row]) -> Iterator[tuple[int, Row]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        wanted = kind.__struct_fields__
        missing = [name for name in wanted if header.count(name) != 1]
        if missing:
            raise InvalidTrace(
                f"{path}, line 1: the columns {','.join(wanted)} are needed, each once, got "
                f"{shown(','.join(header))}: check {', '.join(missing)}"
            )
        for cells in reader:
            where = f"{path}, line {reader.line_num}"
            if len(cells) != len(header):
                raise InvalidTrace(f"{where}: {len(header)} columns are needed, got {len(cells)}")
            values = {name: cell for name, cell in zip(header, cells, strict=True) if cell and name in wanted}
            try:
                yield reader.line_num, msgspec.convert(values, kind, strict=False)
            except msgspec.ValidationError as error:
                raise InvalidTrace(f"{where}: {_reason(str(error), values, kind)}") from error
    except csv.Error as error:
        raise InvalidTrace(f"{path}, line {reader.line_num} is not CSV: {error}") from error
    if reader.line_num < 2:
        raise InvalidTrace(f"{path} has no rows: a header and at least one row are needed")


def _reason(message: str, values: dict[str, str], kind: type[msgspec.Struct]) -> str:
    """Return msgspec's message after the column and the value seen; if there are few choices, list them instead."""
    if at := re.fullmatch(r"(.*) - at `\$\.(\w+)`", message, re.DOTALL):
        choices = [choice for choice in get_args(get_type_hints(kind)[at[2]]) if isinstance(choice, str)]
        wanted = f"one of {', '.join(choices)} is needed" if choices else at[1]
        return f"{at[2]} is {shown(values[at[2]])}: {wanted}"
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return f"{missing[1]} is empty"
    return message
