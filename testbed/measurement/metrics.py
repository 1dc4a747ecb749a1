"""The registry of metrics: what each measures, its unit, which direction is better, and what of it is compared.

A metric's figures are data items of the repetitions (`DataItem`), by the label `metric`; its other labels tell apart
the jobs and phases that it was measured for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError, suggested

if TYPE_CHECKING:
    from testbed.results.schema import OwnMetric, Repetition


@dataclass(frozen=True)
class Metric:
    """A quantity that repetitions have."""

    name: str
    unit: str
    meaning: str
    less_is_better: bool | None
    """None if neither direction is better: such a metric explains, and is compared only if it is asked for."""
    statistics: tuple[str, ...]
    """The statistics that are compared if the user names none."""
    relative: bool = True
    """Whether figures are compared by their ratio; otherwise they may be 0, and their difference counts."""
    simulated: bool = True
    """Whether it is measured on the simulated cluster, too."""


METRICS = {
    metric.name: metric
    for metric in (
        Metric("job_completion_time", "s", "from a Job's publication to the end of its last pod", True, ("value",)),
        Metric("pod_completion_time", "s", "from a pod's start to its end", True, ("mean", "p99")),
        Metric("request_latency", "s", "how long clients of a server wait for an answer", True, ("p50", "p99")),
        Metric(
            "pod_outcome",
            "pods",
            "how many pods ended in which way",
            True,
            ("oom_killed", "failed", "evicted"),
            relative=False,
        ),
        Metric("pod_wait_time", "s", "from a pod's creation to its start", None, ("mean", "p99"), relative=False),
        Metric(
            "pod_scheduling_latency", "s", "from a pod's creation to its binding", True, ("p50", "p99"), simulated=False
        ),
        Metric("scheduling_throughput", "pods/s", "pods bound per second", False, ("value",), simulated=False),
        Metric("time_to_95_percent_cpu", "s", "until the nodes' mean CPU utilisation is 95 %", None, ("value",)),
        Metric("cpu_utilisation", "share", "busy CPU time of the nodes", None, ("mean",), relative=False),
        Metric("cpu_pressure", "share", "time in which some task waited for a CPU", None, ("mean",), relative=False),
        Metric("cpu_stolen", "share", "CPU time of nodes that others got", None, ("mean",), relative=False),
        Metric("memory_utilisation", "share", "memory of the nodes in use", None, ("mean",), relative=False),
        Metric("running_pods", "pods", "pods that run on a node", None, ("mean", "max"), relative=False),
    )
}
OUTCOMES = ("oom_killed", "failed", "evicted", "unfinished")
"""Of pods that did not succeed, so that less is better of all."""
STATISTICS = ("count", "mean", "std", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max")
"""The statistics of every distribution (`testbed.measurement.statistics`)."""


@dataclass(frozen=True, order=True)
class Figure:
    """One number of a repetition."""

    metric: str
    statistic: str
    of: tuple[str, ...] = ()
    """What it was measured for: the values of the other labels, such as the job."""

    @property
    def name(self) -> str:
        """The metric and the statistic, as `chosen` takes them."""
        return self.metric if self.statistic == "value" else f"{self.metric}:{self.statistic}"

    def __str__(self) -> str:
        name = self.metric if self.statistic == "value" else f"{self.metric} {self.statistic}"
        return f"{name} ({', '.join(self.of)})" if self.of else name


def metric_named(name: str) -> Metric:
    """Return a metric.

    Raises
    ------
    UsageError
        If there is none of that name; the message lists the known ones.
    """
    if name not in METRICS:
        raise UsageError(f"no metric is named {name!r}{suggested(name, METRICS)}")
    return METRICS[name]


def statistics_of(metric: Metric) -> tuple[str, ...]:
    """Return all statistics that a metric has."""
    if metric.name == "pod_outcome":
        return OUTCOMES
    return ("value",) if metric.statistics == ("value",) else STATISTICS


def chosen(text: str) -> list[Figure]:
    """Return the figures that ``METRIC`` or ``METRIC:STATISTIC`` stands for, of no job in particular.

    Raises
    ------
    UsageError
        If there is no such metric, or it has no such statistic.

    Examples
    --------
    >>> [str(figure) for figure in chosen("pod_completion_time")]
    ['pod_completion_time mean', 'pod_completion_time p99']
    """
    name, _, statistic = text.partition(":")
    metric = metric_named(name)
    known = statistics_of(metric)
    if statistic and statistic not in known:
        raise UsageError(f"{name} has no statistic {statistic!r}{suggested(statistic, known)}")
    return [Figure(name, one) for one in ([statistic] if statistic else metric.statistics)]


class _Figures(Sequence[Figure]):
    """Figures of all metrics that can get better or worse, registered ones included."""

    def __init__(self, statistics: Callable[[Metric], tuple[str, ...]]) -> None:
        self._statistics = statistics

    def __getitem__(self, place: Any) -> Any:
        return self._all()[place]

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[Figure]:
        judged = (metric for metric in METRICS.values() if metric.less_is_better is not None)
        return [Figure(metric.name, statistic) for metric in judged for statistic in self._statistics(metric)]


DEFAULT = _Figures(lambda metric: metric.statistics)
"""The figures that are compared if the user names none."""
EVERY = _Figures(statistics_of)
"""All figures that can get better or worse."""


@contextmanager
def registered(metrics: Iterable[Metric]) -> Iterator[None]:
    """Let metrics of one's own be known as long as the context lasts.

    Raises
    ------
    UsageError
        If a name is taken, or a statistic does not exist.
    """
    added: list[str] = []
    try:
        for metric in metrics:
            if metric.name in METRICS:
                raise UsageError(f"a metric is named {metric.name!r} already: give yours another name")
            known = ("value", *STATISTICS)
            if wrong := [one for one in metric.statistics if one not in known]:
                raise UsageError(f"{metric.name} has no statistic {wrong[0]!r}; known: {', '.join(known)}")
            METRICS[metric.name] = metric
            added.append(metric.name)
        yield
    finally:
        for name in added:
            del METRICS[name]


@contextmanager
def recorded(metrics: Iterable[OwnMetric]) -> Iterator[None]:
    """Let metrics be known that results define, as long as the context lasts; what is known already stays as it is.

    Raises
    ------
    UsageError
        If a statistic does not exist.
    """
    new = {one.name: one for one in metrics if one.name not in METRICS}
    with registered(
        Metric(one.name, one.unit, one.meaning, one.less_is_better, tuple(one.statistics), relative=one.relative)
        for one in new.values()
    ):
        yield


def figures(repetition: Repetition, wanted: Iterable[Figure] = DEFAULT) -> dict[Figure, float]:
    """Return the figures of a repetition that are wanted, for every job and phase that has them.

    Of a scenario with very many jobs, these are totals. A count of pods that has no entry is 0.
    """
    from testbed.measurement.totals import shown_items  # needs msgspec, which this registry does not

    found = {}
    wanted = list(wanted)
    for item in shown_items(repetition):
        of = tuple(value for label, value in item.labels.items() if label != "metric")
        for figure in wanted:
            if figure.metric != item.labels.get("metric"):
                continue
            value = item.data.get(figure.statistic, 0.0 if figure.metric == "pod_outcome" else None)
            if value is not None:
                found[Figure(figure.metric, figure.statistic, of)] = value
    return found
