"""Results: their schema and how they are stored."""

from pathlib import Path

OWN_FOLDER = ".carico"
"""A folder of this name is created where it is missing, and ignores itself by a .gitignore of its own."""


def runs_folder(root: Path) -> Path:
    """Where the runs are that were started in `root`."""
    return root / OWN_FOLDER / "runs"
