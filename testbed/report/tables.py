"""Results as plain text, 80 columns wide. Pure: lines in the order of a results file, no colour, no terminal."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from testbed.comparison import LEAST
from testbed.comparison.difference import Difference, completion_difference, difference
from testbed.comparison.intervals import LEAST_FOR_INTERVAL, median_interval
from testbed.comparison.verdicts import MARGIN, judged
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.statistics import summary
from testbed.measurement.stolen_cpu import MENTIONED_FROM, RETRIED_FROM, discarded_attempts, stolen_shares
from testbed.report.numbers import WIDTH, counted, seconds
from testbed.results.schema import Repetition

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


def medians(repetitions: Sequence[Repetition], reference: str | None = None) -> list[str]:
    """Return a table with the median over the repetitions for every job and scheduler, and how they compare.

    Parameters
    ----------
    repetitions : sequence of Repetition
    reference : str, optional
        The scheduler that others are compared with; where it was not run, and by default, the first of each group. The
        reference is never chosen by how it fared: the fastest of several is the luckiest, too.
    """
    groups = _by_job(repetitions)
    compared = {
        (index, scheduler): _difference(runs[_reference(runs, reference)], mine, job)
        for index, (_, job, runs) in enumerate(groups)
        for scheduler, mine in runs.items()
        if scheduler != _reference(runs, reference)
    }
    verdicts = dict(zip(compared, judged(list(compared.values())), strict=True))
    lines = [f"  {'scheduler':15}{'n':>3}{'JCT s [interval]':>21}{'PCT s':>7}"]
    if compared:
        lines[0] += f"{'JCT / reference':>19}{'verdict':>13}"
    for index, (title, job, runs) in enumerate(groups):
        lines += textwrap.wrap(title, WIDTH, subsequent_indent="  ")
        for scheduler, mine in runs.items():
            effect = verdict = ""
            if found := compared.get((index, scheduler)):
                effect, verdict = _effect(found), verdicts[index, scheduler]
            elif len(runs) > 1:
                effect = "reference"
            lines += _median_row(scheduler, mine, job, effect, verdict)
    note = (
        f"Medians over n repetitions; in brackets 95 % intervals, of JCT the extremes below {LEAST_FOR_INTERVAL} "
        f"repetitions."
    )
    if reference is not None and not any(reference in runs for _, _, runs in groups):
        note += f" {reference}, the reference that was asked for, was not run: the first of each group took its place."
    if compared:
        note += (
            f" JCT is compared with the reference's, seed by seed where the seeds are the same. A verdict is corrected "
            f"for all {counted(len(compared), 'comparison')} of this table (Holm, 5 %); ok means within "
            f"{100 * MARGIN:g} %, and below {LEAST} repetitions all is inconclusive."
        )
    return [*lines, *textwrap.wrap(note, WIDTH), *stolen_note(repetitions)]


def _median_row(scheduler: str, repetitions: Sequence[Repetition], job: str, effect: str, verdict: str) -> list[str]:
    times = _completions(repetitions, job)
    means = [float(np.mean(found)) for one in repetitions if (found := pod_completion_times(one.pods, job))]
    jct = f"{seconds(_median(times))} {_interval(times)}".strip()
    if lacking := len(repetitions) - len(times):
        jct = f"{lacking} did not complete"
    lines, name = [], scheduler
    if len(name) > 15:
        lines, name = [f"  {name}"], ""
    row = f"  {name:15}{len(repetitions):>3}{jct:>21}{seconds(_median(means)):>7}{effect:>19}{verdict:>13}"
    return [*lines, row.rstrip()]


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
            key = repr(sorted(one.surroundings.items()))
            settings.setdefault(title, {})[key] = one.surroundings
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


def _reference(runs: Mapping[str, Sequence[Repetition]], named: str | None) -> str:
    return named if named is not None and named in runs else next(iter(runs))


def _difference(reference: Sequence[Repetition], candidate: Sequence[Repetition], job: str) -> Difference:
    """How long the job takes under the candidate; where it did not always complete, how often it did."""
    theirs, ours = ({one.seed: one.job_completion_time_s[job] for one in runs} for runs in (reference, candidate))
    if None in theirs.values() or None in ours.values():
        return completion_difference(theirs, ours)
    return difference(theirs, ours)  # type: ignore[arg-type]


def _effect(found: Difference) -> str:
    if not 0.0 < found.effect < math.inf:  # not everything completed
        return ""
    if not found.enough:
        return f"{found.effect:.2f}"
    return f"{found.effect:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _interval(values: Sequence[float]) -> str:
    """The interval as text; empty for a single value."""
    if len(values) < 2:
        return ""
    low, high = median_interval(values)
    return f"[{seconds(low)}, {seconds(high)}]"


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
