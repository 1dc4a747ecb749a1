"""Results as tidy pandas frames, for notebooks: one row for each thing observed, one column for each variable."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import pandas as pd

from testbed.errors import DamagedResults
from testbed.results.reading import Reading, read_all
from testbed.results.schema import REPORTED, STOLEN, USAGE, NodeSeries, PodOutcome, PodResult, Repetition

KEYS = ("run", "repetition", "scenario", "scheduler", "seed")
"""The first columns of all frames. `repetition` numbers the repetitions of all runs, so it joins the frames."""
OUTCOMES: tuple[PodOutcome, ...] = get_args(PodOutcome)


@dataclass(frozen=True)
class Frames:
    """What runs measured. Times are seconds since the scenario began."""

    repetitions: pd.DataFrame
    """A row for each repetition: `provider`, `settings` (see below), `jobs`, `pods`, `nodes`; pods by outcome; `jct_s`,
    from the publication of the first job to the end of the last pod, NaN if a job did not complete."""
    jobs: pd.DataFrame
    """A row for each job that is no disturbance: `job`, `pods`, `jct_s`."""
    pods: pd.DataFrame
    """A row for each pod: `pod`, and the fields of `PodResult`; `pct_s` is the time from its start to its end."""
    data_items: pd.DataFrame
    """A row for each number: `metric`, `statistic`, `value`, `unit`, and a column for each label, such as `job`."""
    nodes: pd.DataFrame
    """A row for each node and second: `node`, and the fields of `NodeSeries`."""
    costs: pd.DataFrame
    """A row for each node, workload and second under the variant `demand`, and the fields of `WorkloadCost`."""
    requests: pd.DataFrame
    """A row for each request to a server: `pod`, `job`, `node`, `sent_s`, `latency_s`."""
    settings: dict[str, dict[str, Any]]
    """By the name in the column `settings`: what else decides the outcome, equal where the names are equal."""


def load(*paths: str | Path) -> Frames:
    """Load what runs measured; see `testbed.results.load`."""
    readings = read_all(paths or ["latest"], Path.cwd())
    for problem in [problem for reading in readings for problem in reading.problems]:
        warnings.warn(problem, DamagedResults, stacklevel=3)
    return frames(readings)


def frames(readings: Iterable[Reading]) -> Frames:
    """Return what was read as frames, but for repetitions of the A/A check."""
    found = [(reading, one) for reading in readings for one in reading.repetitions if not one.of_aa_check]
    keyed = [
        (dict(zip(KEYS, (reading.name, number, one.scenario, one.scheduler, one.seed), strict=True)), one)
        for number, (reading, one) in enumerate(found)
    ]
    names = [_name_of(one.settings) for _, one in found]
    rows = [
        keys | {"provider": reading.run and reading.run.provider, "settings": name} | _repetition(one)
        for (reading, one), (keys, _), name in zip(found, keyed, names, strict=True)
    ]
    return Frames(
        pd.DataFrame(rows, columns=None if rows else KEYS),
        _frame(keyed, _jobs),
        _frame(keyed, _pods),
        _frame(keyed, _data_items),
        _frame(keyed, _nodes),
        _frame(keyed, _costs),
        _frame(keyed, _requests),
        {name: one.settings for name, (_, one) in zip(names, found, strict=True)},
    )


def _frame(
    keyed: Iterable[tuple[dict[str, Any], Repetition]], columns_of: Callable[[Repetition], dict[str, list[Any]]]
) -> pd.DataFrame:
    """Return one frame of all repetitions; columns that a repetition lacks are missing values there."""
    columns: dict[str, list[Any]] = {name: [] for name in KEYS}
    rows = 0
    for keys, one in keyed:
        found = columns_of(one)
        count = len(next(iter(found.values())))
        for name, values in (*((name, [value] * count) for name, value in keys.items()), *found.items()):
            columns.setdefault(name, [None] * rows).extend(values)
        rows += count
        for values in columns.values():
            values.extend([None] * (rows - len(values)))
    frame = pd.DataFrame(columns)
    # Where all values are missing, pandas would not know that they are numbers.
    numbers = [name for name in frame if name.endswith("_s") or name in (*USAGE, STOLEN, *REPORTED, "cores", "gib")]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _repetition(one: Repetition) -> dict[str, Any]:
    measured = [pod for pod in one.pods if pod.job in one.measured_jobs]
    times = one.job_completion_time_s.values()
    ends = [pod.finished_s for pod in measured if pod.outcome == "succeeded" and pod.finished_s is not None]
    if len(times) == 1:
        taken = next(iter(times))
    else:
        taken = max(ends) - min(pod.created_s for pod in measured) if ends and None not in times else None
    outcomes = Counter(pod.outcome for pod in measured)
    return {
        "jobs": len(one.measured_jobs),
        "pods": sum(one.measured_jobs.values()),
        "nodes": len(one.nodes),
        **{outcome: outcomes[outcome] for outcome in OUTCOMES},
        "jct_s": taken,
    }


def _jobs(one: Repetition) -> dict[str, list[Any]]:
    jobs = one.measured_jobs
    return {
        "job": list(jobs),
        "pods": list(jobs.values()),
        "jct_s": [one.job_completion_time_s.get(job) for job in jobs],
    }


def _pods(one: Repetition) -> dict[str, list[Any]]:
    fields = [name for name in PodResult.__struct_fields__ if name != "name"]
    taken = [
        None if pod.started_s is None or pod.finished_s is None else pod.finished_s - pod.started_s for pod in one.pods
    ]
    columns = {name: [getattr(pod, name) for pod in one.pods] for name in fields}
    return {"pod": [pod.name for pod in one.pods], **columns, "pct_s": taken}


def _data_items(one: Repetition) -> dict[str, list[Any]]:
    numbers = [(item, statistic, value) for item in one.data_items for statistic, value in item.data.items()]
    labels = dict.fromkeys(label for item in one.data_items for label in item.labels if label != "metric")
    return {
        "metric": [item.labels.get("metric") for item, _, _ in numbers],
        "statistic": [statistic for _, statistic, _ in numbers],
        "value": [value for _, _, value in numbers],
        "unit": [item.unit for item, _, _ in numbers],
        **{label: [item.labels.get(label) for item, _, _ in numbers] for label in labels},
    }


def _nodes(one: Repetition) -> dict[str, list[Any]]:
    fields = [name for name in NodeSeries.__struct_fields__ if name not in ("name", "costs")]
    columns = {name: [value for node in one.nodes for value in node.values(name)] for name in fields}
    return {"node": [node.name for node in one.nodes for _ in node.time_s], **columns}


def _costs(one: Repetition) -> dict[str, list[Any]]:
    series = [(node, cost) for node in one.nodes for cost in node.costs]
    return {
        "node": [node.name for node, _ in series for _ in node.time_s],
        "workload": [cost.workload for node, cost in series for _ in node.time_s],
        "time_s": [at for node, _ in series for at in node.time_s],
        "cores": [value for _, cost in series for value in cost.cores],
        "gib": [value for _, cost in series for value in cost.gib],
    }


def _requests(one: Repetition) -> dict[str, list[Any]]:
    whose = [(series.pod, series.job, series.node) for series in one.requests for _ in series.sent_s]
    return {
        **{name: [of[place] for of in whose] for place, name in enumerate(("pod", "job", "node"))},
        "sent_s": [at for series in one.requests for at in series.sent_s],
        "latency_s": [taken for series in one.requests for taken in series.latency_s],
    }


def _name_of(settings: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:8]
