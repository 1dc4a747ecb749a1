"""Files that are written whole or not at all, and the check at the start of a process that it can write its files."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from carico.errors import InvalidConfig

_log = logging.getLogger(__name__)


def not_following(file: str, flags: int) -> int:
    """Open a file, as an `opener` of `open`, unless it is a symbolic link; a named pipe is not waited for.

    Whoever may write to a file's folder could otherwise have any file read or written that this process may, or make
    the process hang.

    Raises
    ------
    OSError
        If the file cannot be opened, or is a symbolic link (ELOOP).
    """
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def write_whole(file: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file under another name in the same folder and rename it: a crash leaves the earlier file in place.

    A symbolic link under either name is replaced, not followed.

    Parameters
    ----------
    file : Path
    content : bytes
    mode : int
        The file's mode from its creation on, less the process's umask.

    Raises
    ------
    OSError
        If the file cannot be written; it is as it was before.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)  # left by a process of the same id that was killed
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as stream:  # noqa: PTH123
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def require_writable(file: Path, field: str, without: str) -> None:
    """Check that a file can be created, or replaced if it exists; nothing is written.

    A disk that is read-only, as Linux makes one that has failed, is no mistake of the configuration: a warning is
    logged, and the process does without the file.

    Parameters
    ----------
    file : Path
    field : str
        The field of the configuration that names the file, for the message.
    without : str
        What comes of doing without the file, for the warning.

    Raises
    ------
    InvalidConfig
        If the folder does not exist, the path is not a file, or this user may not write the folder or file.
    """
    folder = file.parent
    if not folder.is_dir():
        raise InvalidConfig(f"{field} needs a folder that exists, {folder} does not: make it, or name another file")
    if file.exists() and not file.is_file():
        raise InvalidConfig(f"{field} needs a file, {file} is something else: name another one")
    for path in (folder, file):
        if not path.exists() or os.access(path, os.W_OK):
            continue
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            _log.warning("%s: the disk of %s is read-only, so %s", field, path, without)
            return
        raise InvalidConfig(
            f"{field} needs a folder and a file that user ID {os.getuid()} may write, {path} is read-only for it: "
            f"change its mode, or name another file"
        )
