"""Kubelets and container runtimes: from a bound pod to a finished one, with the delays and bursts on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import simpy

from carico.arrays import BoolArray, IntArray
from carico.telemetry.counters import PodCounters
from testbed.simulation.control_plane.api import ApiServer, Pod, Process, RateLimiter
from testbed.simulation.nodes.cpu import cgroup_weight
from testbed.simulation.nodes.fleet import NodeFleet
from testbed.simulation.nodes.servers import Servers
from testbed.simulation.nodes.tasks import ContainerWeights
from testbed.simulation.parameters import SimulationParameters

PodEvent = Callable[[Pod, int, float], None]
"""Called with a pod, change (+1 or -1) and time when containerd creates or loses the pod's container."""

OUTCOMES = {"done": "succeeded", "oom_killed": "oom_killed", "lost": "failed"}
"""The outcome of a pod, by how its container ended."""


class Kubelets:
    """The kubelets of all nodes.

    Parameters
    ----------
    env : simpy.Environment
    api : ApiServer
        Bound pods come from it, and their status goes to it.
    fleet : NodeFleet
        Where containers run.
    parameters : SimulationParameters
    rng : numpy.random.Generator
        For the delays.
    pod_event : callable
        Called with container events at once, as a subscriber to containerd's events hears of them.
    servers : Servers
        Told which containers serve.
    """

    def __init__(
        self,
        env: simpy.Environment,
        api: ApiServer,
        fleet: NodeFleet,
        parameters: SimulationParameters,
        *,
        rng: np.random.Generator,
        pod_event: PodEvent,
        servers: Servers,
    ) -> None:
        self._env = env
        self._api = api
        self._fleet = fleet
        self._parameters = parameters
        self._rng = rng
        self._pod_event = pod_event
        self._servers = servers
        self._starts = [RateLimiter(env, parameters.starts_per_s) for _ in range(fleet.nodes)]
        self.running: IntArray = np.zeros(fleet.nodes, dtype=np.int64)
        """Running pods per node: the truth, for the measurements."""
        self.up: BoolArray = np.ones(fleet.nodes, dtype=np.bool_)
        """Nodes that are up; on others no pod starts, and the API hears nothing from them."""
        self._tasks: dict[str, int] = {}
        """The task of every pod whose container runs, by UID."""
        self._back: dict[int, simpy.Event] = {}
        self._boots: IntArray = np.zeros(fleet.nodes, dtype=np.int64)
        api.watch(bound=self._bound)

    def stop_node(self, node: int) -> None:
        """Switch a node off, with everything that runs there."""
        self.up[node] = False
        self._boots[node] += 1
        self._fleet.stop_node(node)

    def start_node(self, node: int) -> None:
        """Switch a node on."""
        self._fleet.start_node(node)
        self.up[node] = True
        if node in self._back:
            self._back.pop(node).succeed()

    def pod_counters(self, uids: Collection[str]) -> dict[str, PodCounters]:
        """Return what the control groups of those of these pods show whose containers run, by UID."""
        return {uid: self._fleet.container_counters(self._tasks[uid]) for uid in uids if uid in self._tasks}

    def _wait_until_up(self, node: int) -> Process:
        while not self.up[node]:
            yield self._back.setdefault(node, self._env.event())

    def _bound(self, pod: Pod) -> None:
        self._env.process(self._run(pod))

    def _run(self, pod: Pod) -> Process:
        parameters, env, node = self._parameters, self._env, pod.node
        assert node is not None
        yield env.timeout(self._draw(parameters.start_delay_min_s, parameters.start_delay_max_s))
        while True:
            yield from self._wait_until_up(node)
            yield self._starts[node].wait()
            if self.up[node]:
                break
        if pod.deleted:
            self._api.show_finished(pod)
            return
        boot = self._boots[node]
        # containerd announces the new task before the burst of CPU that starting it causes (thesis §4.2.4).
        self._pod_event(pod, +1, env.now)
        if parameters.start_cpu_s:
            created = env.event()

            def burst_over(_at: float, _how: str) -> None:
                created.succeed()

            self._fleet.run_burst(node, parameters.start_cpu_s, burst_over)
            yield created
        if not pod.deleted and boot == self._boots[node]:
            yield from self._live(pod, node)
        if boot == self._boots[node]:
            self._pod_event(pod, -1, env.now)
            if parameters.stop_cpu_s:
                self._fleet.run_burst(node, parameters.stop_cpu_s)
        elif pod.outcome == "unfinished" and not pod.deleted:
            pod.outcome = "failed"
        yield from self._show(pod, parameters.finished_visible_min_s, parameters.finished_visible_max_s, finished=True)

    def _live(self, pod: Pod, node: int) -> Process:
        """Run the pod's container from its start to its end."""
        parameters, env, fleet, demand = self._parameters, self._env, self._fleet, pod.job.demand
        began = pod.started_s = env.now
        self.running[node] += not pod.job.platform
        over = env.event()

        def end(at: float, outcome: str) -> None:
            # Noted at once, not when the event's turn comes: before that, a row may be recorded or the run be cut off.
            # A container that starts between two ticks gets the CPU of the whole tick: it may seem to end before it
            # began.
            pod.finished_s, pod.outcome, pod.stop = max(at, began), outcome, None
            self.running[node] -= not pod.job.platform
            self._servers.end(pod)
            self._tasks.pop(pod.uid, None)
            over.succeed()

        def ended(at: float, how: str) -> None:
            end(at, OUTCOMES[how])

        task = fleet.run_container(
            node, demand, pod.work, weights=weights_of(pod, fleet.memory_bytes[node]), ended=ended
        )
        self._tasks[pod.uid] = task
        self._servers.begin(pod, task)
        if parameters.started_cpu_s:
            fleet.run_burst(node, parameters.started_cpu_s)

        def stop(outcome: str) -> None:
            if not over.triggered:
                fleet.stop(task)
                end(env.now, outcome)

        pod.stop = lambda: stop("failed")
        if np.isfinite(demand.duration_s):
            env.timeout(demand.duration_s).callbacks.append(lambda _event: stop("succeeded"))
        shown = self._show(pod, parameters.running_visible_min_s, parameters.running_visible_max_s, finished=False)
        env.process(shown)
        yield over

    def _show(self, pod: Pod, low: float, high: float, *, finished: bool) -> Process:
        yield self._env.timeout(self._draw(low, high))
        assert pod.node is not None
        yield from self._wait_until_up(pod.node)
        if finished:
            self._api.show_finished(pod)
        elif pod.outcome == "unfinished":
            self._api.show_running(pod)

    def _draw(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))


def weights_of(pod: Pod, node_memory_bytes: float) -> ContainerWeights:
    """Return the cgroup weight and the oom_score_adj that a kubelet gives a pod with these requests.

    A pod without requests is BestEffort (1000); a Burstable pod is killed the later, the more memory it requested.
    """
    weight = cgroup_weight(pod.millicpu)
    if not pod.millicpu and not pod.memory_bytes:
        return ContainerWeights(weight, 1000.0)
    adjust = 1000 - 1000 * pod.memory_bytes // int(node_memory_bytes)
    return ContainerWeights(weight, float(min(max(adjust, 3), 999)))
