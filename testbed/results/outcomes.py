"""The outcomes of a session's tests: whether a test's statement holds, on how many seeds, and what it measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["claim", "calibration", "expectation"]
"""A statement of the paper; a figure that the simulator was fitted to; anything else that the test's author expects."""
Verdict = Literal["holds", "depends on the seed", "not reproduced", "not measured", "failed"]
VERDICTS: tuple[Verdict, ...] = ("holds", "depends on the seed", "not reproduced", "not measured", "failed")
"""From the best to the worst. `failed` is an unexpected outcome; with any other verdict the session passes."""


@dataclass(frozen=True)
class Statement:
    """What a test states."""

    kind: Kind
    source: str = ""
    """Where the paper says so, for example "§5.2, Table 5.1"; claims only."""
    text: str = ""
    column: str = ""
    """The variant that the claim is about; empty if it is about none."""
    case: str = ""
    """Which of the claim's cases this is, for example its number of pods."""


@dataclass
class Row:
    """A measured figure beside the paper's."""

    what: str
    values: list[float]
    """The measured values: one, or one for each seed."""
    thesis: float | None = None
    """The paper's value; None where it gives no number."""
    unit: str = ""
    note: str = ""

    @property
    def ours(self) -> float:
        """The mean of what was measured."""
        return sum(self.values) / len(self.values)


@dataclass
class Outcome:
    """The outcome of a test."""

    test: str
    """Its node id."""
    statement: Statement = Statement("expectation")
    verdict: Verdict | None = None
    """None while the test runs."""
    reason: str = ""
    """Why it was expected not to hold, or was not measured."""
    held: int = 0
    """Number of seeds on which the statement held."""
    seeds: int = 0
    """Number of seeds on which it was judged; 0 if it was not judged seed by seed."""
    rows: list[Row] = field(default_factory=list)

    @property
    def share(self) -> str:
        """On how many seeds it held, for example "4/5"; empty if it was not judged seed by seed."""
        return f"{self.held}/{self.seeds}" if self.seeds else ""
