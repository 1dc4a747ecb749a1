"""The costs of containers on a node of kind: turns measured bursts into parameters of the simulated cluster."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from testbed.report.numbers import WIDTH
from testbed.validation.bursts import Burst, Idle, IdleNode


@dataclass(frozen=True)
class ContainerCosts:
    """Bursts on one node, and the costs that follow from them.

    Parameters
    ----------
    cores : float
        CPUs that the node may use.
    idle : IdleNode
        The node before the bursts.
    bursts : sequence of Burst
        One pod and several at once, each at least once.
    """

    cores: float
    idle: IdleNode
    bursts: Sequence[Burst]

    @property
    def background_cores(self) -> float:
        """CPUs that the idle node uses: for systemd, containerd, kubelet and the platform's pods."""
        return self.idle.whole.cpu_s / self.idle.whole.lasted_s

    @property
    def background_cores_per_pod(self) -> float:
        """CPUs that every idle pod adds to `background_cores`."""
        return max(fmean(self._beyond_idle(one.held) / one.held.lasted_s / one.pods for one in self.bursts), 0.0)

    @property
    def start_cpu_s(self) -> float:
        """CPU-seconds that starting a container takes, in bursts of several, until its program begins."""
        return self._all_of_start - self.started_cpu_s

    @property
    def started_cpu_s(self) -> float:
        """CPU-seconds that a start still takes while the program runs: the share that it has in a start alone."""
        alone = [(self.begun(one), self.starts(one)) for one in self._single]
        begun, whole = map(sum, zip(*alone, strict=True))
        return self._all_of_start * min(max(begun, 0.0) / whole, 1.0) if whole > 0 else 0.0

    @property
    def _all_of_start(self) -> float:
        return fmean(self.starts(one) for one in self._largest)

    @property
    def stop_cpu_s(self) -> float:
        """CPU-seconds that ending a container takes, in bursts of several."""
        return fmean(self.stops(one) for one in self._largest)

    def starts(self, burst: Burst) -> float:
        """Return the CPU-seconds of a start in a burst."""
        return self._beyond_idle(Idle(burst.start_lasted_s, burst.start_cpu_s)) / burst.pods

    def begun(self, burst: Burst) -> float:
        """Return the CPU-seconds of a start in a burst after the last program began."""
        return self._beyond_idle(Idle(burst.begun_lasted_s, burst.begun_cpu_s)) / burst.pods

    def stops(self, burst: Burst) -> float:
        """Return the CPU-seconds of an end in a burst."""
        return self._beyond_idle(Idle(burst.stop_lasted_s, burst.stop_cpu_s)) / burst.pods

    def settings(self) -> dict[str, Any]:
        """Return the costs as parameters of the simulated cluster, by name.

        The start delay is the time that a single pod's start takes beyond the time that its CPU-seconds need. How long
        the API takes to show a pod as Running is that of single pods, too: in a burst it includes waiting for CPU.
        """
        computing_s = self.start_cpu_s / min(max(self.cores - self.background_cores, 0.1), 1.0)
        waits = [max(latency - computing_s, 0.0) for one in self._single for latency in one.start_latency_s]
        found: dict[str, Any] = {
            "agent_cores": 0.0,  # in background_cores: agents ran while that was measured
            "background_cores": self.background_cores,
            "background_variation": self.idle.cpu_variation,
            "background_memory": self.idle.memory,
            "background_memory_variation": self.idle.memory_variation,
            "background_cores_per_pod": self.background_cores_per_pod,
            "start_cpu_s": self.start_cpu_s,
            "started_cpu_s": self.started_cpu_s,
            "stop_cpu_s": self.stop_cpu_s,
            "starts_per_s": max(map(_per_second, self._largest)),
        }
        for name, seconds in {
            "start_delay": waits,
            "running_visible": [seen for one in self._single for seen in one.running_visible_s],
            "finished_visible": [seen for one in self.bursts for seen in one.finished_visible_s],
        }.items():
            found |= {f"{name}_min_s": max(min(seconds), 0.0), f"{name}_max_s": max(*seconds, 0.0)}
        return {name: round(value, 4) for name, value in found.items()}

    @property
    def _single(self) -> list[Burst]:
        return [one for one in self.bursts if one.pods == 1]

    @property
    def _largest(self) -> list[Burst]:
        most = max(one.pods for one in self.bursts)
        return [one for one in self.bursts if one.pods == most]

    def _beyond_idle(self, stretch: Idle) -> float:
        return stretch.cpu_s - self.background_cores * stretch.lasted_s


def costs_table(costs: ContainerCosts) -> list[str]:
    """Return the measurements as text, 80 columns wide."""
    lines = [
        f"A node of {costs.cores:g} CPUs: {costs.background_cores:.3f} CPUs when idle, "
        f"{costs.background_cores_per_pod:.4f} more for every pod,",
        f"  and {costs.idle.memory:.1%} of its memory, varying by {costs.idle.memory_variation:.2%}",
        f"  {'pods at once':13}{'start: CPU-s':>14}{'first s':>9}{'last s':>8}{'pressure':>9}{'end: CPU-s':>12}"
        f"{'shown, s':>13}",
    ]
    for one in costs.bursts:
        cpu = f"{costs.starts(one):.2f}, {costs.begun(one):.2f}"
        shown = f"{fmean(one.running_visible_s):.2f}, {fmean(one.finished_visible_s):.2f}"
        lines.append(
            f"  {one.pods:<13}{cpu:>14}{min(one.start_latency_s):>9.2f}"
            f"{max(one.start_latency_s):>8.2f}{one.start_pressure:>9.2f}{costs.stops(one):>12.2f}{shown:>13}"
        )
    note = (
        "CPU-seconds of a pod, without those of its program, and how many of a start's after the last program began; "
        "times from creation until the first and the last program "
        "began; mean CPU pressure until then; times until the API showed a pod as Running after it began, and as "
        "Succeeded after it ended."
    )
    return [*lines, *textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="  ")]


def _per_second(burst: Burst) -> float:
    """Return the rate at which the pods of a burst began."""
    spread = max(burst.start_latency_s) - min(burst.start_latency_s)
    return (burst.pods - 1) / spread if spread > 0 else float(burst.pods)
