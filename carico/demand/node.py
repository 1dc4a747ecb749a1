"""The demand of one node: counts its pods, explains its telemetry by these counts, and reports the result. Sans I/O.

The owner passes in which pods start and stop, what the node demands, what each pod uses, and the time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from carico.arrays import finite
from carico.demand.disk import Disk
from carico.demand.peaks import Peaks
from carico.demand.pods import CHURN, PodCounts
from carico.demand.regression import Estimate, Regression
from carico.demand.report import MOST_READS, DemandReport, DiskReport, WorkloadReport
from carico.demand.settings import DemandVariant
from carico.demand.workload import check_saved_workloads
from carico.saved import checked_mapping
from carico.telemetry.counters import DiskUse, PodCounters, PodUse, pod_use_between

MOST_TIMES = 10.0
"""No node of a size has learned that a pod, or the empty node, demands more than this many times that size."""
LEAST_LEFT = 0.05
"""A node always offers this share of its CPUs: nothing is stolen, and so nothing is learned, while nothing runs."""
_STEADY_S = 60.0
"""Pods of a workload neither start nor stop if none has done so for so long."""
_MOST_NEW = 8
"""The most pods of a workload that are read often because its memory is unknown."""
_MEASURED_FOR = 3.0
"""What pods demand counts as measured for this many times as long as it takes until they are read again."""
MOST_LEARNED_READS = 10_000.0
"""No node, whatever its size, has learned that a pod, or the empty node, has more reads under way."""


class NodeDemand:
    """What a node knows about its pods.

    Parameters
    ----------
    node : str
        The node's name.
    cores, gib : float
        The node's size.
    variant : DemandVariant
    since : float
        The time at which the first interval of telemetry begins, seconds.

    Examples
    --------
    >>> from carico.demand.settings import DEMAND
    >>> node = NodeDemand("node-0", cores=4.0, gib=16.0, variant=DEMAND, since=0.0)
    >>> for second in range(1, 4):
    ...     node.observe(0.2, 1.0, at=float(second))
    >>> node.pod_started("pod-a", "pi", at=3.0)
    >>> for second in range(4, 20):
    ...     node.observe(0.7, 1.1, at=float(second))
    >>> round(node.report(20.0).workloads["pi"].cores.mean, 1)
    0.5
    """

    def __init__(self, node: str, cores: float, gib: float, variant: DemandVariant, since: float) -> None:
        self.node = node
        self._size = cores, gib
        self._variant = variant
        self._pods = PodCounts(variant.churn_s, since)
        self._observed_at = since
        self._cpu, self._memory, self._peaks, self._reads = _parts(variant)
        self._disk = Disk(variant.disk_s)
        self._sees_disk = False
        self._held_gib = 0.0
        self._left = 1.0
        """The share of the CPU time which its threads want that the hypervisor leaves to them."""
        self._counters: Mapping[str, PodCounters] = {}
        """The latest readings of pods, by UID."""
        self._read_at = self._read_new_at = -math.inf
        self._most_gib: dict[str, float] = {}
        """The most memory that each running pod was seen to hold, by UID."""
        self._measured_at: dict[str, float] = {}
        """When it was last measured what pods of a workload demand."""
        self._changed_at: dict[str, float] = {}
        """When a pod of a workload last started or stopped, by workload, if that is not long ago."""
        self._stops: defaultdict[str, float] = defaultdict(float)
        """Rate of stops by workload, per second, at the time of the latest observation."""

    def pod_started(self, uid: str, workload: str | None, at: float) -> None:
        """Note that a pod has started; `workload` is None for a pod of the platform, which is part of the baseline."""
        self._pods.started(uid, workload, at)
        if workload is not None:
            self._changed_at[workload] = at

    def pod_found(self, uid: str, workload: str | None) -> None:
        """Note that a pod runs that was there before the agent; `workload` as for `pod_started`."""
        self._pods.found(uid, workload)

    def pod_stopped(self, uid: str, at: float) -> None:
        """Note that a pod is gone."""
        workload, most_gib = self._pods.stopped(uid, at), self._most_gib.pop(uid, None)
        if workload is not None and most_gib is not None:
            self._peaks.ended(workload, most_gib)
        if workload is not None:
            self._changed_at[workload] = at
            self._stops[workload] += 1 / self._variant.stops_s

    def pod_identified(self, uid: str, workload: str) -> None:
        """Correct the workload of a running pod."""
        self._pods.identified(uid, workload)

    def resize(self, cores: float, gib: float) -> None:
        """Note the node's size, which may change while it runs.

        Raises
        ------
        InvalidInput
            If a number is not positive and finite.
        """
        finite("cores, GiB", [cores, gib], low=1e-3)
        self._size = cores, gib

    def observe(self, cores: float, gib: float, at: float, disk: DiskUse | None = None, left: float = 1.0) -> None:
        """Learn from telemetry.

        Parameters
        ----------
        cores : float
            Threads that ran or waited for a CPU, on average since the observation before, [0, 2 x cores].
        gib : float
            Memory in use.
        at : float
            When the interval ended, seconds.
        disk : DiskUse, optional
            What was read from the node's disks, if the node sees it.
        left : float
            The share of the CPU time which its threads wanted that the hypervisor left to them, [0, 1].
        """
        variant, elapsed_s = self._variant, at - self._observed_at
        means = self._pods.means(at)
        self._observed_at = at
        self._decay_stops(elapsed_s)
        if variant.steal_s:
            self._left += (left - self._left) * -math.expm1(-max(elapsed_s, 0.0) / variant.steal_s)
        self._changed_at = {name: time for name, time in self._changed_at.items() if at - time <= _STEADY_S}
        self._measured_at = {name: time for name, time in self._measured_at.items() if self._is_measured(name, at)}
        steady = self._measured_at.keys() - self._changed_at.keys()
        self._cpu.advance(elapsed_s, dict.fromkeys(steady, variant.pods_fade_s))
        # Whether a pod computes already while the container runtime starts it, and still while it ends, is not known.
        unsure = means.get(CHURN, 0.0) * variant.first_cores**2
        self._cpu.learn(means, cores, cores > variant.saturated * self._size[0], unsure)
        if disk is not None:
            self._sees_disk = True
            self._disk.observe(disk, elapsed_s)
            self._reads.advance(elapsed_s)
            self._reads.learn(means, disk.reading)
            self._reads.forget(means)
        means.pop(CHURN, None)
        self._memory.advance(elapsed_s)
        self._memory.learn(means, gib)
        self._held_gib = gib
        self._cpu.forget(means)
        self._memory.forget(means)
        self._peaks.forget(self._memory.workloads)
        eldest, memory = self._pods.eldest(), self._memory.costs()
        self._peaks.observe(
            {name: memory.get(name, self._memory.first) for name in self._pods.now},
            {name for name in eldest if self._may_be_settling(name, at - eldest[name]) and name not in self._stops},
            at,
        )

    def pods_to_read(self, at: float) -> Collection[str]:
        """Return the UIDs of the pods that `observe_pods` is to be told of now; most often there are none."""
        variant = self._variant
        if not variant.pods_s or at - max(self._read_at, self._read_new_at) < min(variant.pods_new_s, variant.pods_s):
            return ()
        running = self._pods.running
        if at - self._read_at >= variant.pods_s:
            self._read_at = at
            return [uid for uid, workload in running.items() if workload is not None]
        self._read_new_at = at
        number: defaultdict[str, int] = defaultdict(int)
        chosen = []
        for uid, workload in running.items():
            if workload is not None and not self._peaks.is_settled(workload) and number[workload] < _MOST_NEW:
                number[workload] += 1
                chosen.append(uid)
        return chosen

    def observe_pods(self, counters: Mapping[str, PodCounters], at: float) -> None:
        """Learn from what each pod has used since the reading before.

        Parameters
        ----------
        counters : mapping
            By UID; pods that cannot be read are left out.
        at : float
            Seconds.
        """
        variant, running, before = self._variant, self._pods.running, self._counters
        self._counters = {uid: reading for uid, reading in before.items() if uid in running} | dict(counters)
        used: defaultdict[str, list[PodUse]] = defaultdict(list)
        # Of these, the pods that had their initial memory already at the reading before.
        settled: defaultdict[str, list[PodUse]] = defaultdict(list)
        for uid, reading in counters.items():
            workload = running.get(uid)
            use = pod_use_between(before[uid], reading) if uid in before else None
            if workload is None:
                continue
            self._most_gib[uid] = max(self._most_gib.get(uid, 0.0), reading.gib)
            if use is not None:
                used[workload].append(use)
                if before[uid].at_s - self._pods.since(uid) > variant.settling_s:
                    settled[workload].append(use)
        workloads = self._pods.now
        for workload, pods in used.items():
            cores, waiting, gib, _ = _mean(pods)
            self._memory.learn_cost(workload, gib, variant.pods_noise_gib, workloads)
            if workload in settled:
                *_, settled_gib, gib_per_s = _mean(settled[workload])
                self._peaks.read(workload, settled_gib, gib_per_s, at)
            if waiting <= variant.pods_waiting:
                # A thread that is on a stolen CPU seems neither to run nor to wait.
                demand = (cores + waiting) / max(self._left, LEAST_LEFT)
                self._cpu.learn_cost(workload, demand, variant.pods_noise_cores, workloads)
                self._measured_at[workload] = at

    def skip(self, at: float) -> None:
        """Note that there is no telemetry up to `at`: the next observation covers the time from then on."""
        if at > self._observed_at:
            self._pods.means(at)
            self._decay_stops(at - self._observed_at)
            self._observed_at = at

    @property
    def held_gib(self) -> float:
        """Memory in use at the latest observation, GiB."""
        return self._held_gib

    def demand(self) -> Estimate:
        """What the node demands with the pods that run now, cores."""
        cores = self._cpu.demand(self._pods.now)
        return Estimate(max(cores.mean, 0.0), cores.variance)

    def report(self, at: float) -> DemandReport:
        """Return the node's report."""
        now = self._pods.now
        kept = math.exp(-max(at - self._observed_at, 0.0) / self._variant.stops_s)
        cores, unknown = self._cpu.costs(), self._cpu.first
        exposed = self._cpu.exposure(now)
        reads = self._reads.costs() if self._sees_disk else {}
        reading = min(max(self._reads.demand(now).mean, 0.0), MOST_READS)
        names = dict.fromkeys([*now, *cores, *self._peaks.workloads])
        names.pop(CHURN, None)
        return DemandReport(
            self.node,
            self._size[0] * max(self._left, LEAST_LEFT),
            self._size[1],
            self.demand(),
            self._held_gib,
            max(self._memory.baseline.mean, 0.0),
            {
                name: WorkloadReport(
                    now.get(name, 0),
                    kept * self._stops.get(name, 0.0),
                    cores.get(name, unknown),
                    self._peaks.cost(name),
                    reads.get(name),
                    exposed.get(name, 0.0),
                    self._is_measured(name, at),
                )
                for name in names
            },
            dict(self._pods.running),
            DiskReport(reading, self._disk.level) if self._sees_disk else None,
        )

    def save(self) -> dict[str, Any]:
        """Return everything that was learned about workloads, as JSON values, but not which pods run."""
        return {
            "cpu": self._cpu.save(),
            "memory": self._memory.save(),
            "peaks": self._peaks.save(),
            "reads": self._reads.save(),
            "disk": self._disk.save(),
        }

    def restore(self, state: Mapping[str, Any], elapsed_s: float) -> None:
        """Continue from what `save` returned `elapsed_s` seconds ago.

        Raises
        ------
        InvalidState
            If the state is damaged, or cannot be of a node of this size; nothing has changed then.
        """
        cpu, memory, peaks, reads = _parts(self._variant)
        disk = Disk(self._variant.disk_s)
        most_cores, most_gib = (MOST_TIMES * size for size in self._size)
        cpu.restore(checked_mapping(state, "cpu"), most_cores)
        memory.restore(checked_mapping(state, "memory"), most_gib)
        peaks.restore(checked_mapping(state, "peaks"), self._observed_at, most_gib)
        if "reads" in state:  # an earlier version saves nothing about disks
            reads.restore(checked_mapping(state, "reads"), MOST_LEARNED_READS)
            disk.restore(checked_mapping(state, "disk"))
        check_saved_workloads({*cpu.workloads, *memory.workloads, *peaks.workloads, *reads.workloads} - {CHURN})
        for regression in (cpu, memory, reads):
            regression.advance(elapsed_s)
        self._cpu, self._memory, self._peaks, self._reads, self._disk = cpu, memory, peaks, reads, disk

    def _may_be_settling(self, workload: str, age_s: float) -> bool:
        """Whether pods whose eldest is of this age may still be getting their initial memory, as far as is known."""
        return age_s < self._variant.settling_s or (not self._peaks.was_read(workload) and self._has_read(workload))

    def _has_read(self, workload: str) -> bool:
        """Whether any running pod of a workload was read; where some pods can be read, others need not be readable."""
        if not self._counters:
            return False
        running = self._pods.running
        return any(running.get(uid) == workload for uid in self._counters)

    def _is_measured(self, workload: str, at: float) -> bool:
        measured_at = self._measured_at.get(workload, -math.inf)
        return at - measured_at <= _MEASURED_FOR * self._variant.pods_s

    def _decay_stops(self, elapsed_s: float) -> None:
        kept = math.exp(-elapsed_s / self._variant.stops_s)
        for workload in list(self._stops):
            self._stops[workload] *= kept
            if self._stops[workload] < 1e-3:
                del self._stops[workload]


def _mean(pods: Sequence[PodUse]) -> PodUse:
    return PodUse(*(math.fsum(column) / len(pods) for column in zip(*pods, strict=True)))


def _parts(variant: DemandVariant) -> tuple[Regression, Regression, Peaks, Regression]:
    """Return what learns cores, what learns memory, what learns peaks of memory, and what learns reads."""
    cpu = Estimate(variant.first_cores, variant.first_doubt_cores**2)
    memory = Estimate(variant.first_gib, variant.first_doubt_gib**2)
    reads = Estimate(0.0, variant.first_doubt_reads**2)
    return (
        Regression(cpu, variant.noise_cores, variant.drift_cores, variant.fade_s),
        Regression(memory, variant.noise_gib, variant.drift_gib, variant.fade_s),
        Peaks(memory, variant.growing_doubt, variant.growth_s, variant.peak_s),
        Regression(reads, variant.noise_reads, variant.drift_reads, variant.fade_s),
    )
