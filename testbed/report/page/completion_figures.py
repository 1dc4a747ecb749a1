"""Figures of how long jobs, pods and requests to servers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from testbed.errors import ResultsError
from testbed.measurement.request_latency import BEFORE, DURING, request_latencies
from testbed.measurement.statistics import summary
from testbed.report.judgements import Judged
from testbed.report.page.aggregates import SHARES, Distribution, distribution
from testbed.report.page.drawing import Curve, Row, distribution_panel, number, rows_panel
from testbed.report.page.figure import SAME, Drawn, Figure
from testbed.results.schema import Repetition


def job_times(drawn: Drawn) -> Figure | None:
    """The completion times of the jobs."""
    panels = []
    for group in drawn.section.groups:
        mine = [one for one in drawn.judged if one.group is group]
        if not any(one.times_s for one in mine):
            continue
        rows = [
            Row(
                one.scheduler,
                drawn.colors[one.scheduler],
                _told(one),
                dots=one.times_s if len(one.times_s) > 1 else (),
                middle=one.jct_s,
                bar=one.interval_s,
            )
            for one in mine
        ]
        alt = f"Completion time of {group.job}: " + "; ".join(f"{row.name} {row.label}" for row in rows)
        title = drawn.job_title(group) or (
            "Mean over all jobs" if group.total else "From publication to the end of the last pod"
        )
        panels.append(rows_panel(title, rows, "seconds", alt))
    if not panels:
        return None
    groups = {one.group.job: one.group for one in drawn.judged}
    found = [
        (one.scheduler, job, repetition.seed, group.completion_s(repetition))
        for job, group in groups.items()
        for one in drawn.judged
        if one.group is group
        for repetition in group.runs[one.scheduler]
    ]
    what = "the mean of all jobs' completion times" if drawn.section.groups[0].total else "job completion time, JCT"
    caption = (
        f"{_slowest(drawn)} Rings are repetitions of {what}; the dot is their median, and the bar its 95 % "
        f"interval (below six repetitions their extremes). Shorter is better."
    )
    return drawn.figure("jct", "Job completion time", panels, caption, ("scheduler", "job", "seed", "jct_s"), found)


def pod_times(drawn: Drawn) -> Figure | None:
    """The completion times of the pods, as distributions and as boxes."""
    panels: list[Markup] = []
    data: list[tuple[object, ...]] = []
    told = ""
    for group in drawn.section.groups:
        found = _distributions({name: [group.pod_times_s(one) for one in runs] for name, runs in group.runs.items()})
        if not found:
            continue
        middles = {name: _share(one, 0.5) for name, one in found.items()}
        medians = "; ".join(f"{name} {number(value)} s" for name, value in middles.items())
        most = max(float(one.high.max()) for one in found.values())
        log = most > 30 * max(min(float(one.middle[1]) for one in found.values()), 1e-9)
        curves = [Curve(name, drawn.colors[name], one) for name, one in found.items()]
        title = drawn.job_title(group)
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
                drawn.colors[name],
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
            of = f" of {group.job}" if len(drawn.section.groups) > 1 else ""
            told = f"Pods{of} take equally long under all schedulers, within 2 %. "
            if middles[high] > SAME * middles[low]:
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
    return drawn.figure("pct", "Pod completion time", panels, caption, header, data, legend=True, pairs=True)


def latencies(drawn: Drawn) -> Figure | None:
    """How long the clients of servers wait."""
    jobs = sorted({series.job for runs in drawn.section.runs.values() for one in runs for series in one.requests})
    panels: list[Markup] = []
    data: list[tuple[object, ...]] = []
    told = ""
    for job in jobs:
        rows, curves = [], []
        tails: dict[str, tuple[float, float]] = {}
        for name, runs in drawn.section.runs.items():
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
                        drawn.colors[name] if phase == DURING else "before",
                        f"{phase}: p50 {number(one['p50'])}, p99 {number(one['p99'])} ms",
                        drawn.colors[name],
                        dots=tail if len(tail) > 1 else (),
                        middle=one["p50"],
                        whisker=(one["p50"], one["p99"]),
                    )
                )
                data.append((name, job, phase, *(one[part] for part in ("count", "p50", "p90", "p95", "p99", "max"))))
            if DURING in found and (spread := distribution(found[DURING])):
                curves.append(Curve(name, drawn.colors[name], spread))
            if BEFORE in found and DURING in found:
                ends = [summary([one for each in found[phase] for one in each])["p99"] for phase in (BEFORE, DURING)]
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
    return drawn.figure("latency", "Latency of servers", panels, caption, header, data, legend=True, pairs=True)


def _slowest(drawn: Drawn) -> str:
    """A sentence on the job that differs most between schedulers."""
    by_group = [[one for one in drawn.judged if one.group is group] for group in drawn.section.groups]
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
            if ratio > SAME:
                times = f"{ratio:.2f}" if ratio < 10 else number(ratio)
                told = (
                    f"{subject} done soonest under {low} ({number(whole[low])} s) and last under {high} "
                    f"({number(whole[high])} s, {times} times as long)."
                )
    lacking = [one for one in drawn.judged if one.lacking]
    if lacking:
        told += (
            " Not completed: "
            + "; ".join(f"{one.group.job} under {one.scheduler} in {one.lacking} of {one.n}" for one in lacking)
            + "."
        )
    return told.strip()


def _distributions(samples: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Distribution]:
    found = {name: distribution(each) for name, each in samples.items()}
    return {name: one for name, one in found.items() if one is not None}


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
