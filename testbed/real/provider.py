"""The provider of any real cluster: a lifecycle opens it, a platform prepares it, a `ClusterRun` runs the scenario."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from carico.clock import Clock, SystemClock
from carico.errors import KubeError
from carico.kube.objects import KubeObject
from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError, TestbedError, UsageError
from testbed.experiment.provider import OnProgress, Progress
from testbed.measurement.repetition import repetition_of
from testbed.measurement.scheduling import scheduling_items
from testbed.measurement.stolen_cpu import StolenCpu
from testbed.real.applied import applied, read_manifest
from testbed.real.diagnostics import collect
from testbed.real.lifecycle import Cluster, ClusterLifecycle
from testbed.real.namespaces import namespace_of_run
from testbed.real.platform import Platform, Setup
from testbed.real.run import ClusterRun
from testbed.requirements import Problem
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.arrivals import Burst
from workloads.scenario import Scenario


class RealProvider:
    """Runs scenarios one after the other on one real cluster, which the first one opens and `close` gives up.

    Parameters
    ----------
    lifecycle : ClusterLifecycle
    platform : Platform
    options : ClusterOptions
    clock : Clock, optional
    wall : callable, optional
        Seconds since 1970.
    """

    shared_hardware = True

    def __init__(
        self,
        lifecycle: ClusterLifecycle,
        platform: Platform,
        options: ClusterOptions,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = lifecycle.kind
        self._lifecycle = lifecycle
        self._platform = platform
        self._options = options
        self._clock = SystemClock() if clock is None else clock
        self._wall = wall
        self._numbers = count()
        self._diagnosed: BaseException | None = None

    def kubernetes_version(self) -> str:
        """Return the cluster's version; see `ClusterProvider.kubernetes_version`."""
        return self._lifecycle.kubernetes_version

    def made_from(self) -> Mapping[str, str]:
        """Return what makes the cluster; see `ClusterProvider.made_from`."""
        return self._lifecycle.made_from()

    def cluster(self) -> Cluster:
        """Return the cluster, which the first call opens; see `ClusterLifecycle.open`."""
        return self._lifecycle.open()

    def close(self) -> None:
        """Give up the cluster; see `ClusterLifecycle.close`."""
        self._platform.close()
        self._lifecycle.close()

    def diagnose(self, cluster: Cluster, namespace: str, name: str, error: BaseException) -> None:
        """Collect diagnostics of an error outside `run`, unless `run` has already collected them for the same error.

        Parameters
        ----------
        cluster : Cluster
            The open cluster.
        namespace : str
            The namespace of the pods concerned.
        name : str
            Name of the new folder among the diagnostics.
        error : BaseException
        """
        raised: BaseException | None = error
        while raised is not None:
            if raised is self._diagnosed:
                return
            raised = raised.__cause__
        self._collect(cluster, namespace, name)

    def preflight(self) -> Sequence[Problem]:
        """Check what the cluster needs; see `ClusterProvider.preflight`."""
        return self._lifecycle.preflight()

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> RealTrial:
        """Check that this can be run; see `ClusterProvider.check`."""
        if scenario.node_changes:
            raise UsageError(f"{scenario.name}: the provider {self.name} cannot change nodes while a scenario runs")
        for job in scenario.jobs:
            if job.priority:
                raise UsageError(f"job {job.name}: the provider {self.name} has no priorities, got {job.priority}")
            if job.parallelism is not None and not isinstance(job.arrivals, Burst):
                raise UsageError(
                    f"job {job.name}: pods that arrive one after the other are several Jobs here, which cannot share "
                    f"parallelism = {job.parallelism}: leave out one of the two"
                )
        if scheduler.scheduler_name is None:
            raise UsageError(
                f"{scheduler.text}: a class runs only on the simulated cluster; on the provider {self.name}, deploy a "
                f"scheduler and name it: schedulerName=NAME,manifest=FILE"
            )
        manifest = [] if scheduler.manifest is None else read_manifest(scheduler.manifest)
        setup = self._platform.check(scenario, scheduler, settings)
        version = None
        with suppress(TestbedError):  # without its programs nothing is run, and the preflight says why
            version = self.kubernetes_version()
        in_force = {"provider": self.name, "kubernetes_version": version, **setup.settings}
        return RealTrial(self, scenario, scheduler, settings=in_force, setup=setup, manifest=manifest)

    def run(self, trial: RealTrial, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Run a trial once; see `Trial.run`.

        Raises
        ------
        ClusterError
            If the cluster fails.
        """
        scenario = trial.scenario
        self._tell(on_progress, scenario, "opening the cluster")
        cluster = self.cluster()
        namespace = f"carico-{next(self._numbers)}-{self._options.run.lower()}"
        try:
            self._tell(on_progress, scenario, "preparing nodes")
            with self._explained(cluster, namespace, scenario, seed):
                self._lifecycle.clean()
                prepared = trial.setup.prepare(cluster)
            with namespace_of_run(cluster.api, namespace, self._options.run):
                run = ClusterRun(
                    cluster.api,
                    namespace,
                    prepared,
                    scenario=scenario,
                    scheduler=trial.scheduler,
                    seed=seed,
                    run=self._options.run,
                    clock=self._clock,
                    wall=self._wall,
                )
                stolen = StolenCpu()
                with (
                    self._explained(cluster, namespace, scenario, seed),
                    applied(cluster.api, trial.manifest, namespace, self._options.run, self._clock),
                ):
                    run.run(on_progress)
                jobs = [job.name for job in scenario.jobs if not job.disturbance]
                measured = repetition_of(
                    scenario,
                    trial.scheduler,
                    seed,
                    settings=trial.settings,
                    pods=run.pods,
                    nodes=run.nodes,
                    requests=run.requests,
                    published_s=run.published_s,
                    more_items=[
                        *scheduling_items(run.pods, jobs),
                        *(stolen.items() if self._lifecycle.on_this_machine else []),
                    ],
                )
                if None in measured.job_completion_time_s.values():
                    self._collect(cluster, namespace, _folder(scenario, seed, namespace))
        except KubeError as error:
            raise ClusterError(f"cluster {cluster.name}: {error}") from error
        return measured

    @contextmanager
    def _explained(self, cluster: Cluster, namespace: str, scenario: Scenario, seed: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._diagnosed = error
            self._collect(cluster, namespace, _folder(scenario, seed, namespace))
            raise

    def _collect(self, cluster: Cluster, namespace: str, name: str) -> None:
        if self._options.diagnostics is None:
            return
        into = self._options.diagnostics / name
        collect(cluster.api, namespace, into, lambda folder: self._lifecycle.collect_logs(cluster, folder))
        self._options.say(f"diagnostics: {into}")

    def _tell(self, on_progress: OnProgress | None, scenario: Scenario, phase: str) -> None:
        if on_progress is not None:
            pods = sum(job.pods for job in scenario.jobs)
            on_progress(Progress(phase, bound=0, finished=0, pods=pods))


@dataclass(frozen=True)
class RealTrial:
    """A `Trial` on a real cluster."""

    provider: RealProvider
    scenario: Scenario
    scheduler: SchedulerSpec
    settings: Mapping[str, Any]
    setup: Setup
    manifest: Sequence[KubeObject] = ()
    """What is applied for every repetition; see `testbed.real.applied`."""

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """See `RealProvider.run`."""
        return self.provider.run(self, seed, on_progress)


def _folder(scenario: Scenario, seed: int, namespace: str) -> str:
    return f"{scenario.name}-{seed}-{namespace}"
