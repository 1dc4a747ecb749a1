"""What commands print as tables, as values for JSON (``-o json``). The names of fields are stable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testbed.comparison.gate import Gate
from testbed.comparison.runs import Compared, Pairing, Row
from testbed.errors import ResultsError
from testbed.report.claims import headline
from testbed.report.groups import by_scheduler
from testbed.report.judgements import Judged, judged_rows
from testbed.report.kept_gate import kept
from testbed.results.outcomes import Outcome
from testbed.results.reading import Reading
from testbed.results.runs import RunFolder

_OF_A_RUN = "state", "command", "provider", "preset", "seed", "started", "ended", "finished_repetitions"


def runs_as_json(runs: Iterable[RunFolder]) -> dict[str, Any]:
    """Return all runs, the oldest first; of a run that cannot be read, why."""
    return {"runs": [_run(folder) for folder in runs]}


def _run(folder: RunFolder) -> dict[str, Any]:
    try:
        run = folder.read()
    except ResultsError as error:
        return {"run": folder.id, "error": str(error), **dict.fromkeys(_OF_A_RUN), "to_recover": None}
    to_recover = folder.to_recover and run.state != "running"
    return {
        "run": folder.id,
        "error": None,
        **{name: getattr(run, name) for name in _OF_A_RUN},
        "to_recover": to_recover,
    }


def claims_as_json(by_provider: Mapping[str, Iterable[Outcome]]) -> dict[str, Any]:
    """Return all cases of claims, with the verdict on each provider and the figures that the table shows."""
    return {
        "claims": [
            {
                "provider": provider,
                "source": one.statement.source,
                "text": one.statement.text,
                "case": one.statement.case,
                "variant": one.statement.column,
                "verdict": one.verdict,
                "held_on_seeds": one.held if one.seeds else None,
                "seeds": one.seeds or None,
                "quantity": None if row is None else row.what,
                "unit": None if row is None else row.unit,
                "paper": None if row is None else row.thesis,
                "ours": None if row is None else row.ours,
            }
            for provider, outcomes in by_provider.items()
            for one in outcomes
            if one.statement.kind == "claim"
            for row in [headline(one)]
        ]
    }


def verdicts_as_json(readings: Iterable[Reading], reference: str | None) -> dict[str, Any]:
    """Return the jobs and schedulers of several runs with their completion times and verdicts."""
    return {
        "runs": [
            {
                "run": reading.name,
                "rows": [_judged(one) for one in judged_rows(by_scheduler(reading.repetitions), reference)],
                "problems": reading.problems,
                "gate": reading.gate,
                "test_gates": reading.test_gates,
            }
            for reading in readings
        ]
    }


def _judged(one: Judged) -> dict[str, Any]:
    found = one.difference
    return {
        "title": one.title,
        "scheduler": one.scheduler,
        "repetitions": one.n,
        "not_completed": one.lacking,
        "job_completion_s": one.jct_s,
        "job_completion_interval_s": one.interval_s,
        "pod_completion_s": one.pct_s,
        "pod_completion_interval_s": one.pct_interval_s,
        "is_reference": one.is_reference,
        "effect": None if found is None else found.effect,
        "is_ratio": None if found is None else found.relative,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "verdict": one.verdict,
        "reason": one.reason or None,
    }


def comparison_as_json(pairing: Pairing, rows: Sequence[Row], gate: Gate | None) -> dict[str, Any]:
    """Return what changed from one run to another, and what a gate says, if there is one."""
    return {
        "rows": [
            {"title": row.title, "verdict": row.verdict, "reason": row.reason or None, **_compared(row.compared)}
            for row in rows
        ],
        "only_reference": pairing.only_reference,
        "only_candidate": pairing.only_candidate,
        "gate": None if gate is None else kept(gate),
    }


def _compared(found: Compared | None) -> dict[str, Any]:
    if found is None:
        return {}
    figure, one = found.figure, found.difference
    return {
        "metric": figure.metric,
        "statistic": figure.statistic,
        "of": figure.of,
        "reference": found.reference,
        "candidate": found.candidate,
        "effect": one.effect,
        "is_ratio": one.relative,
        "low": one.low,
        "high": one.high,
        "repetitions": one.n,
        "paired": one.paired,
        "lacking": found.lacking,
    }
