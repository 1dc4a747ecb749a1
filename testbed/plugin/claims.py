"""Outcomes of a session's cluster tests: each test is a claim that holds or does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

PAPER_PROPERTY = "carico_paper"
"""Name of the user property that carries a row to the report."""


def not_reproduced(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a claim that must fail, by its assertion and not by another error.

    Parameters
    ----------
    reason : str
        The paper's number and the measured one; the summary prints it.

    Examples
    --------
    >>> not_reproduced("thesis: 3 pods, here 4").kwargs["strict"]
    True
    """
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def claimed(cases: Iterable[Any], reasons: Mapping[Any, str]) -> list[ParameterSet]:
    """Return the cases of a parametrised claim, some of which are not reproduced.

    Parameters
    ----------
    cases : iterable
        Values of the parameter, or tuples of values for several parameters.
    reasons : mapping
        The reason of each case that is not reproduced; see `not_reproduced`.

    Examples
    --------
    >>> [case.id for case in claimed(["mean", "std"], {"std": "thesis: 1.5 s, here 3 s"})]
    ['mean', 'std']
    """
    values = {case: case if isinstance(case, tuple) else (case,) for case in cases}
    unknown = [case for case in reasons if case not in values]
    if unknown:
        raise ValueError(f"reasons are given for {unknown}, which are no cases: {list(values)}")
    return [
        pytest.param(
            *parts, id="-".join(map(str, parts)), marks=not_reproduced(reasons[case]) if case in reasons else ()
        )
        for case, parts in values.items()
    ]


@dataclass
class Claim:
    """The outcome of a cluster test."""

    test: str
    """Its node id."""
    outcome: str = ""
    """`holds`, `not reproduced` (it was expected to fail, and did), `failed`, `not measured` (skipped), or none yet."""
    reason: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Its rows of the table that compares with the paper."""


class Claims:
    """Collects claims from the tests' reports, also from other processes; a plugin of pytest."""

    def __init__(self) -> None:
        self._by_test: dict[str, Claim] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the report of a phase of a test."""
        if not getattr(report, "carico_cluster", False):
            return
        if report.when == "setup":
            self._by_test[report.nodeid] = Claim(report.nodeid)  # a new one, in case the test is repeated
        claim = self._by_test.setdefault(report.nodeid, Claim(report.nodeid))
        if report.failed:
            claim.outcome = "failed"
        elif report.when == "call" and report.passed:
            claim.outcome = "holds"
        elif report.skipped:
            expected = getattr(report, "wasxfail", None)
            claim.outcome = "not measured" if expected is None else "not reproduced"
            skip = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            claim.reason = skip.removeprefix("Skipped: ") if expected is None else expected.removeprefix("reason: ")
        claim.rows = [row for name, row in report.user_properties if name == PAPER_PROPERTY]  # type: ignore[misc]

    def in_order(self, places: Mapping[str, int]) -> list[Claim]:
        """Return the claims whose tests have ended, in the session's order, which `places` gives by node id."""
        claims = [claim for claim in self._by_test.values() if claim.outcome]
        return sorted(claims, key=lambda claim: (places.get(claim.test, -1), claim.test))
