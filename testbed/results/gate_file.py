"""The file `gate.json` in a run's folder: what the gate of a session has said, so that a report can say it later, too.

What the gate of a single test has said, whose marker has `fail_on`, is a file of the same form in the folder `gates`.
Nothing is judged anew: another version of the testbed, or a baseline that has changed since, would say something else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from carico.files import write_whole
from testbed.results.files import read_versioned

SCHEMA_VERSION = 1


class JudgedFigure(msgspec.Struct, frozen=True):
    """What a gate says of one figure. What is not finite is None."""

    title: str
    """What was run."""
    condition: str
    """As it was written, for example ``pod_completion_time:p99:+10%``."""
    outcome: Literal["ok", "regressed", "inconclusive"]
    against: str
    """The scheduler that it was judged by, within a run; empty if that was a baseline."""
    metric: str
    statistic: str
    of: list[str]
    """What the figure was measured for, such as the job."""
    unit: str
    reference: float | None
    """Mean over the repetitions of the baseline, or of the scheduler that it was judged by."""
    candidate: float | None
    effect: float | None
    """Candidate over reference, or candidate minus reference."""
    is_ratio: bool
    low: float | None
    """The ends of the effect's 95 % interval."""
    high: float | None
    repetitions: Annotated[list[int], Meta(min_length=2, max_length=2)]
    """Of the reference and of the candidate."""
    paired: bool
    """Whether repetitions with the same seeds were compared."""
    lacking: int
    """Repetitions of the candidate that lack the figure, as where a job did not complete."""
    reason: str | None = None
    """Why the outcome is inconclusive; None if it is not, and in files of earlier versions."""


class BaselineUsed(msgspec.Struct, frozen=True):
    """The baseline that a session was judged by."""

    path: str
    sha256: str


class GateFile(msgspec.Struct, frozen=True):
    """What a gate has said."""

    passed: bool
    line: str
    """How many figures were ok, regressed or inconclusive, in one line."""
    regressions: list[str]
    """A sentence for every figure that is worse than allowed."""
    problems: list[str]
    """Why the gate could not pass, whatever was judged."""
    notes: list[str]
    """What it could not decide, and which change it would have found."""
    judgements: list[JudgedFigure]
    not_measured: list[str]
    """What the baseline has and the run lacks."""
    not_in_baseline: list[str]
    """What the run has and the baseline lacks."""
    baseline: BaselineUsed | None = None
    """None if schedulers were judged by another one of the run."""
    test: str = ""
    """The node id of the test whose marker has the conditions; empty if they are the session's."""
    schema_version: int = SCHEMA_VERSION

    @property
    def failures(self) -> list[str]:
        """A sentence for every reason why it has not passed."""
        return self.regressions + self.problems


def write_gate(path: Path, gate: GateFile) -> None:
    """Write what a gate has said to a file; raises OSError."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(gate)) + b"\n")


def read_gate(path: Path) -> GateFile:
    """Read what a gate has said; its texts are printable. See `read_versioned`."""
    return read_versioned(path, GateFile, SCHEMA_VERSION, "record of a gate", for_pytest=True)
