"""Locks between processes: for what only one process at a time may do, and to know which processes are active.

The kernel releases a lock when its process ends, so a crash leaves nothing locked; lock files may stay behind.
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
        path.parent.stat()  # filelock would create the folder
        lock.acquire()
    except OSError as error:
        raise ResultsError(f"cannot write to {path.parent}: {error.strerror}; has the folder been removed?") from error
    try:
        yield
    finally:
        lock.release()


class ActiveProcesses:
    """The processes that work on something: each locks a file of its own in a folder, until it leaves or ends.

    Parameters
    ----------
    folder : Path
        The folder of these files; its parent exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: BaseFileLock | None = None

    def __reduce__(self) -> tuple[type[ActiveProcesses], tuple[Path]]:
        """Pickle only the folder: the copy is for another process, which has not joined."""
        return ActiveProcesses, (self.folder,)

    @property
    def joined(self) -> bool:
        """Whether this process has joined, and has not left since."""
        return self._lock is not None

    @property
    def any_active(self) -> bool:
        """Whether any process is active, this one included."""
        return any(is_locked(file) for file in self.folder.glob("*"))

    def join(self) -> None:
        """Count as active until `leave` or the end of this process; raises OSError."""
        if self._lock is None:
            self.folder.mkdir(exist_ok=True)
            lock = FileLock(self.folder / f"{os.getpid()}-{secrets.token_hex(4)}")
            lock.acquire()
            self._lock = lock

    def leave(self) -> None:
        """Count as active no longer, if this process has joined."""
        lock, self._lock = self._lock, None
        if lock is not None:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock at a path, this one included."""
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False  # the file has been removed meanwhile
    lock.release()
    return False
