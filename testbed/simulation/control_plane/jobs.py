"""The Job controller: creates a Job's pods at the rate of its client, replaces failed pods, and gives up at the limit.

It knows what the API shows, not what happens on the nodes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import simpy

from testbed.simulation.control_plane.api import ApiServer, Pod, Process, RateLimiter
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import JobSpec, Requests

RETRY_INITIAL_S = 10.0
RETRY_MAX_S = 600.0
"""The Job controller's back-off after failures (job_controller.go: DefaultJobPodFailureBackOff and its maximum)."""


class JobController:
    """Runs the Jobs of a scenario.

    Parameters
    ----------
    env : simpy.Environment
    api : ApiServer
    parameters : SimulationParameters
    requests : callable
        Returns the requests of a Job's pods under the scheduler under test.
    """

    def __init__(
        self,
        env: simpy.Environment,
        api: ApiServer,
        parameters: SimulationParameters,
        requests: Callable[[JobSpec], Requests],
    ) -> None:
        self._env = env
        self._api = api
        self._requests = requests
        self._creations = RateLimiter(env, parameters.pod_creations_per_s, parameters.pod_creations_burst)
        self._jobs: dict[str, _JobState] = {}
        self.all_over = env.event()
        """Occurs when every Job that the run waits for has completed or failed."""
        api.watch(finished=self._pod_finished)

    def publish(self, job: JobSpec, works: list[float], arrivals: list[float] | None = None) -> None:
        """Publish a Job at its time.

        Parameters
        ----------
        job : JobSpec
        works : list of float
            CPU-seconds of each of its pods.
        arrivals : list of float, optional
            When each pod arrives, seconds after the publication, ascending; all at once by default.
        """
        state = self._jobs[job.name] = _JobState(job, works)
        self._env.process(self._arrive(state, arrivals or [0.0] * job.pods))
        self._env.process(self._create_all(state))

    def _arrive(self, state: _JobState, arrivals: list[float]) -> Process:
        for index, after_s in enumerate(arrivals):
            at = state.spec.start_s + after_s
            if at > self._env.now:
                yield self._env.timeout(at - self._env.now)
            state.to_create.append(index)
            state.wake()

    def _create_all(self, state: _JobState) -> Process:
        """Create a Job's pods and the replacements of failed pods; the back-off after a failure delays all of them."""
        while not state.over:
            if not state.to_create or len(state.live) >= state.parallelism:
                yield state.woken(self._env)
            elif self._env.now < state.resume_s:
                yield state.woken(self._env) | self._env.timeout(state.resume_s - self._env.now)
            else:
                yield self._creations.wait()
                if not state.over and self._env.now >= state.resume_s:
                    self._create(state, state.to_create.popleft())

    def _create(self, state: _JobState, index: int) -> None:
        job, requests = state.spec, self._requests(state.spec)
        retry = state.created[index]
        state.created[index] += 1
        name = f"{job.name}-{index:04d}" + (f"-retry-{retry}" if retry else "")
        pod = Pod(
            uid=name,
            name=name,
            job=job,
            work=state.works[index],
            created_s=self._env.now,
            millicpu=requests.millicpu,
            memory_bytes=requests.memory_bytes,
        )
        state.index_of[name] = index
        state.live[name] = pod
        self._api.create(pod)

    def _pod_finished(self, pod: Pod) -> None:
        state = self._jobs[pod.job.name]
        state.live.pop(pod.name, None)
        state.wake()
        if pod.outcome == "succeeded":
            state.succeeded += 1
            state.failures_in_a_row, state.resume_s = 0, -math.inf
            state.over = state.over or state.succeeded == state.spec.pods
        elif not state.over:
            policy = {"oom_killed": state.spec.on_oom_kill, "evicted": state.spec.on_disruption}
            action = policy.get(pod.outcome, "count")
            state.failures += action != "ignore"
            state.failures_in_a_row += action != "ignore"
            if action == "fail-job" or state.failures > state.spec.backoff_limit:
                self._give_up(state)
            elif action == "ignore":
                state.to_create.append(state.index_of[pod.name])
            else:
                # 2**30 s is far beyond the longest delay; much larger powers would overflow a float.
                delay = min(RETRY_INITIAL_S * 2.0 ** min(state.failures_in_a_row - 1, 30), RETRY_MAX_S)
                failed_s = self._env.now if pod.finished_s is None else pod.finished_s
                state.resume_s = max(state.resume_s, failed_s + delay)
                state.to_create.append(state.index_of[pod.name])
        self._check_over()

    def _give_up(self, state: _JobState) -> None:
        """Delete the pods of a failed Job: running pods are stopped, waiting pods never run."""
        state.over = True
        for pod in list(state.live.values()):
            pod.deleted = True
            if pod.stop is not None:
                pod.stop()

    def _check_over(self) -> None:
        waited_for = (state for state in self._jobs.values() if not state.spec.disturbance)
        if not self.all_over.triggered and all(state.over for state in waited_for):
            self.all_over.succeed()


class _JobState:
    """What the controller knows about a Job."""

    def __init__(self, spec: JobSpec, works: list[float]) -> None:
        self.spec = spec
        self.works = works
        self.parallelism = spec.pods if spec.parallelism is None else spec.parallelism
        self.succeeded = 0
        self.failures = 0
        self.over = False
        self.failures_in_a_row = 0
        """Failures since the last success."""
        self.resume_s = -math.inf
        """No pod is created before this time: the back-off after a failure."""
        self.to_create: deque[int] = deque()
        """Indices of the pods that have arrived, or failed, and have to be created."""
        self._wakes: simpy.Event | None = None
        self.created = [0] * spec.pods
        self.index_of: dict[str, int] = {}
        self.live: dict[str, Pod] = {}

    def woken(self, env: simpy.Environment) -> simpy.Event:
        """Return an event that occurs when there may be pods to create."""
        self._wakes = env.event()
        return self._wakes

    def wake(self) -> None:
        """Wake the process that creates pods, if it sleeps."""
        if self._wakes is not None and not self._wakes.triggered:
            self._wakes.succeed()
