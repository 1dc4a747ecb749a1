"""Results: their schema, how they are stored, and how they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.results.frames import Frames

OWN_FOLDER = ".carico"
"""A folder of this name is created with a .gitignore of its own, so that git ignores all of it."""


def runs_folder(root: Path) -> Path:
    """Return the folder of the runs that were started in `root`."""
    return root / OWN_FOLDER / "runs"


def load(*paths: str | Path) -> Frames:
    """Load what runs measured as tidy pandas frames; needs the extra `analysis`.

    What is damaged, or comes from a newer version, spares the rest; a `DamagedResults` warning names file and line.

    Parameters
    ----------
    *paths : str or Path
        Results files, folders of runs, ids of runs in this folder's `.carico`, or `latest`, which is the default.

    Raises
    ------
    UsageError
        If there is nothing of that name, or nothing has results.
    UnusableFile
        If nothing can be read.
    MissingExtra
        If pandas is not installed.
    """
    from testbed.requirements import check_installed

    check_installed("analysis")
    from testbed.results import frames

    return frames.load(*paths)
