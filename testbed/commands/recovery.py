"""What becomes of a run that ends early: what was finished is kept, and the user is told how to get at it."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from testbed.errors import ResultsError
from testbed.results.record import RunRecord
from testbed.results.store import merged, partial_path, write_results


def save_unfinished(file: Path | None, record: RunRecord, asked_for: int, interrupted: bool) -> None:
    """Close the record of such a run.

    Parameters
    ----------
    file : Path or None
        The results file that was asked for: what was finished goes beside it.
    record : RunRecord
    asked_for : int
        Repetitions in all.
    interrupted : bool
        Whether the user ended it; else it failed.
    """
    lines, _ = record.folder.lines.read()
    said = f"interrupted after {len(lines)} of {asked_for} runs"
    partial = partial_path(file) if file is not None and lines else None
    if partial is not None:
        try:
            write_results(partial, merged(line.repetition for line in lines))
            said += f"; they are in {partial}"
        except ResultsError as error:
            partial, said = None, f"{said}; {error}; to keep them: {record.folder.recovery()} --json FILE"
    elif lines:
        said += f"; to keep them: {record.folder.recovery()} --json FILE"
    if interrupted or lines:
        print(f"carico-testbed: {said}", file=sys.stderr)
    with suppress(ResultsError):  # what went wrong first is what is told
        record.close("interrupted" if interrupted else "failed", lines, datetime.now(UTC), partial)
