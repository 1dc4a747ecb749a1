"""What belongs together in tables and figures: repetitions of one scenario in one size with the same settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.totals import MANY_JOBS, all_jobs, has_many_jobs, mean_completion_s
from testbed.report.numbers import counted
from testbed.results.schema import PodResult, Repetition


@dataclass(frozen=True)
class Group:
    """A job under each scheduler; the jobs of a scenario with more than `MANY_JOBS` are one group, as totals."""

    job: str
    """Its name, or what all jobs are called."""
    pods_of_job: int
    total: bool
    runs: Mapping[str, Sequence[Repetition]]
    """By scheduler."""

    def completion_s(self, repetition: Repetition) -> float | None:
        """Return the job's completion time in seconds, of many jobs the mean; None if it did not complete."""
        return mean_completion_s(repetition) if self.total else repetition.job_completion_time_s.get(self.job)

    def completions_s(self, scheduler: str) -> dict[int, float | None]:
        """Return the completion times under a scheduler, by seed."""
        return {one.seed: self.completion_s(one) for one in self.runs[scheduler]}

    def pods(self, repetition: Repetition) -> list[PodResult]:
        """Return the pods of the job."""
        jobs = repetition.measured_jobs if self.total else (self.job,)
        return [pod for pod in repetition.pods if pod.job in jobs]

    def pod_times_s(self, repetition: Repetition) -> list[float]:
        """Return the completion times of the pods that succeeded, in seconds."""
        return pod_completion_times(self.pods(repetition))

    def mean_pod_times_s(self, scheduler: str) -> list[float]:
        """Return the mean completion time of these pods in every repetition that has any, in seconds."""
        return [float(np.mean(found)) for one in self.runs[scheduler] if (found := self.pod_times_s(one))]


@dataclass(frozen=True)
class Section:
    """A scenario in one size with one set of settings."""

    scenario: str
    size: str
    """Pods and nodes."""
    differences: Sequence[str]
    """What tells it apart from other sections with the same scenario and size."""
    groups: Sequence[Group]
    runs: Mapping[str, Sequence[Repetition]]
    """By scheduler."""

    @property
    def title(self) -> str:
        """A heading that no other section has."""
        return " · ".join([self.scenario, self.size, *self.differences])

    def title_of(self, group: Group) -> str:
        """Return a heading for one of the jobs."""
        one = next(iter(self.runs.values()))[0]
        name = [] if group.job == self.scenario else [group.job]
        size = f"{counted(group.pods_of_job, 'pod')} · {_nodes(one)}"
        return " · ".join([self.scenario, *name, size, *self.differences])


TOTALS_NOTE = (
    f"Of a scenario with more than {MANY_JOBS} jobs, JCT is the mean of all jobs' completion times, and PCT is that of "
    f"all pods."
)


def sections_of(repetitions: Sequence[Repetition]) -> list[Section]:
    """Group repetitions by scenario, size and settings, in the order of scenarios and sizes.

    Those of the A/A check are left out.
    """
    found: dict[tuple[str, str, str], dict[str, list[Repetition]]] = {}
    settings: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for one in (each for each in repetitions if not each.of_aa_check):
        size = f"{counted(sum(one.measured_jobs.values()), 'pod')} · {_nodes(one)}"
        key = repr(sorted(one.surroundings.items()))
        settings.setdefault((one.scenario, size), {})[key] = one.surroundings
        found.setdefault((one.scenario, size, key), {}).setdefault(one.scheduler, []).append(one)
    # A results file is ordered by scheduler first; here all sizes of a scenario stand together.
    in_order = sorted(found.items(), key=lambda each: _place(next(iter(each[1].values()))[0]))
    return [
        Section(
            scenario,
            size,
            _differences(settings[scenario, size][key], settings[scenario, size].values()),
            _groups(runs),
            runs,
        )
        for (scenario, size, key), runs in in_order
    ]


def by_scheduler(repetitions: Iterable[Repetition]) -> list[Repetition]:
    """Order repetitions by scheduler as people do: by name, and by the size of the numbers in it."""

    def key(one: Repetition) -> list[tuple[int, str]]:
        parts = re.findall(r"\d+|\D+", one.scheduler)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    return sorted(repetitions, key=key)


def is_real(repetition: Repetition) -> bool:
    """Whether a real cluster measured it."""
    return "provider" in repetition.settings  # only real clusters have this setting


def _groups(runs: Mapping[str, Sequence[Repetition]]) -> list[Group]:
    one = next(iter(runs.values()))[0]
    if has_many_jobs(one):
        return [Group(all_jobs(one), sum(one.measured_jobs.values()), total=True, runs=runs)]
    return [Group(job, pods, total=False, runs=runs) for job, pods in one.measured_jobs.items()]


def _place(repetition: Repetition) -> tuple[str, int, int]:
    return repetition.scenario, len(repetition.nodes), sum(repetition.measured_jobs.values())


def _nodes(repetition: Repetition) -> str:
    nodes = counted(len(repetition.nodes), "node")
    if not is_real(repetition):
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
    if "guest_cores" in settings:  # guests are as large as they are, whatever the scenario wants
        return Counter([f"{_cpus(settings['guest_cores'])}, {settings['guest_memory']}"])
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
