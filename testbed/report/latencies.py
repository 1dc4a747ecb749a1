"""Request latencies as plain text, 80 columns wide: how long a server's clients waited under each scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import ResultsError
from testbed.measurement.request_latency import PHASES, request_latencies
from testbed.measurement.statistics import summary
from testbed.results.schema import Repetition

FIGURES = ("min", "p50", "p90", "p95", "p99", "max")


def latency_table(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a table for every server's job; no lines if there is none.

    The requests of all repetitions of a scheduler are taken together.
    """
    runs: dict[tuple[str, str], dict[str, list[Repetition]]] = {}
    for one in repetitions:
        for job in sorted({series.job for series in one.requests}):
            runs.setdefault((one.scenario, job), {}).setdefault(one.scheduler, []).append(one)
    lines = []
    for (scenario, job), by_scheduler in runs.items():
        lines.append(f"{scenario} · requests to {job}, ms")
        lines.append(f"  {'scheduler':19}{'the jobs':>10}{'n':>7}" + "".join(f"{name:>7}" for name in FIGURES))
        for scheduler, mine in by_scheduler.items():
            for name, phase in zip([scheduler, ""], PHASES, strict=True):
                lines += _row(name, phase, mine, job)
        lines.append("")
    return lines[:-1]


def _row(name: str, phase: str, repetitions: Sequence[Repetition], job: str) -> list[str]:
    try:
        found = summary([1000 * latency for latency in request_latencies(repetitions, job, phase)])
    except ResultsError:
        return [f"  {name}"] if name else []
    lines = [f"  {name}"]
    if len(name) > 18:
        lines.append("")
    figures = "".join(f"{found[figure]:>7.{0 if found[figure] >= 1000 else 2}f}" for figure in FIGURES)
    lines[-1] = f"{lines[-1]:21}{phase:>10}{found['count']:>7.0f}{figures}"
    return lines
