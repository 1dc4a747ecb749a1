"""Rows of a CSV file with a header, each validated against a msgspec struct whose fields are named like the columns.

This module knows of no trace. A file is read completely or refused: no row is guessed, dropped or counted twice.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from workloads.errors import InvalidTrace, Misfit, shown
from workloads.fitting import fitted

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
                row: Row = fitted(values, kind, strict=False)
            except Misfit as error:
                raise InvalidTrace(f"{where}: {error}") from error
            yield reader.line_num, row
    except csv.Error as error:
        raise InvalidTrace(f"{path}, line {reader.line_num} is not CSV: {error}") from error
    if reader.line_num < 2:
        raise InvalidTrace(f"{path} has no rows: a header and at least one row are needed")
