"""The nodes of the simulated cluster: how their tasks progress, tick by tick, on the CPUs that the nodes have.

All nodes advance together by one tick in numpy. The fleet knows no API objects; whoever started a task is told how the
task ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.telemetry.counters import Counters, PodCounters
from testbed.simulation.nodes.contention import Contention, Tick
from testbed.simulation.nodes.counters import KernelCounters
from testbed.simulation.nodes.cpu import cgroup_weight, share_cpu, some_pressure, throttled_pressure
from testbed.simulation.nodes.disks import Disks
from testbed.simulation.nodes.hypervisor import Hypervisor
from testbed.simulation.nodes.memory import NodeMemory
from testbed.simulation.nodes.phases import switch_phases
from testbed.simulation.nodes.shared_host import work_per_cpu_second
from testbed.simulation.nodes.tasks import NOTHING_S, ContainerWeights, Ended, Tasks, per_node
from testbed.simulation.parameters import SimulationParameters
from workloads.demand import Demand
from workloads.scenario import DiskKind


class NodeFleet:
    """CPU, memory and counters of all nodes.

    Parameters
    ----------
    nodes : int
    cores : float or array_like
        CPUs of every node.
    memory_bytes : float or array_like
        Memory of every node.
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the fluctuation of the background load.
    agent_cores : float
        CPU that CARICO's agent uses on every node.
    boot_s : float
        The time from which the counters count.
    speed : float or array_like
        Work that every node does in a CPU-second.
    disks : sequence, optional
        The kind of every node's disk; by default no node has one.
    """

    def __init__(
        self,
        nodes: int,
        cores: ArrayLike,
        memory_bytes: ArrayLike,
        parameters: SimulationParameters,
        *,
        rng: np.random.Generator,
        agent_cores: float = 0.0,
        boot_s: float = 0.0,
        speed: ArrayLike = 1.0,
        disks: Sequence[DiskKind | None] = (),
    ) -> None:
        self.nodes = nodes
        self.cores: FloatArray = np.broadcast_to(np.asarray(cores, dtype=np.float64), nodes)
        self.memory_bytes: FloatArray = np.broadcast_to(np.asarray(memory_bytes, dtype=np.float64), nodes)
        system = parameters.system_weight
        kubepods = np.array([cgroup_weight(round(1000 * count)) for count in self.cores])
        self._guaranteed: FloatArray = self.cores * system / (system + kubepods)
        """Cores that system.slice gets at least."""
        self._parameters = parameters
        self._background_cores = parameters.background_cores + agent_cores
        self._rng = rng
        self.now = boot_s
        differs = rng.normal(1.0, parameters.node_speed_variation, nodes) if parameters.node_speed_variation else 1.0
        mean_speed: FloatArray = np.broadcast_to(np.asarray(speed) * np.clip(differs, 0.2, 5.0), nodes)
        self._hypervisor = Hypervisor(self.cores, mean_speed, parameters, rng)
        self._memory = NodeMemory(self.memory_bytes, parameters, rng)
        self._counters = KernelCounters(self.cores, boot_s)
        self._disks = Disks(disks) if any(disks) else None
        self._up: FloatArray = np.ones(nodes)
        self._tasks = Tasks(nodes)
        self._last_tick: Tick | None = None
        self._background = [
            self._tasks.add(node, math.inf, self._background_cores, system=True) for node in range(nodes)
        ]

    # ── tasks ──

    def run_container(self, node: int, demand: Demand, work: float, weights: ContainerWeights, ended: Ended) -> int:
        """Start a pod's container on `node` now and return its task; `ended` is called when the task is over."""
        task = self._tasks.add_container(node, demand, work, weights=weights, ended=ended)
        if self._disks is not None:
            self._disks.begin(self._tasks, task)
        return task

    def run_burst(self, node: int, cpu_s: float, ended: Ended | None = None) -> None:
        """Let the container runtime of `node` spend `cpu_s`, in competition with everything else."""
        self._tasks.add(node, cpu_s, float(self._parameters.burst_processes), ended, system=True)

    def stop(self, task: int) -> None:
        """End a container from outside; its `ended` is not called."""
        self._remove(task)

    # ── nodes ──

    def stop_node(self, node: int) -> None:
        """Switch a node off: its tasks are lost."""
        self._up[node] = False
        for task in self._tasks.of_node(node).tolist():
            if task != self._background[node]:
                self._end(task, self.now, "lost")

    def start_node(self, node: int) -> None:
        """Switch a node on."""
        self._up[node] = True

    # ── time ──

    def advance(self, until: float) -> None:
        """Let all nodes run until `until`, seconds; then call `ended` of the tasks that ended on the way."""
        dt = until - self.now
        if dt <= 0:
            return
        parameters, tasks, counters = self._parameters, self._tasks, self._counters
        load = self._background_cores + parameters.background_cores_per_pod * tasks.containers
        if parameters.background_variation:
            variance = parameters.background_variation**2
            load = load * self._rng.gamma(1.0 / variance, variance, self.nodes)
        tasks.threads[self._background] = load * self._up
        self._memory.fluctuate()
        self._hypervisor.advance(dt)
        cores, speed = self._hypervisor.cores, self._hypervisor.speed
        active = tasks.active
        node, threads, system = tasks.node[active], tasks.threads[active], tasks.system[active]
        if self._disks is not None:
            threads = threads * (1.0 - tasks.reading[active])
        weight = tasks.weight[active]
        rate = self._rates(node, threads, system, weight)
        self._last_tick = Tick(
            task=active, node=node, threads=threads, system=system, weight=weight, rate=rate, cores=cores, speed=speed
        )
        runnable = per_node(node, threads, self.nodes)
        pressure = self._pressure(runnable)

        lost = np.maximum(tasks.loss[active], parameters.contention_loss) * pressure[node]
        useful = speed[node] * (1.0 - lost)
        if parameters.host_limit < 1.0:
            useful = useful * work_per_cpu_second(rate, threads, system, parameters.host_limit * float(cores.sum()))
        if self._disks is not None:
            self._disks.advance(tasks, active, node, threads, rate * useful, dt)
        progress = rate * useful * dt
        before = tasks.left[active]
        tasks.left[active] = before - progress
        tasks.done[active] += progress
        tasks.phase_left[active] -= progress
        # The share of the tick in which a task runs: from its end on it uses no CPU and waits for none.
        runs = np.divide(before, progress, out=np.ones_like(before), where=progress > before)
        counters.pressure_s += self._pressure_until_ends(pressure, node, threads, runs) * dt
        tasks.used[active] += rate * runs * dt
        tasks.waited[active] += np.minimum(np.maximum(threads - rate, 0.0), 1.0) * runs * dt
        used_s = per_node(node, rate * runs, self.nodes) * dt
        usable_s = cores * dt
        used_s += switch_phases(tasks, active, node, useful=useful, spare_s=usable_s - used_s)
        # A CPU that is stolen from a running thread is not idle; nothing is stolen from a CPU without a thread.
        stolen_s = np.minimum(runnable, self.cores) * dt - np.minimum(runnable * dt, usable_s)
        counters.busy_s += used_s + stolen_s
        counters.stolen_s += stolen_s
        self._memory.update(tasks, active, node)
        over = tasks.left[active] <= NOTHING_S
        start, self.now = self.now, until
        if over.any():
            finished = active[over]
            at = start + dt * before[over] / (before[over] - tasks.left[finished])
            for task, time in sorted(zip(finished.tolist(), at.tolist(), strict=True), key=lambda pair: pair[::-1]):
                self._end(task, time, "done")
        for exhausted in self._memory.exhausted.tolist():
            while (victim := self._memory.victim(tasks, exhausted)) is not None:
                self._end(victim, self.now, "oom_killed")

    # ── what can be seen ──

    def counters(self) -> Counters:
        """Return what the nodes' /proc shows now: cumulative, in the kernel's own units."""
        return self._counters.read(self.now, self._memory, self._disks)

    def container_counters(self, task: int) -> PodCounters:
        """Return what the control group of a container shows now."""
        tasks = self._tasks
        gib = float(tasks.resident[task]) / 2.0**30
        return PodCounters(self.now, float(tasks.used[task]), float(tasks.waited[task]), gib)

    def contention(self, tasks: IntArray) -> Contention:
        """Return what containers met on their nodes in the last tick, even if they were started after it.

        Raises
        ------
        ValueError
            If there has been no tick yet.
        """
        if self._last_tick is None:
            raise ValueError("no tick has passed yet: advance first")
        return self._last_tick.contention(self._tasks, tasks)

    # ── inside ──

    def _rates(self, node: IntArray, threads: FloatArray, system: BoolArray, weight: FloatArray) -> FloatArray:
        """CPU of every task: system.slice and kubepods share a node first, then the tasks of each."""
        group = 2 * node + system
        wanted = np.bincount(group, threads, 2 * self.nodes).reshape(-1, 2)
        pods, daemons = wanted[:, 0], wanted[:, 1]
        cores = self._hypervisor.cores
        for_system = np.minimum(daemons, np.maximum(self._guaranteed * (cores / self.cores), cores - pods))
        capacity = np.stack([cores - for_system, for_system], axis=1).reshape(-1)
        return share_cpu(threads, weight, group, capacity)

    def _pressure(self, runnable: FloatArray) -> FloatArray:
        parameters = self._parameters
        if parameters.quota_of_cpus:
            return throttled_pressure(runnable, self.cores, parameters.quota_of_cpus, parameters.pressure)
        return some_pressure(runnable, self.cores, parameters.pressure)

    def _pressure_until_ends(
        self, pressure: FloatArray, node: IntArray, threads: FloatArray, runs: FloatArray
    ) -> FloatArray:
        """Mean pressure of the tick: all tasks count until the last end within it, and then only those that go on."""
        ends = runs < 1.0
        if not ends.any():
            return pressure
        until = np.where(np.bincount(node[ends], minlength=self.nodes) > 0, 0.0, 1.0)
        np.maximum.at(until, node[ends], runs[ends])
        after = self._pressure(per_node(node, np.where(ends, 0.0, threads), self.nodes))
        mean: FloatArray = until * pressure + (1.0 - until) * after
        return mean

    def _end(self, task: int, at: float, how: str) -> None:
        if (ended := self._remove(task)) is not None:
            ended(at, how)

    def _remove(self, task: int) -> Ended | None:
        self._memory.release(self._tasks, task)
        return self._tasks.remove(task)
