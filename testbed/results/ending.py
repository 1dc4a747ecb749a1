"""The end of a run: its measurements are written to the results file, and its record says how it ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from testbed.errors import ResultsError
from testbed.results.record import RunRecord
from testbed.results.run import RunState
from testbed.results.schema import Results
from testbed.results.store import merged, partial_path, write_complete, write_results


@dataclass(frozen=True)
class Ending:
    """What a run leaves."""

    results: Results
    cut_off: int
    """Number of repetitions that a crash cut off while they were written."""
    file: Path | None
    """The results file that the user asked for, else the one in the run's folder; None if nothing was measured."""


def end_run(record: RunRecord, ended: RunState, file: Path | None, now: datetime) -> Ending:
    """Write what a run has measured to its folder, and close its record.

    Parameters
    ----------
    record : RunRecord
    ended : str
        How the run ended.
    file : Path or None
        Another results file, if one was asked for. Unless the run is complete, it is written beside it, under another
        name.
    now : datetime

    Raises
    ------
    ResultsError
        If the results or the record cannot be written; no repetition is lost, and the message says how to get at them.
    """
    folder = record.folder
    entries, cut_off = folder.log.read()
    results = merged(entry.repetition for entry in entries)
    if file is not None and ended != "complete":
        file = partial_path(file)
    if not entries:
        record.close(ended, entries, now)
        return Ending(results, cut_off, None)
    try:
        write_results(folder.result, results)
        if file is not None:
            (write_complete if ended == "complete" else write_results)(file, results)
    except ResultsError as error:
        with suppress(ResultsError):  # on a full disk neither can be written: only one of them says how to recover
            record.close("failed", entries, now)
        raise ResultsError(f"{error}; to write them elsewhere: {folder.recovery()} --json FILE") from error
    record.close(ended, entries, now, folder.result)
    return Ending(results, cut_off, file or folder.result)
