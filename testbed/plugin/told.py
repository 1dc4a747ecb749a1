"""What an xdist worker tells the process that reports before any test runs, which xdist has no message for.

It is written to a file of the worker's own. All processes share a file system, as they write to one run.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FILE = "carico_told"
"""The key of the file's path in what a worker is given."""


def file_for_worker(config: pytest.Config) -> str:
    """Return the path of a new file, which goes with the process that reports."""
    folder = tempfile.TemporaryDirectory(prefix="carico-")
    config.add_cleanup(folder.cleanup)
    return str(Path(folder.name) / "warnings.json")


def tell(config: pytest.Config, warnings: Sequence[str]) -> None:
    """Tell the warnings from within a worker."""
    file: str = config.workerinput[FILE]  # type: ignore[attr-defined]
    Path(file).write_text(json.dumps(warnings), encoding="utf-8")


def told(node: Any) -> list[str]:
    """Return the warnings that a worker has told; none if it found something else wrong."""
    file = Path(node.workerinput[FILE])
    warnings: list[str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return warnings
