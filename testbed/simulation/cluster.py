"""One simulated cluster, for one repetition: the parts of `testbed.simulation`, put together under SimPy's clock.

The seed decides everything random. Each part draws from its own random stream, so that the same pod has the same work
under every scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import simpy

from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.scheduling.scheduler import TICK_S
from carico.telemetry.counters import Telemetry
from testbed.errors import UsageError
from testbed.experiment.provider import OnProgress, Progress
from testbed.experiment.workload_draws import draw_workload
from testbed.measurement.repetition import repetition_of
from testbed.results.schema import PodResult, Repetition
from testbed.schedulers.spec import SchedulerSpec
from testbed.simulation.agents import AgentFleet
from testbed.simulation.checks import check
from testbed.simulation.control_plane.api import ApiServer, Pod, Process
from testbed.simulation.control_plane.framework import SchedulingFramework
from testbed.simulation.control_plane.jobs import JobController
from testbed.simulation.nodes.fleet import NodeFleet
from testbed.simulation.nodes.kubelet import Kubelets
from testbed.simulation.nodes.lifecycle import NodeLifecycleController
from testbed.simulation.nodes.servers import Servers
from testbed.simulation.parameters import SAMPLE_PERIOD_S, SimulationParameters
from testbed.simulation.recorder import Recorder
from testbed.simulation.schedulers.by_kind import put
from testbed.simulation.schedulers.demand import kind_of
from testbed.simulation.schedulers.under_test import Agents, Reported, Site
from workloads.scenario import Scenario

RECORD_PERIOD_S = 1.0


class SimulatedCluster:
    """One simulated cluster, for one repetition.

    Parameters
    ----------
    scenario : Scenario
    scheduler : SchedulerSpec
    seed : int
        Not negative.
    parameters : SimulationParameters
    observer : Variant, optional
        The variant of agents beside a scheduler that does not listen to them (thesis §5.6); by default the parameters
        say whether there are such agents. CARICO as the scheduler has agents of its own.
    telemetry : list, optional
        Filled with the 10 Hz telemetry that the agents see, from the scenario's beginning on.
    """

    def __init__(
        self,
        scenario: Scenario,
        scheduler: SchedulerSpec,
        seed: int,
        parameters: SimulationParameters,
        observer: Variant | None = None,
        telemetry: list[Telemetry] | None = None,
    ) -> None:
        if seed < 0:
            raise UsageError(f"a seed must not be negative, got {seed}")
        if observer is None and parameters.agents:
            observer = DEFAULT_VARIANT
        check(scenario, scheduler, parameters, observer)
        agents = scheduler.agents or observer
        if telemetry is not None and agents is None:
            raise UsageError(f"telemetry comes from agents, and {scheduler.text} has none: name an observer")
        self._scenario = scenario
        self._spec = scheduler
        self._seed = seed
        self._parameters = parameters
        self._telemetry = telemetry
        self._wake_ups = 0
        shape = scenario.cluster
        streams = np.random.SeedSequence(seed).spawn(5)
        rngs = [np.random.default_rng(stream) for stream in streams]
        nodes_rng, kubelet_rng, scheduler_rng, agents_rng, requests_rng = rngs
        self._names, each_node = shape.node_names, shape.each_node
        start = -parameters.warm_up_s
        self._env = env = simpy.Environment(initial_time=start)
        self._fleet = NodeFleet(
            len(each_node),
            [node.cores for node in each_node],
            [node.memory_bytes for node in each_node],
            parameters,
            rng=nodes_rng,
            agent_cores=0.0 if agents is None else parameters.agent_cores,
            boot_s=start,
            speed=[node.speed for node in each_node],
            disks=[node.disk for node in each_node],
        )
        self._api = ApiServer(env, parameters.watch_latency_s)
        self._servers = Servers(self._fleet, parameters, requests_rng)
        self._kubelets = Kubelets(
            env,
            self._api,
            self._fleet,
            parameters,
            rng=kubelet_rng,
            pod_event=self._container_event,
            servers=self._servers,
        )
        self._kinds = {job.name: kind_of(job) for job in scenario.jobs}
        self._counted: dict[Pod, None] = {}
        """The pods that run, as far as the agents' source of pod events has shown."""
        if parameters.pod_events != "containerd":
            begin = "bound" if parameters.pod_events == "kubernetes" else "running"
            self._api.watch(
                **{begin: lambda pod: self._api_event(pod, +1)}, finished=lambda pod: self._api_event(pod, -1)
            )
        self._jobs = JobController(env, self._api, parameters, scheduler.requests_of)
        site = Site(
            env,
            self._names,
            shape,
            self._fleet.cores,
            self._fleet.memory_bytes,
            self._kinds,
            parameters,
            scheduler_rng=scheduler_rng,
            agents_rng=agents_rng,
            first=self._fleet.counters(),
            read_pods=self._kubelets.pod_counters,
            wake=self._annotate,
            delayed=self._delayed,
        )
        self._titles = {self._kinds[job.name].workload: job.name for job in reversed(scenario.jobs)}
        self._recorder = Recorder(self._names, site.first, self._titles)
        under_test = put(site, scheduler)
        framework = SchedulingFramework(env, self._api, under_test.parameters, under_test.plugin)
        if under_test.tick is not None:
            env.process(self._tick(under_test.tick))
        self._agents: list[Agents] = [] if under_test.agents is None else [under_test.agents]
        if scheduler.agents is None and observer is not None:
            self._agents.append(
                AgentFleet(self._names, observer, parameters, rng=agents_rng, first=site.first, max_pods=site.max_pods)
            )
        NodeLifecycleController(
            env,
            self._api,
            self._kubelets,
            names=self._names,
            changes=scenario.node_changes,
            parameters=parameters,
            on_ready=framework.node_ready,
            on_agent=self._agent,
        )
        for draw in draw_workload(scenario, seed):
            self._jobs.publish(draw.job, draw.work, draw.arrivals)

    def run(self, on_progress: OnProgress | None = None) -> Repetition:
        """Run until every measured job is over, or until the scenario's limit."""
        env, scenario = self._env, self._scenario
        env.process(self._clock(on_progress))
        end = env.timeout(scenario.limit_s - env.now)
        env.run(until=env.any_of([self._jobs.all_over, end]))
        return self._repetition()

    def restart_agents(self, nodes: Sequence[str], at_s: float) -> None:
        """Let the agents of nodes begin anew at a time, as after a restart without a checkpoint; to be called first."""
        self._env.process(self._restart_agents([self._names.index(name) for name in nodes], at_s))

    @property
    def scheduling_attempts(self) -> int:
        """How often kube-scheduler has tried to place a pod, over all pods."""
        return sum(pod.attempts for pod in self._api.pods)

    @property
    def wake_ups(self) -> int:
        """How often refused pods have been tried again early because a node had room."""
        return self._wake_ups

    def _clock(self, on_progress: OnProgress | None) -> Process:
        """Advance the nodes tick by tick; sample at 10 Hz and record at 1 Hz."""
        env, parameters, fleet = self._env, self._parameters, self._fleet
        origin = env.now
        per_sample = round(SAMPLE_PERIOD_S / parameters.tick_s)
        per_record = per_sample * round(RECORD_PERIOD_S / SAMPLE_PERIOD_S)
        begin = per_sample * round(parameters.warm_up_s / SAMPLE_PERIOD_S)
        tick = 0
        while True:
            tick += 1
            # From the origin, not from the last tick: rounding errors must not add up.
            at = origin + tick * parameters.tick_s
            yield env.timeout(max(at - env.now, 0.0))
            fleet.advance(at)
            self._servers.answer()
            if tick % per_sample:
                continue
            if self._agents:
                counters = fleet.counters()
                seen = [agents.sample(counters) for agents in self._agents]
                if self._telemetry is not None and tick > begin:
                    self._telemetry.append(seen[0])
            if tick == begin:
                # The scenario begins now: the first row is measured from here.
                self._recorder = Recorder(self._names, fleet.counters(), self._titles)
            elif tick > begin and (tick - begin) % per_record == 0:
                reported = next((one.latest for one in self._agents if one.latest is not None), None)
                costs = next((one.latest_costs for one in self._agents if one.latest_costs is not None), None)
                self._recorder.record(
                    at,
                    fleet.counters(),
                    running=self._kubelets.running,
                    reported=reported,
                    up=self._kubelets.up,
                    costs=costs,
                )
                if on_progress is not None:
                    on_progress(self._progress())

    def _tick(self, tick: Callable[[], None]) -> Process:
        while True:
            yield self._env.timeout(TICK_S)
            tick()

    def _restart_agents(self, nodes: list[int], at_s: float) -> Process:
        yield self._env.timeout(at_s - self._env.now)
        for node in nodes:
            if self._kubelets.up[node]:
                self._agent(node, runs=True)

    def _container_event(self, pod: Pod, change: int, at: float) -> None:
        if self._parameters.pod_events == "containerd":
            self._counted_event(pod, change, at)

    def _pod_event(self, pod: Pod, change: int, at: float) -> None:
        assert pod.node is not None
        for agents in self._agents:
            agents.pod_event(pod.node, pod.uid, self._workload(pod), change, at)

    def _workload(self, pod: Pod) -> str | None:
        return None if pod.job.platform else self._kinds[pod.job.name].workload

    def _api_event(self, pod: Pod, change: int) -> None:
        if pod.node is not None:
            self._counted_event(pod, change, self._env.now)

    def _counted_event(self, pod: Pod, change: int, at: float) -> None:
        if change > 0:
            self._counted[pod] = None
        elif pod not in self._counted:
            return
        else:
            del self._counted[pod]
        self._pod_event(pod, change, at)

    def _delayed(self, report: Callable[[int, *Reported], None]) -> Callable[[int, *Reported], None]:
        """Return `report`, or a callback that delays reports as the parameters say."""
        delay_s = self._parameters.report_delay_s
        if not delay_s:
            return report

        def send(node: int, *reported: *Reported) -> None:
            arrives = self._env.timeout(delay_s)
            arrives.callbacks.append(lambda _event: report(node, *reported) if self._kubelets.up[node] else None)

        return send

    def _annotate(self, node: int) -> None:
        """Change a node, so that refused pods are tried again; the call takes as long as a binding."""
        self._wake_ups += 1
        written = self._env.timeout(self._parameters.bind_latency_s)
        written.callbacks.append(lambda _event: self._api.change_node(node))

    def _agent(self, node: int, runs: bool) -> None:
        if not self._agents:
            return
        pods = [pod for pod in self._counted if pod.node == node]
        if runs:
            for agents in self._agents:
                agents.start(node)
            # A new agent lists the pods of its node first.
            for pod in pods:
                for agents in self._agents:
                    agents.pod_found(node, pod.uid, self._workload(pod), self._env.now)
        else:
            for agents in self._agents:
                agents.stop(node)
            if self._parameters.pod_events == "containerd":
                # Containers end with their node, and nobody is told; the API shows their pods for longer.
                for pod in pods:
                    del self._counted[pod]

    def _progress(self) -> Progress:
        # A failed pod counts as neither: its replacement does the work.
        succeeded = sum(pod.outcome == "succeeded" for pod in self._api.pods)
        alive = sum(pod.outcome == "unfinished" and pod.node is not None for pod in self._api.pods)
        return Progress(
            phase="running",
            bound=succeeded + alive,
            finished=succeeded,
            pods=sum(job.pods for job in self._scenario.jobs),
        )

    def _repetition(self) -> Repetition:
        return repetition_of(
            self._scenario,
            self._spec,
            self._seed,
            settings=msgspec.to_builtins(self._parameters),
            pods=[self._pod_result(pod) for pod in self._api.pods],
            nodes=self._recorder.series(),
            requests=self._servers.series(self._names),
        )

    def _pod_result(self, pod: Pod) -> PodResult:
        return PodResult(
            name=pod.name,
            job=pod.job.name,
            node=None if pod.node is None else self._names[pod.node],
            created_s=pod.created_s,
            scheduled_s=pod.scheduled_s,
            started_s=pod.started_s,
            finished_s=pod.finished_s,
            outcome=pod.outcome,  # type: ignore[arg-type]
        )
