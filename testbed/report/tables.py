"""Results as plain text, 80 columns wide. Pure: lines in the order of a results file, no colour, no terminal."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.statistics import summary
from testbed.measurement.stolen_cpu import MENTIONED_FROM, RETRIED_FROM, discarded_attempts, stolen_shares
from testbed.report.numbers import WIDTH, counted, seconds
from testbed.results.compare import LEAST_FOR_INTERVAL, compare, compare_repetitions, median_interval
from testbed.results.schema import Repetition

VERDICT_IS_GOOD = {"faster": True, "slower": False, "failed": False}
"""Verdicts to colour at the end of a row of `medians`; the others state no difference."""
_VERDICTS = {"worse": "slower", "better": "faster", "inconclusive": "unclear"}
"""Words of a row for the verdicts of `compare_repetitions`."""
FIGURES = ("min", "p25", "p50", "p75", "max")


def distributions(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a table for every job: the completion times of its pods and the job's own, under each scheduler.

    Pods of all repetitions of a scheduler are taken together; the job's own completion time is the median.
    """
    lines = []
    header = (
        f"  {'scheduler':19}{'PCT s: mean ± std':>17}" + "".join(f"{name:>7}" for name in FIGURES) + f"{'JCT s':>7}"
    )
    for title, job, runs in _by_job(repetitions):
        lines += [*textwrap.wrap(title, WIDTH, subsequent_indent="  "), header]
        for scheduler, mine in runs.items():
            lines += _distribution(scheduler, job, mine)
        lines.append("")
    return lines[:-1]


def medians(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a table with the median over the repetitions for every job and scheduler, and how they compare.

    A row ends with its verdict if there is another row to compare it with.
    """
    lines = [f"  {'scheduler':31}{'n':>3}{'JCT s [interval]':>22}{'Δ':>7}{'PCT s':>7}{'verdict':>8}"]
    for title, job, runs in _by_job(repetitions):
        lines += textwrap.wrap(title, WIDTH, subsequent_indent="  ")
        reference = _reference(runs, job)
        for scheduler, mine in runs.items():
            times = _completions(mine, job)
            means = [float(np.mean(found)) for one in mine if (found := pod_completion_times(one.pods, job))]
            jct, delta, verdict = f"{seconds(_median(times))} {_interval(times)}".strip(), "", ""
            if len(times) < len(mine):
                jct, verdict = "did not complete", "failed"
            elif scheduler == reference:
                verdict = "ref" if len(runs) > 1 else ""
            elif reference is not None:
                relative, verdict = _compared(runs[reference], mine, job)
                delta = "" if math.isnan(relative) else _percent(relative)
            name = scheduler
            if len(name) > 31:
                lines.append(f"  {name}")
                name = ""
            lines.append(
                f"  {name:31}{len(mine):>3}{jct:>22}{delta:>7}{seconds(_median(means)):>7}{verdict:>8}".rstrip()
            )
    note = (
        f"Medians over n repetitions; in brackets the 95 % interval of JCT, or its extremes below {LEAST_FOR_INTERVAL} "
        f"repetitions. Δ and verdict compare JCT, seed by seed and with 95 % confidence, with the group's reference "
        f"(ref): the fastest of those with the most repetitions."
    )
    if any(map(_is_real, repetitions)):
        note += (
            f" On real clusters, where conditions drift, the comparison is a bootstrap over the pairs; from fewer than "
            f"{LEAST_FOR_INTERVAL} pairs nothing is concluded (unclear)."
        )
    return [*lines, *textwrap.wrap(note, WIDTH), *stolen_note(repetitions)]


def stolen_note(repetitions: Sequence[Repetition]) -> list[str]:
    """Return a note on CPU time that other guests took, if it was enough to disturb a repetition."""
    shares = sorted(stolen_shares(repetitions))
    note = ""
    if shares and shares[-1] >= MENTIONED_FROM:
        note = (
            f"The machine's hypervisor gave {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} % (median "
            f"{100 * np.median(shares):.0f} %) of its CPU time to others while repetitions ran: times and "
            f"pressures are those of a slower machine, and vary with this share. "
        )
    if discarded := discarded_attempts(repetitions):
        counts = ", ".join(f"{scheduler} {count}" for scheduler, count in discarded.items())
        note += (
            f"Attempts discarded because the machine's hypervisor gave {100 * RETRIED_FROM:g} % or more to others: "
            f"{counts}. They are in the run's folder; the results have summaries of them."
        )
    return textwrap.wrap(note, WIDTH)


def _by_job(repetitions: Sequence[Repetition]) -> list[tuple[str, str, dict[str, list[Repetition]]]]:
    """Group repetitions by what was run (title and job), then by scheduler."""
    groups: dict[tuple[str, str, str], dict[str, list[Repetition]]] = {}
    settings: dict[str, dict[str, dict[str, Any]]] = {}
    for one in repetitions:
        for job, pods in one.measured_jobs.items():
            size = f"{counted(pods, 'pod')} · {_nodes(one)}"
            title = f"{one.scenario} · {size}"
            if job != one.scenario:
                title = f"{one.scenario} · {job} · {size}"
            key = repr(sorted(one.settings.items()))
            settings.setdefault(title, {})[key] = one.settings
            groups.setdefault((title, job, key), {}).setdefault(one.scheduler, []).append(one)
    # A results file is ordered by scheduler first; here all sizes of a scenario stand together.
    in_order = sorted(groups.items(), key=lambda group: _size(next(iter(group[1].values()))[0]))
    return [
        (" · ".join([title, *_differences(settings[title][key], settings[title].values())]), job, runs)
        for (title, job, key), runs in in_order
    ]


def _size(repetition: Repetition) -> tuple[str, int, int]:
    return repetition.scenario, len(repetition.nodes), sum(repetition.measured_jobs.values())


def _is_real(repetition: Repetition) -> bool:
    return "provider" in repetition.settings  # only real clusters have this setting


def _nodes(repetition: Repetition) -> str:
    nodes = counted(len(repetition.nodes), "node")
    if not _is_real(repetition):
        return nodes
    settings = repetition.settings
    sizes = _sizes(settings)
    title = f"{nodes} of {settings['provider']}"
    if sizes:
        each = (size if len(sizes) == 1 else f"{count} × {size}" for size, count in sizes.items())
        title += f" ({'; '.join(each)})"
    if machine := settings.get("machine_cpus"):
        title += f", machine of {_cpus(machine)}"
    return title


def _sizes(settings: Mapping[str, Any]) -> Counter[str]:
    """The number of nodes by size, as found on the cluster or else as made; empty if the settings have neither."""
    if found := settings.get("allocatable"):
        return Counter(
            f"{_cpus(node['millicpu'] / 1000)}, {round(node['memory_bytes'] / 2**30, 1):g}Gi" for node in found.values()
        )
    sizes: Counter[str] = Counter()
    for pool in settings.get("pools") or ([settings] if "cores" in settings else []):
        sizes[f"{_cpus(pool['cores'])}, {pool['memory']}"] += pool["nodes"]
    return sizes


def _cpus(number: float) -> str:
    return "1 CPU" if number == 1 else f"{number:g} CPUs"


def _differences(settings: Mapping[str, Any], among: Collection[Mapping[str, Any]]) -> list[str]:
    """The settings that differ from those of most other runs with the same title."""
    return [
        f"{name}={value}"
        for name, value in settings.items()
        if name != "jobs" and 2 * sum(other.get(name) == value for other in among) <= len(among) > 1
    ]


def _distribution(scheduler: str, job: str, repetitions: Sequence[Repetition]) -> list[str]:
    pods = [pod for one in repetitions for pod in one.pods if pod.job == job]
    times, completions = pod_completion_times(pods), _completions(repetitions, job)
    lines = [f"  {scheduler}"]
    if len(scheduler) > 18:
        lines.append("")
    cells = ["-"] * (1 + len(FIGURES))
    if times:
        all_of = summary(times)
        cells = [f"{seconds(all_of['mean'])} ± {seconds(all_of['std'])}", *(seconds(all_of[name]) for name in FIGURES)]
    jct = seconds(_median(completions)) if len(completions) == len(repetitions) else "-"
    lines[-1] = f"{lines[-1]:21}{cells[0]:>17}" + "".join(f"{cell:>7}" for cell in [*cells[1:], jct])
    if len(completions) > 1:
        what = "extremes" if len(completions) < LEAST_FOR_INTERVAL else "95 % interval"
        number = len(completions)
        lines.append(f"    {number} repetitions: PCT of all pods, JCT the median, {what} {_interval(completions)}")
    others = Counter(pod.outcome for pod in pods if pod.outcome != "succeeded")
    if others:
        lines.append("    pods: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(others.items())))
    return lines


def _completions(repetitions: Sequence[Repetition], job: str) -> list[float]:
    return [taken for one in repetitions if (taken := one.job_completion_time_s.get(job)) is not None]


def _by_seed(repetitions: Sequence[Repetition], job: str) -> dict[int, float]:
    completions = ((one.seed, one.job_completion_time_s[job]) for one in repetitions)
    return {seed: taken for seed, taken in completions if taken is not None}


def _reference(runs: Mapping[str, Sequence[Repetition]], job: str) -> str | None:
    """The scheduler to compare with: among those with the most repetitions, all of the same seeds, the fastest."""
    by_seed = {scheduler: _by_seed(mine, job) for scheduler, mine in runs.items()}
    by_seed = {scheduler: times for scheduler, times in by_seed.items() if len(times) == len(runs[scheduler])}
    if not by_seed:
        return None
    most = max(by_seed, key=lambda scheduler: len(by_seed[scheduler]))
    alike = [scheduler for scheduler, times in by_seed.items() if times.keys() == by_seed[most].keys()]
    return min(alike, key=lambda scheduler: math.fsum(map(math.log, by_seed[scheduler].values())))


def _compared(reference: Sequence[Repetition], candidate: Sequence[Repetition], job: str) -> tuple[float, str]:
    """The share by which the candidate takes longer (NaN without a pair of the same seed), and the verdict."""
    theirs, ours = _by_seed(reference, job), _by_seed(candidate, job)
    if not _is_real(reference[0]):
        return compare(theirs, ours)
    pairs = [(theirs[seed], ours[seed]) for seed in sorted(theirs.keys() & ours.keys())]
    if not pairs:
        return math.nan, "unclear"
    found = compare_repetitions(*zip(*pairs, strict=True))
    return found.ratio - 1.0, _VERDICTS[found.verdict]


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %" if abs(share) >= 0.005 else "0 %"


def _interval(values: Sequence[float]) -> str:
    """The interval as text; empty for a single value."""
    if len(values) < 2:
        return ""
    low, high = median_interval(values)
    return f"[{seconds(low)}, {seconds(high)}]"


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
