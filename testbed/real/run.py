"""A repetition on a real cluster: creates the scenario's Jobs through the API, and follows their pods with a watch.

Not here: preparing the nodes and the repetition's namespace (`testbed.real.provider`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import msgspec

from carico.clock import Clock
from carico.errors import KubeError, KubeRefused
from carico.kube.reflector import Reflector
from testbed.errors import WaitTimedOut
from testbed.experiment.provider import OnProgress, Progress
from testbed.experiment.workload_draws import draw_workload
from testbed.real.api import ClusterApi, Json
from testbed.real.jobs import Publication, job_manifest, publications
from testbed.real.namespaces import TESTBED_NAMESPACE, borrowed
from testbed.real.platform import Prepared
from testbed.real.pod_history import PodHistory
from testbed.real.program_pods import (
    CLIENT,
    PRINT_TIMES,
    PrintedTimes,
    dated_by_program,
    printed_times,
    request_series,
)
from testbed.real.waiting import wait_until
from testbed.results.schema import REPORTED, USAGE, NodeSeries, PodResult, RequestSeries
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import JobSpec, Scenario

LOOK_S = 0.1
"""Time between two checks of the pods' states; these checks do not date events: the watch does."""
SLOW_LOOK_S = 1.0
"""Time between two checks that call the API, and between two reports of progress."""
WATCH_TIMEOUT_S = 30.0
_NOT_ALLOWED = (401, 403)


class ClusterRun:
    """One repetition.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        The repetition's own namespace, which is new.
    prepared : Prepared
    scenario : Scenario
    scheduler : SchedulerSpec
    seed : int
    run : str
        The run's id, the value of our label.
    clock : Clock
    wall : callable
        Seconds since 1970.
    """

    def __init__(
        self,
        api: ClusterApi,
        namespace: str,
        prepared: Prepared,
        *,
        scenario: Scenario,
        scheduler: SchedulerSpec,
        seed: int,
        run: str,
        clock: Clock,
        wall: Callable[[], float],
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._template = prepared.template
        self._names = prepared.names
        self._telemetry = prepared.telemetry
        self._programs = prepared.programs
        self._scenario = scenario
        self._scheduler = scheduler
        self._run = run
        self._clock = clock
        self._to_publish = publications(draw_workload(scenario, seed))
        self._published_s: dict[str, float] = {}
        self._lasted_s = 0.0
        self._origin = clock.now()
        self._began_unix_s = wall()
        self._history = PodHistory(self._began_unix_s)
        self._requests: list[RequestSeries] = []
        self._printed: dict[str, PrintedTimes] = {}

    def run(self, on_progress: OnProgress | None = None) -> None:
        """Run until every job that counts has ended, or until the scenario's limit.

        Raises
        ------
        WaitTimedOut
            If the pods cannot be watched, or the scheduler takes no notice of them in time.
        KubeError
            If the API server does not answer, or refuses.
        """
        telemetry = nullcontext() if self._telemetry is None else self._telemetry.collected(self._origin)
        with ExitStack() as opened:
            if TESTBED_NAMESPACE in self._namespaces:
                opened.enter_context(borrowed(self._api, TESTBED_NAMESPACE))
            for namespace in self._namespaces:
                opened.enter_context(self._followed(namespace))
            opened.enter_context(telemetry)
            waiting, limit_s, looked_s = list(self._to_publish), self._scenario.limit_s, self._now()
            while True:
                now = self._now()
                while waiting and waiting[0].at_s <= now:
                    self._publish(waiting.pop(0))
                if now >= looked_s + SLOW_LOOK_S:
                    looked_s = now
                    if on_progress is not None:
                        on_progress(self._progress())
                    self._require_scheduler(now)
                    if self._history.failures and not waiting and self._all_given_up():
                        break
                if now >= limit_s or (not waiting and self._all_succeeded()):
                    break
                due_s = min(now + LOOK_S, limit_s, *(one.at_s for one in waiting[:1]))
                self._clock.sleep_until(self._origin + due_s)
            self._lasted_s = self._now()
            if self._programs:
                self._requests = self._measured_by_clients()
                self._printed = self._printed_times()

    @property
    def requests(self) -> list[RequestSeries]:
        """The measurements of the servers' clients, where servers are programs."""
        return self._requests

    @property
    def pods(self) -> list[PodResult]:
        """All pods that were created; those whose programs printed their times are dated by these."""
        pods = self._history.results([job.name for job in self._scenario.jobs])
        named = [msgspec.structs.replace(pod, node=pod.node and self._names.get(pod.node, pod.node)) for pod in pods]
        return [
            dated_by_program(pod, self._printed[pod.name], self._began_unix_s) if pod.name in self._printed else pod
            for pod in named
        ]

    @property
    def published_s(self) -> Mapping[str, float]:
        """When each Job was published, seconds since the scenario began."""
        return self._published_s

    @property
    def nodes(self) -> list[NodeSeries]:
        """The nodes' running pods, second by second, and the telemetry of their agents."""
        seconds = [float(second) for second in range(1, int(self._lasted_s) + 1)]
        nothing: dict[str, Any] = dict.fromkeys((*USAGE, *REPORTED), [None] * len(seconds))
        platform = {job.name for job in self._scenario.jobs if job.platform}
        spans: dict[str | None, list[tuple[float, float]]] = {}
        for pod in self.pods:
            if pod.started_s is not None and pod.job not in platform:
                end = self._lasted_s if pod.finished_s is None else pod.finished_s
                spans.setdefault(pod.node, []).append((pod.started_s, end))
        known = [
            NodeSeries(
                name,
                seconds,
                [sum(start <= second < end for start, end in spans.get(name, ())) for second in seconds],
                **nothing,
            )
            for name in self._scenario.cluster.node_names
        ]
        return known if self._telemetry is None else [self._telemetry.complete(series) for series in known]

    def _now(self) -> float:
        return self._clock.now() - self._origin

    @property
    def _namespaces(self) -> list[str]:
        """The namespaces of the scenario's pods; agents do not count pods in the platform's namespace."""
        return list(dict.fromkeys(self._namespace_of(job) for job in self._scenario.jobs))

    def _namespace_of(self, job: JobSpec) -> str:
        return TESTBED_NAMESPACE if job.platform else self._namespace

    def _measured_by_clients(self) -> list[RequestSeries]:
        serving = {job.name: self._namespace_of(job) for job in self._scenario.jobs if job.demand.service is not None}
        return [
            request_series(pod, self._api.log(serving[pod.job], pod.name, CLIENT), self._began_unix_s)
            for pod in self.pods
            if pod.job in serving and pod.started_s is not None
        ]

    def _printed_times(self) -> dict[str, PrintedTimes]:
        """Return the times that the programs of succeeded pods have printed, as far as their logs can be read."""
        printing = {job.name: job for job in self._scenario.jobs if job.workload in PRINT_TIMES}
        printed: dict[str, PrintedTimes] = {}
        for pod in self.pods:
            if pod.job in printing and pod.outcome == "succeeded":
                job = printing[pod.job]
                try:
                    times = printed_times(self._api.log(self._namespace_of(job), pod.name, job.workload))
                except KubeError as error:
                    if isinstance(error, KubeRefused) and error.status in _NOT_ALLOWED:
                        break  # if one log is forbidden, so are the others
                else:
                    if times is not None:
                        printed[pod.name] = times
        return printed

    @contextmanager
    def _followed(self, namespace: str) -> Iterator[None]:
        """Follow the pods of a namespace in a thread, until the context ends."""
        listed = threading.Event()
        with Reflector(
            self._api.pods_in(namespace),
            lambda pod: self._history.changed(pod, self._now()),
            self._clock,
            random.Random(namespace),
            deleted=lambda uid: self._history.deleted(uid, self._now()),
            listed=listed.set,
        ):
            wait_until("the pods can be watched", lambda: "" if listed.is_set() else "no listing yet", WATCH_TIMEOUT_S)
            yield

    def _publish(self, published: Publication) -> None:
        self._published_s.setdefault(published.job.name, self._now())
        template = self._template(published.job, published.work)
        assert self._scheduler.scheduler_name is not None
        manifest = job_manifest(
            published,
            template,
            requests=self._scheduler.requests_of(published.job),
            scheduler_name=self._scheduler.scheduler_name,
            first_node=next(iter(self._names)),
            run=self._run,
        )
        self._api.create_job(self._namespace_of(published.job), manifest)

    def _require_scheduler(self, now: float) -> None:
        """Refuse to wait for the scenario's limit if nobody takes notice of the pods."""
        within_s, name = self._scheduler.within_s, self._scheduler.scheduler_name
        first_s = min(self._published_s.values(), default=now)
        if within_s is None or now - first_s < within_s or self._history.noticed:
            return
        raise WaitTimedOut(
            f"waited {within_s:g} s until the scheduler {name!r} had bound or refused a first pod, and it has done "
            f"neither: is a scheduler of this schedulerName running on the cluster? If it is only slow, add "
            f"within_s=SECONDS to the spec {self._scheduler.text}"
        )

    def _all_succeeded(self) -> bool:
        return all(self._history.succeeded(job.name) >= job.pods for job in self._measured_jobs)

    def _all_given_up(self) -> bool:
        """Whether every Job that counts is complete or has failed, as the API says."""
        return all(
            any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in _conditions(job))
            for namespace in self._namespaces
            for job in self._api.jobs(namespace)
            if job["metadata"]["name"].rpartition("-")[0] in {one.name for one in self._measured_jobs}
        )

    @property
    def _measured_jobs(self) -> Sequence[JobSpec]:
        return [job for job in self._scenario.jobs if not job.disturbance]

    def _progress(self) -> Progress:
        return Progress(
            phase="running",
            bound=self._history.bound,
            finished=self._history.finished,
            pods=sum(job.pods for job in self._scenario.jobs),
        )


def _conditions(job: Json) -> Sequence[Json]:
    return (job.get("status") or {}).get("conditions") or ()
