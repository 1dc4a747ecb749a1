"""What the plugin knows of the session it is in, kept in pytest's stash."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.claims import Claims
from testbed.options import Options

if TYPE_CHECKING:
    from testbed.results.schema import Results


@dataclass
class State:
    """A session, in the process that reports or in one of xdist's workers."""

    options: Options
    worker: bool
    parts: Path | None = None
    """The folder with a file for every finished repetition; all processes of the session share it."""
    left_out: int = 0
    """Cluster tests that nobody asked for."""
    order: dict[str, int] = field(default_factory=dict)
    """Places of the tests in the session, by node id."""
    claims: Claims = field(default_factory=Claims)
    results: Results | None = None
    written: Path | None = None
    """The results file, once it is there."""
    interrupted: bool = False
    complaint: str = ""
    """What went wrong that no test's report tells."""

    def parts_folder(self) -> Path:
        """Return the folder for finished repetitions, which is there from now on."""
        if self.parts is None:
            self.parts = Path(tempfile.mkdtemp(prefix="carico-"))
        return self.parts

    def remove_parts(self) -> None:
        """Remove that folder; it belongs to the process that reports."""
        if self.parts is not None and not self.worker:
            shutil.rmtree(self.parts, ignore_errors=True)

    def save(self, interrupted: bool) -> None:
        """Write the results file if anything was measured; what an interruption left goes into one of its own.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        parts = sorted(self.parts.glob("*.json")) if self.parts is not None else []
        if not parts:
            return
        from testbed.results.store import merged, partial_path, read_results, write_complete, write_results

        self.results = merged(one for part in parts for one in read_results(part).repetitions)
        file = partial_path(self.options.json) if interrupted else self.options.json
        (write_results if interrupted else write_complete)(file, self.results)
        self.written, self.interrupted = file, interrupted


STATE = pytest.StashKey[State]()
