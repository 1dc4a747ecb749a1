"""The agent of the variant `demand`: learns and reports what its node and the pods of each workload demand.

It contains no rule of the algorithm. Telemetry and pod events go into `NodeDemand`. Reports are sent once a second,
immediately when a pod starts or stops, and when the demand has changed, because a scheduler that fills nodes to a level
acts on each of these. Schedulers answer with the workloads of pods, which they know from the Kubernetes API; until then
the workload is derived from the pod's name.

An agent that ends withdraws its offer: its last report holds no demand, and a Pod-Capacity of 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from carico.agent.loop import AgentLoop, Mailbox
from carico.clock import Clock
from carico.demand.filling import level
from carico.demand.node import NodeDemand
from carico.demand.report import DemandReport
from carico.demand.settings import DemandVariant
from carico.demand.workload import workload_named
from carico.podevents.source import PodChange, PodEventSource
from carico.scheduling.report import ReportReply
from carico.telemetry.counters import PodCounters, cpu_left, disk_use_between
from carico.telemetry.sampler import Batch, Sampler

REPORT_PERIOD_S = 1.0
SAMPLE_PERIOD_S = 0.1
SIZE_EVERY_S = 10.0
"""How often the number of CPUs is read, which costs more than a sample and hardly ever changes."""
GIB = 2.0**30


class DemandAgent(AgentLoop):
    """One node's agent.

    Parameters
    ----------
    node, sampler, pods, clock, reports, checkpoints, unix_time
        See `AgentLoop`; every pod must have a name.
    cpus : callable
        Returns how many CPUs the node has now.
    memory_bytes : float
        The node's memory, until telemetry gives it.
    variant : DemandVariant
    read_pods : callable, optional
        Returns the counters of those of the pods with these UIDs that can be read. By default none can.
    max_pods : int, optional
        The kubelet's limit.

    Attributes
    ----------
    model : NodeDemand
        What the agent has learned of its node; may be restored before `run`.
    latest : DemandReport or None
        The latest report.
    """

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        pods: PodEventSource,
        clock: Clock,
        *,
        cpus: Callable[[], float],
        memory_bytes: float,
        variant: DemandVariant,
        read_pods: Callable[[Collection[str]], Mapping[str, PodCounters]] = lambda uids: {},
        reports: Sequence[Mailbox] = (),
        checkpoints: Mailbox | None = None,
        max_pods: int = 110,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            node,
            sampler,
            pods,
            clock,
            batch_size=max(round(1 / (variant.steps_per_s * SAMPLE_PERIOD_S)), 1),
            reports=reports,
            checkpoints=checkpoints,
            unix_time=unix_time,
        )
        self._cpus = cpus
        self._variant = variant
        self._read_pods = read_pods
        self._max_pods = max_pods
        self._cores, self._sized_at = cpus(), clock.now()
        self.model = NodeDemand(node, self._cores, memory_bytes / GIB, variant, clock.now())
        self._lock = threading.Lock()
        """Guards the model and the reports: pod events come from another thread."""
        self._answers = [0] * len(reports)
        """How many answers of each scheduler were taken in."""
        self._workloads: Mapping[str, str] = {}
        """The workloads of pods by UID, from the schedulers' latest answers."""
        self._reported_at = -np.inf
        self.latest: DemandReport | None = None

    def begin(self) -> None:
        """See `AgentLoop`."""
        self._listed = False
        self.pods.start(self._pod_changed)
        self._listed = True

    def take_in(self, batch: Batch) -> None:
        """See `AgentLoop`."""
        pods = self._pods_read()
        with self._lock:
            self._hear()
            now = self.clock.now()
            if pods is not None:
                self.model.observe_pods(pods, now)
            if batch.samples is None:
                self.model.skip(now)
            else:
                whole = batch.whole
                gib = float(batch.readings[-1].memory_total) / GIB
                if now - self._sized_at >= SIZE_EVERY_S:
                    self._cores, self._sized_at = self._cpus(), now
                self.model.resize(self._cores, gib)
                self.model.observe(
                    self._cores * (float(whole.cpu_utilisation) + float(whole.cpu_pressure)),
                    gib * float(np.mean(batch.samples.memory_utilisation)),
                    float(whole.at_s),
                    disk_use_between(batch.readings[0], batch.readings[-1]),
                    float(cpu_left(whole)),
                )
            if self._due(now):
                self._report(now)

    def end(self) -> None:
        """See `AgentLoop`."""
        with self._lock:
            self.send(0.0, 0 if self.latest is None else len(self.latest.counted))

    def state(self) -> Mapping[str, Any]:
        """See `AgentLoop`."""
        with self._lock:
            return {**self.model.save(), "at_unix_s": self.unix_time()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `AgentLoop`; an older state is doubted more."""
        saved_at = state.get("at_unix_s")
        elapsed_s = self.unix_time() - saved_at if isinstance(saved_at, float) else np.inf
        self.model.restore(state, max(elapsed_s, 0.0))

    def gauges(self) -> Mapping[str, tuple[str, float]]:
        """See `AgentLoop`."""
        report = self.latest
        if report is None:
            return {}
        return {
            "demand_cores": (
                "Threads that run or wait for a CPU, according to the model",
                report.demand_cores.mean,
            ),
            "demand_doubt_cores": ("Standard deviation of demand_cores", report.demand_cores.variance**0.5),
            **(
                {}
                if report.disk is None
                else {
                    "disk_reads": ("Reads from disks under way, according to the model", report.disk.reads),
                    "disk_reads_level": ("Reads that disks serve without slowing each other down", report.disk.level),
                }
            ),
            "held_gib": ("Memory in use, GiB", report.held_gib),
            "pods": ("Running pods", len(report.counted)),
            "pod_capacity": (
                "Pods that fit on top if they are like the running ones, as reported",
                self._capacity(report),
            ),
        }

    def _pod_changed(self, change: PodChange) -> None:
        with self._lock:
            if change.change > 0:
                workload = self._workloads.get(change.uid) or workload_named(change.pod)
                if self._listed:
                    self.model.pod_started(change.uid, workload, change.at)
                else:
                    self.model.pod_found(change.uid, workload)
            else:
                self.model.pod_stopped(change.uid, change.at)
            if self._listed:
                self.pod_events += 1
                self._report(self.clock.now())

    def _pods_read(self) -> Mapping[str, PodCounters] | None:
        """Read pods if it is time to; pod events need not wait meanwhile."""
        with self._lock:
            uids = self.model.pods_to_read(self.clock.now())
        return self._read_pods(uids) if uids else None

    def _hear(self) -> None:
        """Take in the schedulers' answers."""
        told: dict[str, str] = {}
        for number, mailbox in enumerate(self.reports):
            reply = mailbox.latest()
            if isinstance(reply, ReportReply):
                told |= reply.workloads
                if mailbox.succeeded != self._answers[number]:
                    self._answers[number] = mailbox.succeeded
                    for uid, workload in reply.workloads.items():
                        self.model.pod_identified(uid, workload)
        self._workloads = told

    def _due(self, now: float) -> bool:
        if now - self._reported_at > REPORT_PERIOD_S - SAMPLE_PERIOD_S / 2 or self.latest is None:
            return True
        demand = self.model.demand().mean
        return abs(demand - self.latest.demand_cores.mean) >= self._variant.report_change or (
            abs(self.model.held_gib - self.latest.held_gib) >= self._variant.report_change
        )

    def _report(self, now: float) -> None:
        self.latest = report = self.model.report(now)
        self._reported_at = now
        self.send(self._capacity(report), len(report.counted), report)

    def _capacity(self, report: DemandReport) -> float:
        """How many more pods fit if they cost as much as the running ones: for people, and for older schedulers."""
        variant = self._variant
        running = [each for each in report.workloads.values() if each.pods]
        pods = sum(each.pods for each in running)
        cores = sum(each.pods * each.cores.mean for each in running)
        gib = sum(each.pods * each.gib.mean for each in running)
        a_pod = (cores / pods, gib / pods) if pods else (variant.first_cores, variant.first_gib)
        full = float(level(variant, np.array(report.cores), a_pod[0], share=False))
        room = (
            full - report.demand_cores.mean,
            variant.memory_limit * report.gib - max(report.held_gib, report.baseline_gib + gib),
        )
        fit = min(max(free, 0.0) / max(need, 1e-3) for free, need in zip(room, a_pod, strict=True))
        return min(fit, float(max(self._max_pods - pods, 0)))
