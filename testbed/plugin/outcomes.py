"""Collects the outcomes of a session's cluster tests from pytest's reports, including those of other processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from testbed.results.outcomes import Outcome, Row, Statement

PAPER_PROPERTY = "carico_paper"
"""Name of the user property that carries a row to the report."""
SEEDS_PROPERTY = "carico_seeds"
"""Name of the user property with two numbers: of the seeds on which a statement held, and of all seeds."""
CLAIM, CALIBRATION = "carico_claim", "carico_calibration"
"""Names of the markers for statements of the paper and for figures that the simulator was fitted to."""


class Outcomes:
    """A pytest plugin; the process that reports gets all outcomes."""

    def __init__(self) -> None:
        self._by_test: dict[str, Outcome] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Update a test's outcome with the report of one of its phases."""
        statement = getattr(report, "carico_statement", None)
        if statement is None:
            return
        if report.when == "setup":
            self._by_test[report.nodeid] = Outcome(report.nodeid)  # a new one, in case the test is repeated
        outcome = self._by_test.setdefault(report.nodeid, Outcome(report.nodeid))
        outcome.statement = Statement(*statement)
        properties: list[tuple[str, Any]] = report.user_properties
        outcome.rows = _merged(row for name, row in properties if name == PAPER_PROPERTY)
        for name, counted in properties:
            if name == SEEDS_PROPERTY:
                outcome.held, outcome.seeds = counted
        if report.failed:
            outcome.verdict = "failed"
        elif report.when == "call" and report.passed:
            outcome.verdict = "holds"
        elif report.skipped:
            expected = getattr(report, "wasxfail", None)
            outcome.verdict = "not measured" if expected is None else "not reproduced"
            skip = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            outcome.reason = skip.removeprefix("Skipped: ") if expected is None else expected.removeprefix("reason: ")
        if outcome.verdict in ("holds", "not reproduced") and 0 < outcome.held < outcome.seeds:
            outcome.verdict = "depends on the seed"

    def in_order(self, places: Mapping[str, int]) -> list[Outcome]:
        """Return the outcomes of tests that have ended, in the session's order, which `places` gives by node id."""
        ended = [outcome for outcome in self._by_test.values() if outcome.verdict]
        return sorted(ended, key=lambda outcome: (places.get(outcome.test, -1), outcome.test))


def _merged(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return one row for each figure, with the values of all seeds."""
    found: dict[str, Row] = {}
    for row in rows:
        one = found.setdefault(row["what"], Row(row["what"], [], row["thesis"], row["unit"]))
        one.values.append(row["ours"])
        one.note = row["note"]
    return list(found.values())


def statement_of(item: pytest.Item) -> Statement:
    """Return the statement of a test, from its marker `carico_claim` or `carico_calibration`."""
    if item.get_closest_marker(CALIBRATION) is not None:
        return Statement("calibration")
    marker = item.get_closest_marker(CLAIM)
    if marker is None:
        return Statement("expectation")
    source, text = marker.args
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return Statement("claim", source, text)
    columns = marker.kwargs.get("columns", ("variant",))
    column = "-".join(str(callspec.params[name]) for name in columns if name in callspec.params)
    case = callspec.id.replace(column, "").replace("--", "-").strip("-") if column else callspec.id
    return Statement("claim", source, text, column=column, case=case)
