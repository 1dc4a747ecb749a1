"""Results: their schema and how they are stored."""

from pathlib import Path

OWN_FOLDER = ".carico"
"""A folder of this name is created with a .gitignore of its own, so that git ignores all of it."""


def runs_folder(root: Path) -> Path:
    """Return the folder of the runs that were started in `root`."""
    return root / OWN_FOLDER / "runs"
