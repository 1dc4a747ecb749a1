"""Comparisons that CARICO is known to lose: a loss within the measured one is reported as not reproduced."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from testbed.plugin.claims import not_reproduced
from testbed.results.compare import Comparison


@dataclass(frozen=True)
class Loss:
    """A measured loss (docs/reference/performance.md)."""

    ratio: float
    low: float
    high: float
    repetitions: int
    why: str

    def reason(self, found: Comparison) -> str:
        """Return the claim, the present result and the earlier one, for the summary."""
        before = f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}], n = {self.repetitions}"
        here = f"{found.ratio:.2f} times ({found})"
        return f"claim: no longer than kube-scheduler's; here {here}, before {before}; {self.why}"


def assert_not_worse(found: Comparison, loss: Loss | None, request: pytest.FixtureRequest) -> None:
    """Assert that CARICO is not worse; if it is within a measured loss, report the test as not reproduced."""
    if loss is not None and found.verdict == "worse" and found.low <= loss.high:
        request.applymarker(not_reproduced(loss.reason(found)))
    assert found.verdict != "worse", str(found)
