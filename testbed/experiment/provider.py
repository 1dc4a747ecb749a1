"""The protocol of providers: what an experiment needs of any kind of cluster, simulated or real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.requirements import Problem
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario


@dataclass(frozen=True)
class Progress:
    """The progress of a repetition."""

    phase: str
    """The present activity, for example "running"."""
    bound: int
    finished: int
    pods: int
    """Pods bound to a node, finished, and expected in all."""
    attempt: int = 1
    """The number of the attempt, more than 1 after a disturbed one; see `run_with_retries`."""


OnProgress = Callable[[Progress], None]


class Trial(Protocol):
    """A scenario under a scheduler that a provider has checked and can run; every `run` is one repetition."""

    @property
    def scenario(self) -> Scenario:
        """The scenario to run."""
        ...

    @property
    def scheduler(self) -> SchedulerSpec:
        """The scheduler under test."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings of the provider in force, including defaults; part of the results."""
        ...

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Run the scenario once and return the measurements.

        Raises
        ------
        TestbedError
            If the cluster fails.
        """
        ...


class ClusterProvider(Protocol):
    """A kind of cluster (`simulated`, `kwok`, `kind`, `external`, later `xen`).

    Providers of real clusters also have `cluster()`, for tests that use the cluster itself, and `diagnose()`, which
    collects diagnostics when such a test fails; see `testbed.real.provider.RealProvider`.
    """

    name: str
    shared_hardware: bool
    """Whether simultaneous runs would disturb one another, as on a real machine; then they are refused."""

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to run anything, each with its remedy; creates nothing and takes seconds at most.

        Typical checks: the provider's program and its version, whether the container runtime answers, limits of inotify
        and cgroups, free CPU and memory.
        """
        ...

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Trial:
        """Check, before anything runs, that a scenario can be run, and return the trial that runs it.

        Parameters
        ----------
        scenario : Scenario
        scheduler : SchedulerSpec
        settings : mapping
            Settings of the provider that differ from its defaults, by name.

        Raises
        ------
        TestbedError
            If the provider does not know a setting, or the cluster cannot run the scenario or the scheduler.
        """
        ...

    def kubernetes_version(self) -> str | None:
        """Return the version of Kubernetes that is run; None if Kubernetes is only emulated.

        Raises
        ------
        TestbedError
            If the version cannot be found out; `preflight` says why.
        """
        ...

    def made_from(self) -> Mapping[str, str]:
        """Return what makes the cluster, for the run's record: programs with their versions, images, configuration.

        Nothing if no cluster is made here.
        """
        ...

    def close(self) -> None:
        """Remove everything that trials share, such as a cluster, unless it is to be kept. Called at the end.

        Raises
        ------
        TestbedError
            If something is left.
        """
        ...
