"""Folders among the kept programs that appear whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import BuildFailed


@contextmanager
def appear(folder: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `folder` at the end, unless the block fails or another process was faster.

    Raises
    ------
    BuildFailed
        If the folder that is to hold it cannot be made or written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name.rpartition('-')[0]}-")
    except OSError as error:
        raise BuildFailed(
            f"cannot write to {folder.parent} ({error.strerror}): name a folder that can be made or written"
        ) from error
    with place as made:
        whole = Path(made) / "whole"
        whole.mkdir()
        yield whole
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
