"""Comparisons that CARICO was measured to lose: lost by no more than that, they are told as not reproduced."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from testbed.plugin.claims import not_reproduced
from testbed.results.compare import Comparison


@dataclass(frozen=True)
class Loss:
    """What was measured (docs/reference/performance.md)."""

    ratio: float
    low: float
    high: float
    repetitions: int
    why: str

    def told(self, found: Comparison) -> str:
        """What was asked, what was found and what was measured before, for the summary."""
        before = f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}], n = {self.repetitions}"
        here = f"{found.ratio:.2f} times ({found})"
        return f"asked: no longer than kube-scheduler's; here {here}, before {before}; {self.why}"


def assert_not_worse(found: Comparison, loss: Loss | None, request: pytest.FixtureRequest) -> None:
    """Assert that CARICO is not worse; if it is, by no more than was measured, the test is told as not reproduced."""
    if loss is not None and found.verdict == "worse" and found.low <= loss.high:
        request.applymarker(not_reproduced(loss.told(found)))
    assert found.verdict != "worse", str(found)
