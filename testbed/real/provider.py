"""The provider of any real cluster: it has its life, a platform says what its pods are, the engine runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from carico.clock import Clock, SystemClock
from carico.errors import KubeError
from testbed.errors import ClusterError, TestbedError, UsageError
from testbed.experiment.cluster_options import Wishes
from testbed.experiment.provider import OnProgress, Progress, scenario_settings
from testbed.measurement.completion_times import completion_time_items
from testbed.measurement.request_latency import latency_items
from testbed.measurement.scheduling import scheduling_items
from testbed.measurement.stolen_cpu import StolenCpu
from testbed.measurement.utilisation import utilisation_items
from testbed.real.diagnostics import collect
from testbed.real.lifecycle import Cluster, Life
from testbed.real.maker import ClusterSource
from testbed.real.namespaces import namespace_of_run
from testbed.real.platform import Platform
from testbed.real.run import ClusterRun
from testbed.requirements import Problem
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.arrivals import Burst
from workloads.scenario import Scenario


class RealProvider:
    """Runs scenarios one after the other on one real cluster, which is there from the first one until `close`.

    Parameters
    ----------
    source : ClusterSource
    platform : Platform
    wishes : Wishes
    life : Life
    clock : Clock, optional
    wall : callable, optional
        Seconds since 1970.
    """

    shared_hardware = True

    def __init__(
        self,
        source: ClusterSource,
        platform: Platform,
        wishes: Wishes,
        life: Life,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = source.kind
        self._source = source
        self._platform = platform
        self._wishes = wishes
        self._life = life
        self._clock = SystemClock() if clock is None else clock
        self._wall = wall
        self._numbers = count()
        self._diagnosed: BaseException | None = None

    def kubernetes_version(self) -> str:
        """Ask where it comes from; see `ClusterProvider.kubernetes_version`."""
        return self._source.kubernetes_version

    def cluster(self) -> Cluster:
        """Return the cluster, which the first call opens; see `Life.open`."""
        return self._life.open()

    def close(self) -> None:
        """Use the cluster no longer; see `Life.close`."""
        self._platform.close()
        self._life.close()

    def diagnose(self, cluster: Cluster, namespace: str, name: str, error: BaseException) -> None:
        """Collect what may tell why something failed that used the cluster itself, unless its repetition has done so.

        Parameters
        ----------
        cluster : Cluster
            That is open.
        namespace : str
            Where its pods are.
        name : str
            Of a folder among the diagnostics.
        error : BaseException
        """
        raised: BaseException | None = error
        while raised is not None:
            if raised is self._diagnosed:
                return
            raised = raised.__cause__
        self._collect(cluster, namespace, name)

    def preflight(self) -> Sequence[Problem]:
        """Ask where it comes from; see `ClusterProvider.preflight`."""
        return self._source.preflight()

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check that this can be run; see `ClusterProvider.check`."""
        if scenario.node_changes:
            raise UsageError(f"{scenario.name}: the provider {self.name} changes no nodes while a scenario runs")
        for job in scenario.jobs:
            if job.priority:
                raise UsageError(f"job {job.name}: the provider {self.name} knows no priorities, got {job.priority}")
            if job.parallelism is not None and not isinstance(job.arrivals, Burst):
                raise UsageError(
                    f"job {job.name}: pods that arrive one after the other are several Jobs here, which cannot share "
                    f"parallelism = {job.parallelism}: leave out one of the two"
                )
        in_force = self._platform.check(scenario, scheduler, settings)
        version = None
        with suppress(TestbedError):  # without its programs nothing is run, and the preflight says why
            version = self.kubernetes_version()
        return {"provider": self.name, "kubernetes_version": version, **in_force}

    def run(
        self,
        scenario: Scenario,
        scheduler: SchedulerSpec,
        seed: int,
        settings: Mapping[str, Any],
        on_progress: OnProgress | None = None,
    ) -> Repetition:
        """Run a scenario once; see `ClusterProvider.run`.

        Raises
        ------
        ClusterError
            If the cluster does not do what it should.
        """
        in_force = self.check(scenario, scheduler, settings)
        self._tell(on_progress, scenario, "opening the cluster")
        cluster = self.cluster()
        namespace = f"carico-{next(self._numbers)}-{self._wishes.run.lower()}"
        try:
            self._tell(on_progress, scenario, "preparing nodes")
            with self._explained(cluster, namespace, scenario, seed):
                self._life.clean()
                prepared = self._platform.prepare(cluster, scenario, scheduler, in_force)
            with namespace_of_run(cluster.api, namespace, self._wishes.run):
                run = ClusterRun(
                    cluster.api,
                    namespace,
                    self._platform,
                    prepared,
                    scenario,
                    scheduler,
                    seed,
                    self._wishes.run,
                    self._clock,
                    self._wall,
                )
                stolen = StolenCpu()
                with self._explained(cluster, namespace, scenario, seed):
                    run.run(on_progress)
                stolen_items = stolen.items() if self._source.on_this_machine else []
                pods, nodes, completion, requests = run.pods, run.nodes, run.completion_s, run.requests
                if any(taken is None for taken in completion.values()):
                    self._collect(cluster, namespace, _folder(scenario, seed, namespace))
        except KubeError as error:
            raise ClusterError(f"cluster {cluster.name}: {error}") from error
        return Repetition(
            scenario=scenario.name,
            scheduler=scheduler.text,
            seed=seed,
            settings=scenario_settings(scenario) | dict(in_force),
            job_completion_time_s=completion,
            pods=pods,
            nodes=nodes,
            data_items=[
                *completion_time_items(pods, completion),
                *scheduling_items(pods, completion),
                *utilisation_items(nodes),
                *latency_items(requests, pods, completion),
                *stolen_items,
            ],
            requests=requests,
        )

    @contextmanager
    def _explained(self, cluster: Cluster, namespace: str, scenario: Scenario, seed: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._diagnosed = error
            self._collect(cluster, namespace, _folder(scenario, seed, namespace))
            raise

    def _collect(self, cluster: Cluster, namespace: str, name: str) -> None:
        if self._wishes.diagnostics is None:
            return
        into = self._wishes.diagnostics / name
        collect(
            cluster.api, namespace, into, lambda folder: self._source.collect_logs(cluster.name, cluster.folder, folder)
        )
        self._wishes.say(f"diagnostics: {into}")

    def _tell(self, on_progress: OnProgress | None, scenario: Scenario, phase: str) -> None:
        if on_progress is not None:
            pods = sum(job.pods for job in scenario.jobs)
            on_progress(Progress(phase, 0, 0, pods, 0.0, scenario.limit_s))


def _folder(scenario: Scenario, seed: int, namespace: str) -> str:
    return f"{scenario.name}-{seed}-{namespace}"
