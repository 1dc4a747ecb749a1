"""Check at the start of a process that it can write its files, before anything is lost."""

from __future__ import annotations

import os
from pathlib import Path

from carico.errors import InvalidConfig


def require_writable(file: Path, field: str) -> None:
    """Check that a file can be created, or replaced if it exists; nothing is written.

    Parameters
    ----------
    file : Path
    field : str
        The field of the configuration that names the file, for the message.

    Raises
    ------
    InvalidConfig
        If the folder does not exist, the path is not a file, or the folder or file is not writable.
    """
    folder = file.parent
    if not folder.is_dir():
        raise InvalidConfig(f"{field} needs a folder that exists, {folder} does not: make it, or name another file")
    if file.exists() and not file.is_file():
        raise InvalidConfig(f"{field} needs a file, {file} is something else: name another one")
    for path in (folder, file):
        if path.exists() and not os.access(path, os.W_OK):
            raise InvalidConfig(
                f"{field} needs a folder and a file that user ID {os.getuid()} may write, {path} is read-only for it: "
                f"change its mode or mount, or name another file"
            )
