"""Files that a process keeps writing: whether it can is known at the start, not when the first line is lost."""

from __future__ import annotations

import os
from pathlib import Path

from carico.errors import InvalidConfig


def require_writable(file: Path, field: str) -> None:
    """Check that a file can be made, or replaced if it is there; nothing is written.

    Parameters
    ----------
    file : Path
    field : str
        Of the configuration, for the message.

    Raises
    ------
    InvalidConfig
        If its folder does not exist, something else than a file is there, or either may not be written.
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
