"""Folders among the kept programs that appear whole or not at all, and the folders of the builds that make them.

A build locks a file beside its folder before the folder exists, and the kernel releases the lock when the process ends:
what killed builds have left can thus be told from the folders of builds that run.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.errors import BuildFailed, ResultsError
from testbed.results.locks import is_locked, locked


@contextmanager
def appear(folder: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `folder` at the end, unless the block fails or another process was faster.

    The folder that it lies in may hold other files of the build, and is removed at the end.

    Raises
    ------
    BuildFailed
        If the folder that is to hold it cannot be made or written.
    """
    kept = folder.parent
    build = kept / f".{folder.name.rpartition('-')[0]}-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        try:
            kept.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(lock_of(build)))
            stack.callback(lock_of(build).unlink, missing_ok=True)
            build.mkdir()
            stack.callback(build.rmdir)
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=build)))
        except (OSError, ResultsError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BuildFailed(f"cannot write to {kept} ({why}): name a folder that can be made or written") from error
        whole = made / "whole"
        whole.mkdir()
        yield whole
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def lock_of(build: Path) -> Path:
    """Return the file that is locked while the build runs whose folder this is."""
    return build.with_name(f"{build.name}.lock")


def is_running(build: Path) -> bool:
    """Whether the build runs whose folder this is."""
    return lock_of(build).exists() and is_locked(lock_of(build))
