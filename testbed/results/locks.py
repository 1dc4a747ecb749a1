"""Locks between processes: one at a time (`locked`), and whether any process is at work in a folder (`Presence`).

The kernel ends a lock with its process, so a crash leaves nothing locked. Lock files may stay behind; they say nothing.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from testbed.errors import ResultsError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, in a folder that exists; wait while another process or thread holds it.

    Raises
    ------
    ResultsError
        If the lock file cannot be created or locked.
    """
    lock = FileLock(path)
    try:
        path.parent.stat()  # or the folder would be created
        lock.acquire()
    except OSError as error:
        raise ResultsError(f"cannot write to {path.parent}: {error.strerror}; has the folder been removed?") from error
    try:
        yield
    finally:
        lock.release()


class Presence:
    """Tells processes whether any of them is at work, by a locked file for each that is.

    Parameters
    ----------
    folder : Path
        The folder of these files; its parent exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: BaseFileLock | None = None

    def __reduce__(self) -> tuple[type[Presence], tuple[Path]]:
        """Pickle the folder alone: the copy belongs to another process, which has not entered yet."""
        return Presence, (self.folder,)

    @property
    def is_mine(self) -> bool:
        """Whether `enter` has been called here, and `leave` has not been called since."""
        return self._lock is not None

    @property
    def is_anyones(self) -> bool:
        """Whether any process is at work, this one included."""
        return any(_is_locked(file) for file in self.folder.glob("*"))

    def enter(self) -> None:
        """Be at work until `leave` or the end of this process; raises OSError."""
        if self._lock is None:
            self.folder.mkdir(exist_ok=True)
            lock = FileLock(self.folder / f"{os.getpid()}-{secrets.token_hex(4)}")
            lock.acquire()
            self._lock = lock

    def leave(self) -> None:
        """Be at work no longer, if at all."""
        lock, self._lock = self._lock, None
        if lock is not None:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


def _is_locked(file: Path) -> bool:
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False  # gone in the meantime
    lock.release()
    return False
