"""The nodes of the simulated cluster: tasks that use CPU and memory, and the counters the kernel would show.

All nodes advance together by one tick in numpy. A task is a pod's container, a burst of the container runtime, or the
platform's background load. The fleet knows no API objects; whoever started a task is told how it ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, IntArray
from carico.telemetry.counters import Counters
from testbed.simulation.nodes.cpu import cgroup_weight, share_cpu, some_pressure, throttled_pressure
from testbed.simulation.nodes.hypervisor import Hypervisor
from testbed.simulation.parameters import SimulationParameters
from workloads.demand import Demand

JIFFIES_PER_S = 100
CACHE_SHARE = 0.2
"""Share of an idle node's memory that the page cache holds; it gives way to pods."""
NOTHING_S = 1e-9
"""CPU-seconds that are rounding errors: a task with no more left is over, or it would hold its CPU a tick longer."""

Ended = Callable[[float, str], None]
"""Called with the time and "done", "oom_killed", or "lost" with its node, when a task ends."""


@dataclass(frozen=True)
class ContainerWeights:
    """What decides a container's share of CPU and its fate when memory runs out."""

    cpu_weight: float
    """cgroup v2 weight of the pod."""
    oom_score_adj: float
    """The kubelet's oom_score_adj, -1000 to 1000; higher is killed earlier."""


@dataclass(frozen=True, eq=False)
class Contention:
    """What tasks met on their nodes in the last tick, an element each."""

    cores: FloatArray
    runnable: FloatArray
    """Threads of others that ran or wanted to."""
    weighed: FloatArray
    """The same, every pod's by its weight relative to the task's own; what is no pod counts as it is."""
    stretch: FloatArray
    """How much longer their work took than on a free CPU of speed 1."""


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
    boot_s : float
        The time that the counters count from.
    speed : float or array_like
        Work that every node does in a CPU-second.
    """

    def __init__(
        self,
        nodes: int,
        cores: ArrayLike,
        memory_bytes: ArrayLike,
        parameters: SimulationParameters,
        rng: np.random.Generator,
        boot_s: float = 0.0,
        speed: ArrayLike = 1.0,
    ) -> None:
        self.nodes = nodes
        self.cores: FloatArray = np.broadcast_to(np.asarray(cores, dtype=np.float64), nodes)
        self.memory_bytes: FloatArray = np.broadcast_to(np.asarray(memory_bytes, dtype=np.float64), nodes)
        system = parameters.system_weight
        kubepods = np.array([cgroup_weight(round(1000 * count)) for count in self.cores])
        self._guaranteed: FloatArray = self.cores * system / (system + kubepods)
        """Cores that system.slice gets at least."""
        self._parameters = parameters
        self._rng = rng
        self.now = self._boot_s = boot_s
        differs = rng.normal(1.0, parameters.node_speed_variation, nodes) if parameters.node_speed_variation else 1.0
        self._speed: FloatArray = np.broadcast_to(np.asarray(speed) * np.clip(differs, 0.2, 5.0), nodes)
        self._busy_s: FloatArray = np.zeros(nodes)
        self._pressure_s: FloatArray = np.zeros(nodes)
        self._containers: IntArray = np.zeros(nodes, dtype=np.int64)
        self._up: FloatArray = np.ones(nodes)
        self._hypervisor = Hypervisor(self.cores, self._speed, parameters, rng)
        self._memory: FloatArray = parameters.background_memory * self.memory_bytes
        self._memory_noise: FloatArray = np.zeros(nodes)
        """What is read beside that, more or less; it kills nobody."""
        self._tasks = _Tasks(64)
        self._ended: dict[int, Ended] = {}
        self._free: list[int] = []
        self._used = 0
        self._active_changed = True
        self._active: IntArray = np.zeros(0, dtype=np.int64)
        self._last_tick: _Tick | None = None
        self._background = [
            self._add(node, math.inf, parameters.background_cores, system=True) for node in range(nodes)
        ]

    # ── tasks ──

    def run_container(self, node: int, demand: Demand, work: float, weights: ContainerWeights, ended: Ended) -> int:
        """Start a pod's container on `node` now and return its handle; `ended` is called when it is over."""
        tasks = self._tasks
        task = self._add(node, work, demand.phases[0].threads, system=False)
        self._containers[node] += 1
        tasks.weight[task] = weights.cpu_weight
        tasks.loss[task] = demand.contention_loss
        tasks.oom_adj[task] = weights.oom_score_adj
        last = demand.phases[-1]
        cycle = work / demand.cycles if math.isfinite(work) else math.inf
        tasks.phase_threads[task] = (demand.phases[0].threads, last.threads)
        tasks.phase_work[task] = (cycle * demand.phases[0].share, cycle * last.share)
        tasks.phase_left[task] = tasks.phase_work[task, 0] if len(demand.phases) == 2 else math.inf
        tasks.memory_peak[task] = demand.memory_bytes
        ramp = demand.memory_ramp * work if math.isfinite(work) else 0.0
        tasks.memory_start[task] = demand.initial_memory_bytes if ramp else demand.memory_bytes
        tasks.memory_ramp[task] = ramp or 1.0
        self._ended[task] = ended
        return task

    def run_burst(self, node: int, cpu_s: float, ended: Ended | None = None) -> None:
        """Let the container runtime of `node` spend `cpu_s` on one core, in competition with everything else."""
        task = self._add(node, cpu_s, 1.0, system=True)
        if ended is not None:
            self._ended[task] = ended

    def stop(self, task: int) -> None:
        """End a container from outside; nobody is told."""
        self._ended.pop(task, None)
        self._remove(task)

    # ── nodes ──

    def stop_node(self, node: int) -> None:
        """Switch a node off: its tasks are lost."""
        self._up[node] = False
        tasks = self._tasks
        here = np.flatnonzero(tasks.alive[: self._used] & (tasks.node[: self._used] == node))
        for task in here.tolist():
            if task != self._background[node]:
                self._end(task, self.now, "lost")

    def start_node(self, node: int) -> None:
        """Switch a node on."""
        self._up[node] = True

    # ── time ──

    def advance(self, until: float) -> None:
        """Let all nodes run until `until`, seconds; then tell who waits for a task that ended on the way."""
        dt = until - self.now
        if dt <= 0:
            return
        parameters, tasks = self._parameters, self._tasks
        load = parameters.background_cores + parameters.background_cores_per_pod * self._containers
        if parameters.background_variation:
            variance = parameters.background_variation**2
            load = load * self._rng.gamma(1.0 / variance, variance, self.nodes)
        tasks.threads[self._background] = load * self._up
        if parameters.background_memory_variation:
            spread = parameters.background_memory_variation * parameters.background_memory
            self._memory_noise = self.memory_bytes * self._rng.normal(0.0, spread, self.nodes)
        self._hypervisor.advance(dt)
        if self._active_changed:
            self._active = np.flatnonzero(tasks.alive[: self._used])
            self._active_changed = False
        active = self._active
        node, threads, system = tasks.node[active], tasks.threads[active], tasks.system[active]
        weight = tasks.weight[active]
        rate = self._rates(node, threads, system, weight)
        self._last_tick = _Tick(active, node, threads, system, weight, rate)
        runnable = self._per_node(node, threads)
        pressure = self._pressure(runnable)
        self._pressure_s += pressure * dt

        lost = np.maximum(tasks.loss[active], parameters.contention_loss) * pressure[node]
        useful = self._hypervisor.speed[node] * (1.0 - lost)
        progress = rate * useful * dt
        before = tasks.left[active]
        tasks.left[active] = before - progress
        tasks.done[active] += progress
        tasks.phase_left[active] -= progress
        used_s = self._per_node(node, rate) * dt
        usable_s = self._hypervisor.cores * dt
        used_s += self._switch_phases(active, node, useful, usable_s - used_s)
        # A CPU that is stolen from whoever runs on it is not idle; who is not there to run loses nothing.
        stolen_s = np.minimum(runnable, self.cores) * dt - np.minimum(runnable * dt, usable_s)
        self._busy_s += used_s + stolen_s
        self._update_memory(active, node)
        over = tasks.left[active] <= NOTHING_S
        start, self.now = self.now, until
        if over.any():
            finished = active[over]
            at = start + dt * before[over] / (before[over] - tasks.left[finished])
            for task, time in sorted(zip(finished.tolist(), at.tolist(), strict=True), key=lambda pair: pair[::-1]):
                self._end(task, time, "done")
        if (self._memory > self.memory_bytes).any():
            self._kill_for_memory()

    def contention(self, tasks: IntArray) -> Contention:
        """What tasks of pods met on their nodes in the last tick, even if they came at its end.

        Raises
        ------
        ValueError
            If there has been no tick yet.
        """
        tick = self._last_tick
        if tick is None:
            raise ValueError("no tick has passed yet: advance first")
        node, weight = self._tasks.node[tasks], self._tasks.weight[tasks]
        place = np.full(self._tasks.node.size, -1)
        place[tick.task] = np.arange(tick.task.size)
        there = place[tasks] >= 0
        threads = np.where(there, tick.threads[place[tasks]], 0.0)
        granted = np.where(there, tick.rate[place[tasks]] / np.maximum(threads, NOTHING_S), 1.0)
        of_pods = self._per_node(tick.node, np.where(tick.system, 0.0, tick.threads * tick.weight))
        of_system = self._per_node(tick.node, np.where(tick.system, tick.threads, 0.0))
        return Contention(
            cores=self._hypervisor.cores[node],
            runnable=np.maximum(self._per_node(tick.node, tick.threads)[node] - threads, 0.0),
            weighed=np.maximum(of_pods[node] / weight - threads, 0.0) + of_system[node],
            stretch=1.0 / np.maximum(granted * self._hypervisor.speed[node], NOTHING_S),
        )

    def counters(self) -> Counters:
        """What the nodes' /proc would say now: cumulative, in the kernel's own grain."""
        total_s = self.cores * (self.now - self._boot_s)
        used = np.clip(self._memory + self._memory_noise, 0.0, self.memory_bytes)
        cached = np.minimum(CACHE_SHARE * self.memory_bytes, self.memory_bytes - used)
        return Counters(
            at_s=self.now,
            cpu_total=np.floor(total_s * JIFFIES_PER_S + 0.5),
            cpu_idle=np.floor((total_s - self._busy_s) * JIFFIES_PER_S + 0.5),
            cpu_pressure_us=np.floor(self._pressure_s * 1e6),
            memory_total=self.memory_bytes.copy(),
            memory_free=self.memory_bytes - used - cached,
            memory_buffers=np.zeros(self.nodes),
            memory_cached=cached,
        )

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

    def _per_node(self, node: IntArray, amounts: FloatArray) -> FloatArray:
        """Sum of what the tasks of every node have."""
        return np.bincount(node, amounts, self.nodes).astype(np.float64, copy=False)

    def _switch_phases(self, active: IntArray, node: IntArray, useful: FloatArray, spare_s: FloatArray) -> FloatArray:
        """Begin the next phase where one ended in this tick.

        What was done since then was done by as many threads as the new phase has: more than was reckoned where the node
        has CPU to spare, or less. Returned is the CPU time that makes, per node.
        """
        tasks = self._tasks
        more_s = np.zeros(self.nodes)
        places = np.flatnonzero(tasks.phase_left[active] <= 0.0)
        while places.size:
            rows, where = active[places], node[places]
            threads_before = tasks.threads[rows]
            tasks.phase[rows] = phase = 1 - tasks.phase[rows]
            tasks.threads[rows] = threads = tasks.phase_threads[rows, phase]
            since = np.maximum(-tasks.phase_left[rows], 0.0)
            more = since * (threads / threads_before - 1.0)
            worth = np.maximum(useful[places], NOTHING_S)
            wanted_s = self._per_node(where, np.maximum(more, 0.0) / worth)
            granted = np.clip((spare_s - more_s) / np.maximum(wanted_s, NOTHING_S), 0.0, 1.0)
            more = np.where(more > 0, more * granted[where], more)
            more_s += self._per_node(where, more / worth)
            tasks.left[rows] -= more
            tasks.done[rows] += more
            tasks.phase_left[rows] = tasks.phase_work[rows, phase] - since - more
            places = places[(tasks.phase_left[rows] <= 0.0) & (tasks.left[rows] > NOTHING_S)]
        return more_s

    def _update_memory(self, active: IntArray, node: IntArray) -> None:
        tasks = self._tasks
        peak, start = tasks.memory_peak[active], tasks.memory_start[active]
        grown = np.minimum(tasks.done[active] / tasks.memory_ramp[active], 1.0)
        resident = start + (peak - start) * grown
        tasks.resident[active] = resident
        base = self._parameters.background_memory * self.memory_bytes
        self._memory = base + self._per_node(node, resident)

    def _kill_for_memory(self) -> None:
        """The kernel's OOM killer: the container with the highest badness goes until the rest fits."""
        tasks, used = self._tasks, self._used
        for node in np.flatnonzero(self._memory > self.memory_bytes).tolist():
            while self._memory[node] > self.memory_bytes[node]:
                alive = tasks.alive[:used] & (tasks.node[:used] == node) & ~tasks.system[:used]
                victims = np.flatnonzero(alive)
                if not victims.size:
                    break
                badness = 1000.0 * tasks.resident[victims] / self.memory_bytes[node] + tasks.oom_adj[victims]
                victim = int(victims[np.argmax(badness)])
                self._end(victim, self.now, "oom_killed")

    def _end(self, task: int, at: float, how: str) -> None:
        ended = self._ended.pop(task, None)
        self._remove(task)
        if ended is not None:
            ended(at, how)

    def _add(self, node: int, work: float, threads: float, *, system: bool) -> int:
        tasks = self._tasks
        if self._free:
            task = self._free.pop()
        else:
            if self._used == tasks.node.size:
                tasks.grow()
            task = self._used
            self._used += 1
        tasks.clear(task)
        tasks.node[task] = node
        tasks.system[task] = system
        tasks.alive[task] = True
        tasks.left[task] = work
        tasks.threads[task] = threads
        tasks.weight[task] = 1.0
        tasks.phase_left[task] = math.inf
        tasks.memory_ramp[task] = 1.0
        self._active_changed = True
        return task

    def _remove(self, task: int) -> None:
        tasks = self._tasks
        node = tasks.node[task]
        tasks.alive[task] = False
        self._containers[node] -= not tasks.system[task]
        self._memory[node] -= tasks.resident[task]
        tasks.resident[task] = 0.0
        self._free.append(task)
        self._active_changed = True


@dataclass(frozen=True, eq=False)
class _Tick:
    """The tasks that were there in a tick, what they wanted and what they got."""

    task: IntArray
    node: IntArray
    threads: FloatArray
    system: BoolArray
    weight: FloatArray
    rate: FloatArray


class _Tasks:
    """The tasks in columns; a row is used again when its task is over."""

    def __init__(self, rows: int) -> None:
        self.node: IntArray = np.zeros(rows, dtype=np.int64)
        self.system: BoolArray = np.zeros(rows, dtype=np.bool_)
        """Whether it is no pod's container: what system.slice holds."""
        self.alive: BoolArray = np.zeros(rows, dtype=np.bool_)
        self.left: FloatArray = np.zeros(rows)
        self.done: FloatArray = np.zeros(rows)
        """CPU-seconds to go and behind."""
        self.threads: FloatArray = np.zeros(rows)
        self.weight: FloatArray = np.zeros(rows)
        self.loss: FloatArray = np.zeros(rows)
        """Share of its CPU that is lost at full pressure."""
        self.phase: IntArray = np.zeros(rows, dtype=np.int64)
        self.phase_left: FloatArray = np.zeros(rows)
        self.phase_threads: FloatArray = np.zeros((rows, 2))
        self.phase_work: FloatArray = np.zeros((rows, 2))
        self.memory_peak: FloatArray = np.zeros(rows)
        self.memory_start: FloatArray = np.zeros(rows)
        self.memory_ramp: FloatArray = np.zeros(rows)
        """CPU-seconds until the memory has grown from one to the other."""
        self.resident: FloatArray = np.zeros(rows)
        self.oom_adj: FloatArray = np.zeros(rows)

    def clear(self, row: int) -> None:
        """Forget the task that was in a row."""
        for column in vars(self).values():
            column[row] = 0

    def grow(self) -> None:
        """Make room for twice as many."""
        for name, column in list(vars(self).items()):
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
