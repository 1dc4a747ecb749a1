"""The testbed's files: in a folder that git ignores, and readable for later versions."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from carico.printable import printable, printable_lines
from testbed.errors import UnusableFile
from testbed.results import OWN_FOLDER

T = TypeVar("T")
ROOM = 64 * 1024
"""Bytes that a run needs on the disk before it begins; every repetition needs more."""


class _Version(msgspec.Struct):
    schema_version: int


def make_folder(folder: Path) -> None:
    """Create a folder with its parents; a new `.carico` among them gets a .gitignore of its own."""
    own = next((place for place in (folder, *folder.parents) if place.name == OWN_FOLDER), None)
    if own is not None and not own.exists():
        own.mkdir(parents=True, exist_ok=True)
        (own / ".gitignore").write_text("*\n", encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)


def folders_with(place: Path, file: str) -> list[Path]:
    """Return the folders in `place` that have such a file, by name."""
    return [found.parent for found in sorted(place.glob(f"*/{file}"))]


def check_folder(folder: Path) -> None:
    """Check that files can be written to a folder, which need not exist yet, and that there is room; leaves no trace.

    Raises
    ------
    UnusableFile
        If files cannot be written; the message says what to change.
    """
    # A link to nothing is there, too, and no folder can be made in its place.
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(ROOM))  # on a full disk files can still be made, but have no content
    except OSError as error:
        raise UnusableFile(
            f"cannot record the run in {folder}: {there}: {error.strerror}; make it a folder that can be written and "
            f"has room, or start from another one (pytest: --rootdir=FOLDER)"
        ) from error


def read_versioned(path: Path, kind: type[T], newest: int, what: str, *, for_pytest: bool = False) -> T:
    """Read a JSON file that has a `schema_version`; keys that this version does not know are ignored.

    Parameters
    ----------
    path : Path
    kind : type
        What the file holds.
    newest : int
        The latest schema_version that is understood.
    what : str
        What the file is, for messages, such as "results file".
    for_pytest : bool, optional
        Whether characters that are not printable become question marks, but for line breaks and tabs: unlike
        `carico-testbed`, pytest writes to terminals whatever it is given.

    Raises
    ------
    UnusableFile
        If it cannot be read, is not such a file, or comes from a newer version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnusableFile(f"cannot read the {what} {path}: {error.strerror}") from error
    return decode_versioned(content, kind, newest, what=what, path=path, for_pytest=for_pytest)


def decode_versioned(
    content: bytes, kind: type[T], newest: int, *, what: str, path: Path, for_pytest: bool = False
) -> T:
    """Decode the content of the file `path`; everything else as in `read_versioned`."""
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version > newest:
            raise UnusableFile(
                f"{path} has schema_version {version}, this version of carico-testbed reads up to {newest}: "
                f"update carico-testbed"
            )
        if for_pytest:
            return msgspec.convert(_printable(msgspec.json.decode(content)), kind)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # also: not UTF-8, or nested too deeply
        article = "an" if what[0] in "aeiou" else "a"
        raise UnusableFile(f"{path} is not {article} {what} of carico-testbed: {printable(error)}") from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    return value
