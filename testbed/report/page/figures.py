"""The figures of one scenario: what each shows, what there is to see, and its numbers. Without data there is none."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from testbed.errors import ResultsError
from testbed.measurement.request_latency import BEFORE, DURING, request_latencies
from testbed.measurement.statistics import summary
from testbed.report.groups import Group, Section
from testbed.report.judgements import Judged
from testbed.report.numbers import counted
from testbed.report.page.aggregates import (
    SHARES,
    Distribution,
    Series,
    bin_s,
    cluster_series,
    distribution,
    extreme_series,
    grid,
    longest_s,
    node_series,
    typical,
)
from testbed.report.page.drawing import (
    Curve,
    Row,
    distribution_panel,
    grid_panel,
    number,
    rows_panel,
    series_panel,
)
from testbed.results.schema import Repetition

UTILISATION = {
    "cpu_utilisation": "CPU utilisation",
    "cpu_pressure": "CPU pressure",
    "memory_utilisation": "Memory in use",
}
ESTIMATES = {
    "capacity_signal": "Capacity signal k",
    "baseline": "Baseline: k of the idle node",
    "pod_cost": "Cost of a pod, in k",
    "pod_capacity": "Pod-Capacity: room for more pods",
}


_SAME = 1.02
"""Captions call figures equal up to this ratio."""


@dataclass(frozen=True)
class Figure:
    """A figure with everything that stands around it."""

    id: str
    title: str
    panels: list[Markup]
    caption: str
    """What to see, and how to read it."""
    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Its numbers, to download."""
    legend: Sequence[tuple[str, str]] = ()
    """Schedulers and their colours; nothing if the panels name everything themselves."""
    heat: str = ""
    """What the strongest colour stands for, of a figure with shades."""
    pairs: bool = False
    """Whether every two panels belong side by side."""

    @property
    def data(self) -> str:
        """The numbers as a CSV file in a link."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return f"data:text/csv;charset=utf-8,{quote(text.getvalue(), safe=',./:=')}"


@dataclass(frozen=True)
class Detail:
    """How much is drawn."""

    bins: int = 120
    """Of time."""
    nodes: bool = True
    """Whether single nodes are shown."""
    data: bool = True
    """Whether the numbers of long series can be downloaded."""


def figures_of(
    section: Section, judged: Sequence[Judged], colors: Mapping[str, str], detail: Detail, prefix: str
) -> list[Figure]:
    """Return all figures of a section that have data.

    Parameters
    ----------
    section : Section
    judged : sequence of Judged
        Its jobs under each scheduler.
    colors : mapping of str to str
        The stylesheet's class of each scheduler.
    detail : Detail
    prefix : str
        What the ids of the figures begin with.
    """
    drawn = _Drawn(section, judged, colors, detail, prefix)
    made = (
        drawn.job_times(),
        drawn.pod_times(),
        drawn.latencies(),
        drawn.running_pods(),
        drawn.extremes(),
        drawn.utilisation(),
        drawn.estimates(),
    )
    return [figure for figure in made if figure is not None]


class _Drawn:
    """Draws the figures of one section."""

    def __init__(
        self, section: Section, judged: Sequence[Judged], colors: Mapping[str, str], detail: Detail, prefix: str
    ) -> None:
        self.section, self.judged, self.colors, self.detail, self.prefix = section, judged, colors, detail, prefix
        self.until_s = longest_s([one for runs in section.runs.values() for one in runs])
        self.step_s = bin_s(self.until_s, detail.bins) if self.until_s else 1.0

    def job_times(self) -> Figure | None:
        """The completion times of the jobs."""
        panels = []
        for group in self.section.groups:
            mine = [one for one in self.judged if one.group is group]
            if not any(one.times_s for one in mine):
                continue
            rows = [
                Row(
                    one.scheduler,
                    self.colors[one.scheduler],
                    _told(one),
                    dots=one.times_s if len(one.times_s) > 1 else (),
                    middle=one.jct_s,
                    bar=one.interval_s,
                )
                for one in mine
            ]
            alt = f"Completion time of {group.job}: " + "; ".join(f"{row.name} {row.label}" for row in rows)
            title = self._job_title(group) or (
                "Mean over all jobs" if group.total else "From publication to the end of the last pod"
            )
            panels.append(rows_panel(title, rows, "seconds", alt))
        if not panels:
            return None
        groups = {one.group.job: one.group for one in self.judged}
        found = [
            (one.scheduler, job, repetition.seed, group.completion_s(repetition))
            for job, group in groups.items()
            for one in self.judged
            if one.group is group
            for repetition in group.runs[one.scheduler]
        ]
        what = "the mean of all jobs' completion times" if self.section.groups[0].total else "job completion time, JCT"
        caption = (
            f"{self._slowest()} Rings are repetitions of {what}; the dot is their median, and the bar its 95 % "
            f"interval (below six repetitions their extremes). Shorter is better."
        )
        return self._figure("jct", "Job completion time", panels, caption, ("scheduler", "job", "seed", "jct_s"), found)

    def pod_times(self) -> Figure | None:
        """The completion times of the pods, as distributions and as boxes."""
        panels: list[Markup] = []
        data: list[tuple[object, ...]] = []
        told = ""
        for group in self.section.groups:
            found = self._distributions(
                {name: [group.pod_times_s(one) for one in runs] for name, runs in group.runs.items()}
            )
            if not found:
                continue
            middles = {name: _share(one, 0.5) for name, one in found.items()}
            medians = "; ".join(f"{name} {number(value)} s" for name, value in middles.items())
            most = max(float(one.high.max()) for one in found.values())
            log = most > 30 * max(min(float(one.middle[1]) for one in found.values()), 1e-9)
            curves = [Curve(name, self.colors[name], one) for name, one in found.items()]
            title = self._job_title(group)
            panels.append(
                distribution_panel(
                    title or "Share of pods that took at most this long",
                    curves,
                    "seconds" + " (logarithmic)" * log,
                    f"Cumulative distribution of pod completion times of {group.job}; medians: {medians}",
                    log=log,
                )
            )
            rows = [
                Row(
                    name,
                    self.colors[name],
                    f"median {number(_share(one, 0.5))}, p99 {number(_share(one, 0.99))} s",
                    middle=_share(one, 0.5),
                    bar=(float(np.interp(0.25, SHARES, one.middle)), float(np.interp(0.75, SHARES, one.middle))),
                    whisker=(float(np.interp(0.01, SHARES, one.middle)), _share(one, 0.99)),
                    box=True,
                )
                for name, one in found.items()
            ]
            panels.append(
                rows_panel(
                    f"{f'{group.job}: ' if title else ''}Middle half, median, 1st to 99th percentile",
                    rows,
                    "seconds",
                    f"Box plot of pod completion times of {group.job}; "
                    + "; ".join(f"{row.name}: {row.label}" for row in rows),
                )
            )
            if len(middles) > 1 and not told:
                low, high = min(middles, key=middles.__getitem__), max(middles, key=middles.__getitem__)
                of = f" of {group.job}" if len(self.section.groups) > 1 else ""
                told = f"Pods{of} take equally long under all schedulers, within 2 %. "
                if middles[high] > _SAME * middles[low]:
                    told = (
                        f"Pods{of} are fastest under {low} (median {number(middles[low])} s) and slowest under {high} "
                        f"({number(middles[high])} s). Fast pods make no fast job where most cores idle. "
                    )
            data += [
                (name, group.job, share, middle, low_, high_)
                for name, one in found.items()
                for share, middle, low_, high_ in zip(SHARES, one.middle, one.low, one.high, strict=True)
            ]
        if not panels:
            return None
        caption = (
            f"{told}From a pod's start to its end, PCT, of all pods of all repetitions; the steeper a curve, the more "
            f"alike the pods. Bands are the extremes of the repetitions."
        )
        header = ("scheduler", "job", "share", "pct_s", "lowest_repetition_s", "highest_repetition_s")
        return self._figure("pct", "Pod completion time", panels, caption, header, data, legend=True, pairs=True)

    def latencies(self) -> Figure | None:
        """How long the clients of servers wait."""
        jobs = sorted({series.job for runs in self.section.runs.values() for one in runs for series in one.requests})
        panels: list[Markup] = []
        data: list[tuple[object, ...]] = []
        told = ""
        for job in jobs:
            rows, curves = [], []
            tails: dict[str, tuple[float, float]] = {}
            for name, runs in self.section.runs.items():
                found: dict[str, list[list[float]]] = {}
                for phase in (BEFORE, DURING):
                    each = [latencies for one in runs if (latencies := _latencies(one, job, phase))]
                    if each:
                        found[phase] = each
                for phase, each in found.items():
                    one = summary([value for latencies in each for value in latencies])
                    tail = [summary(latencies)["p99"] for latencies in each]
                    rows.append(
                        Row(
                            name if phase == next(iter(found)) else "",
                            self.colors[name] if phase == DURING else "before",
                            f"{phase}: p50 {number(one['p50'])}, p99 {number(one['p99'])} ms",
                            self.colors[name],
                            dots=tail if len(tail) > 1 else (),
                            middle=one["p50"],
                            whisker=(one["p50"], one["p99"]),
                        )
                    )
                    data.append(
                        (name, job, phase, *(one[part] for part in ("count", "p50", "p90", "p95", "p99", "max")))
                    )
                if DURING in found and (spread := distribution(found[DURING])):
                    curves.append(Curve(name, self.colors[name], spread))
                if BEFORE in found and DURING in found:
                    ends = [
                        summary([one for each in found[phase] for one in each])["p99"] for phase in (BEFORE, DURING)
                    ]
                    tails[name] = (ends[0], ends[1])
            if not rows:
                continue
            alt = f"Latency of requests to {job}: " + "; ".join(f"{row.name} {row.label}" for row in rows)
            panels.append(rows_panel(f"Requests to {job}: p50 (dot) to p99", rows, "milliseconds (log)", alt, log=True))
            if curves:
                panels.append(
                    distribution_panel(
                        f"Requests to {job} while the jobs run",
                        curves,
                        "milliseconds (log)",
                        f"Cumulative distribution of the latency of requests to {job} while the jobs run, by scheduler",
                        log=True,
                    )
                )
            if tails and not told:
                worst = max(tails, key=lambda name: tails[name][1] / tails[name][0])
                before, during = tails[worst]
                told = (
                    f"Beside the jobs, the slowest hundredth of requests takes {number(during / before)} times as long "
                    f"under {worst} ({number(during)} ms instead of {number(before)} ms). "
                )
        if not panels:
            return None
        caption = (
            f"{told}How long clients of a server wait for an answer, before the jobs run and while they do; rings are "
            f"the 99th percentiles of single repetitions."
        )
        header = ("scheduler", "job", "phase", "requests", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")
        return self._figure("latency", "Latency of servers", panels, caption, header, data, legend=True, pairs=True)

    def running_pods(self) -> Figure | None:
        """The running pods of every node over time, in one repetition of each scheduler."""
        if not self.detail.nodes:
            return None
        taken = self.section.groups[0].completion_s if self.section.groups else lambda _: None
        shown = {name: typical(runs, taken) for name, runs in self.section.runs.items()}
        grids = {
            name: found for name, one in shown.items() if (found := grid(one, "running_pods", self.step_s)) is not None
        }
        most = max((float(np.nanmax(one.values)) for one in grids.values()), default=0.0)
        if most <= 0:
            return None
        panels = [
            grid_panel(
                f"{name}, seed {shown[name].seed}",
                one,
                most,
                self.until_s,
                f"Running pods by node and second under {name}: at most "
                f"{number(float(np.nanmax(one.values)))} on a node, {len(one.rows)} rows",
            )
            for name, one in grids.items()
        ]
        peaks = {name: float(np.nanmax(one.values)) for name, one in grids.items()}
        fullest = max(peaks, key=peaks.__getitem__)
        caption = (
            f"A row is a node, and the stronger the colour, the more pods run on it: at most {number(most)}, under "
            f"{fullest}. All panels have the same time axis, and each shows the repetition with the median JCT."
        )
        rows = [
            (name, shown[name].seed, node, at, value)
            for name, one in grids.items()
            for node, of_node in zip(one.rows, one.values, strict=True)
            for at, value in zip(one.begin_s, of_node, strict=True)
            if self.detail.data and not np.isnan(value)
        ]
        return self._figure(
            "pods",
            "Running pods per node",
            panels,
            caption,
            ("scheduler", "seed", "node", "from_s", "running_pods"),
            rows,
            heat=f"{number(most)} pods",
        )

    def extremes(self) -> Figure | None:
        """The fullest and the emptiest node over time."""
        found = {
            name: [
                one
                for highest in (True, False)
                if (one := extreme_series(runs, "running_pods", self.step_s, highest=highest)) is not None
            ]
            for name, runs in self.section.runs.items()
        }
        found = {name: both for name, both in found.items() if len(both) == 2 and both[0].high.max() > 0}
        if not found or not any(len(one.nodes) > 1 for runs in self.section.runs.values() for one in runs):
            return None
        most = max(float(both[0].high.max()) for both in found.values())
        panels = [
            series_panel(
                name,
                [
                    Curve("fullest node", self.colors[name], both[0]),
                    Curve("emptiest node", self.colors[name], both[1], True),
                ],
                self.until_s,
                f"Running pods of the fullest and the emptiest node under {name}: at most "
                f"{number(float(both[0].middle.max()))} and {number(float(both[1].middle.max()))}",
                most=most,
            )
            for name, both in found.items()
        ]
        gaps = {name: float(np.median(both[0].middle - both[1].middle)) for name, both in found.items()}
        widest = max(gaps, key=gaps.__getitem__)
        caption = (
            f"Pods on the fullest node (line) and on the emptiest (dashed): the closer they are, the better pods are "
            f"spread. They are furthest apart under {widest}, typically by {number(gaps[widest])} pods. Medians over "
            f"the repetitions, with their extremes as bands."
        )
        return self._figure(
            "spread",
            "Fullest and emptiest node",
            panels,
            caption,
            ("scheduler", "node", "at_s", "running_pods", "lowest_repetition", "highest_repetition"),
            [
                row
                for name, both in found.items()
                for kind, one in zip(("fullest", "emptiest"), both, strict=True)
                for row in self._series_rows(one, name, kind)
            ],
        )

    def utilisation(self) -> Figure | None:
        """How busy the nodes are."""
        series: dict[str, dict[str, Series]] = {
            metric: {
                name: one
                for name, runs in self.section.runs.items()
                if (one := cluster_series(runs, metric, self.step_s)) is not None
            }
            for metric in UTILISATION
        }
        panels = [
            series_panel(
                UTILISATION[metric],
                [Curve(name, self.colors[name], one) for name, one in by_name.items()],
                self.until_s,
                f"{UTILISATION[metric]} over time, mean of the nodes; highest: "
                + "; ".join(f"{name} {100 * float(one.middle.max()):.0f} %" for name, one in by_name.items()),
                percent=True,
                most=1.0,
                height=190.0,
            )
            for metric, by_name in series.items()
            if by_name
        ]
        if not panels:
            return None
        busy = {name: float(one.middle.mean()) for name, one in series["cpu_utilisation"].items()}
        told = ""
        if len(busy) > 1:
            low, high = min(busy, key=busy.__getitem__), max(busy, key=busy.__getitem__)
            told = "The CPUs are equally busy under all schedulers. "
            if busy[high] > busy[low] + 0.01:
                told = (
                    f"While it runs, the cluster is busiest under {high} ({100 * busy[high]:.0f} % of its CPU time) "
                    f"and idlest under {low} ({100 * busy[low]:.0f} %). "
                )
        caption = (
            f"{told}Means over the nodes; pressure is the share of time in which some task waited for a CPU. Lines are "
            f"medians over the repetitions, bands their extremes."
        )
        return self._figure(
            "utilisation",
            "Utilisation of the cluster",
            panels,
            caption,
            ("scheduler", "metric", "at_s", "share", "lowest_repetition", "highest_repetition"),
            [
                row
                for metric, by_name in series.items()
                for name, one in by_name.items()
                for row in self._series_rows(one, name, metric)
            ],
            legend=True,
        )

    def estimates(self) -> Figure | None:
        """What CARICO's agents estimate."""
        series: dict[str, dict[str, Series]] = {
            metric: {
                name: one
                for name, runs in self.section.runs.items()
                if (one := node_series(runs, metric, self.step_s)) is not None
            }
            for metric in ESTIMATES
        }
        until_s = max((float(one.time_s[-1]) for by_name in series.values() for one in by_name.values()), default=0.0)
        panels = [
            series_panel(
                ESTIMATES[metric],
                [Curve(name, self.colors[name], one) for name, one in by_name.items()],
                until_s,
                f"{ESTIMATES[metric]} over time, median of the nodes; at the end: "
                + "; ".join(f"{name} {number(float(one.middle[-1]))}" for name, one in by_name.items()),
                height=190.0,
            )
            for metric, by_name in series.items()
            if by_name
        ]
        if not panels:
            return None
        caption = (
            "What nodes estimate of themselves: how many average workloads still fit (k), how many fit on the idle "
            "node, how much of k a pod takes, and so for how many more pods there is room. Lines are medians of all "
            "nodes of all repetitions; bands hold the middle 80 % of them."
        )
        return self._figure(
            "estimates",
            "What CARICO's nodes estimate",
            panels,
            caption,
            ("scheduler", "quantity", "at_s", "median", "p10", "p90"),
            [
                row
                for metric, by_name in series.items()
                for name, one in by_name.items()
                for row in self._series_rows(one, name, metric)
            ],
            legend=True,
            among=[name for name in self.section.runs if any(name in by_name for by_name in series.values())],
        )

    def _figure(
        self,
        name: str,
        title: str,
        panels: list[Markup],
        caption: str,
        header: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        legend: bool = False,
        among: Sequence[str] | None = None,
        heat: str = "",
        pairs: bool = False,
    ) -> Figure:
        named = (among if among is not None else tuple(self.section.runs)) if legend else ()
        colored = [(one, self.colors[one]) for one in named]
        pairs = pairs or len(panels) in (2, 4)
        return Figure(f"{self.prefix}-{name}", title, panels, caption, header, rows, colored, heat, pairs)

    def _distributions(self, samples: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Distribution]:
        found = {name: distribution(each) for name, each in samples.items()}
        return {name: one for name, one in found.items() if one is not None}

    def _series_rows(self, series: Series, *named: str) -> Iterable[tuple[object, ...]]:
        if not self.detail.data:
            return
        for at, middle, low, high in zip(series.time_s, series.middle, series.low, series.high, strict=True):
            yield (*named, at, middle, low, high)

    def _job_title(self, group: Group) -> str:
        return "" if len(self.section.groups) == 1 else f"{group.job} · {counted(group.pods_of_job, 'pod')}"

    def _slowest(self) -> str:
        """A sentence on the job that differs most between schedulers."""
        by_group = [[one for one in self.judged if one.group is group] for group in self.section.groups]
        told, widest = "", 0.0
        for mine in by_group:
            whole = {one.scheduler: one.jct_s for one in mine if one.jct_s is not None and not one.lacking}
            if len(whole) < 2:
                continue
            low, high = min(whole, key=whole.__getitem__), max(whole, key=whole.__getitem__)
            subject = "The jobs are" if mine[0].group.total else f"{mine[0].group.job} is"
            if whole[low] > 0 and (ratio := whole[high] / whole[low]) > widest:
                widest = ratio
                told = f"{subject} done equally soon under all schedulers, within 2 %."
                if ratio > _SAME:
                    times = f"{ratio:.2f}" if ratio < 10 else number(ratio)
                    told = (
                        f"{subject} done soonest under {low} ({number(whole[low])} s) and last under {high} "
                        f"({number(whole[high])} s, {times} times as long)."
                    )
        lacking = [one for one in self.judged if one.lacking]
        if lacking:
            told += (
                " Not completed: "
                + "; ".join(f"{one.group.job} under {one.scheduler} in {one.lacking} of {one.n}" for one in lacking)
                + "."
            )
        return told.strip()


def _told(one: Judged) -> str:
    if not one.times_s:
        return f"did not complete ({one.n} of {one.n})"
    text = f"{number(one.jct_s or 0.0)} s"
    if one.interval_s is not None:
        text += f" [{number(one.interval_s[0])}, {number(one.interval_s[1])}]"
    return f"{one.lacking} of {one.n} did not complete; {text}" if one.lacking else text


def _latencies(repetition: Repetition, job: str, phase: str) -> list[float]:
    """Milliseconds; none if nobody sent a request."""
    try:
        return [1000.0 * latency for latency in request_latencies([repetition], job, phase)]
    except ResultsError:
        return []


def _share(one: Distribution, share: float) -> float:
    return float(np.interp(share, SHARES, one.middle))


def _cell(value: object) -> object:
    return f"{value:.5g}" if isinstance(value, float) else value
