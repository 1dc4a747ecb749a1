"""The file `outcomes.json` in a run's folder: what the cluster tests of a session stated, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from carico.files import write_whole
from testbed.results.files import read_versioned
from testbed.results.outcomes import Outcome

SCHEMA_VERSION = 1


class OutcomesFile(msgspec.Struct, frozen=True):
    """The contents of the file."""

    outcomes: list[Outcome]
    schema_version: int = SCHEMA_VERSION


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write outcomes to a file; raises OSError."""
    write_whole(path, msgspec.json.encode(OutcomesFile(list(outcomes))) + b"\n")


def read_outcomes(path: Path) -> list[Outcome]:
    """Read the outcomes of a session; see `read_versioned`."""
    return read_versioned(path, OutcomesFile, SCHEMA_VERSION, "record of a session's outcomes").outcomes
