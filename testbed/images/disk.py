"""Disks of virtual machines: a file with a file system, made from a folder."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.images.debian import administrators_path
from testbed.images.step import run_step


def make_disk(root: Path, image: Path, size: int) -> None:
    """Make a sparse file with an ext4 file system from a folder; without a journal, since nobody repairs such disks.

    Parameters
    ----------
    root : Path
        Owners, modes and attributes are kept; only root can read all files.
    image : Path
    size : int
        What the machine sees, bytes.

    Raises
    ------
    BuildFailed
        If mke2fs fails, for example because the folder does not fit.
    """
    with image.open("wb") as file:
        file.truncate(size)
    options = ("-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1", "-d", str(root))
    environment = os.environ | {"PATH": administrators_path()}
    run_step(["mke2fs", *options, str(image)], lambda line: None, environment=environment)
