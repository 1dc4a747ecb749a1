"""The protocol of a kind of cluster: what an experiment asks of any of them, simulated or real."""

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
    """How far a repetition is."""

    phase: str
    """What is going on, for example "running"."""
    bound: int
    finished: int
    pods: int
    """Pods bound to a node, finished, and expected in all."""
    at_s: float
    limit_s: float
    """Seconds since the scenario began, and when it is cut off."""
    attempt: int = 1
    """More than 1 after a disturbed attempt; see `run_with_retries`."""


OnProgress = Callable[[Progress], None]


class Trial(Protocol):
    """A scenario under a scheduler that a provider has found it can run; every `run` is one repetition."""

    @property
    def scenario(self) -> Scenario:
        """What is run."""
        ...

    @property
    def scheduler(self) -> SchedulerSpec:
        """What schedules it."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings of the provider that are in force, defaults included; part of the results."""
        ...

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Run the scenario once and return what was measured.

        Raises
        ------
        TestbedError
            If the cluster does not do what it should.
        """
        ...


class ClusterProvider(Protocol):
    """A kind of cluster (`simulated`, `kwok`, `kind`, `external`, later `xen`).

    Of a real one tests may also use `cluster()`, and have `diagnose()` collect why they failed, where it has these; see
    `testbed.real.provider.RealProvider`.
    """

    name: str
    shared_hardware: bool
    """Whether runs at the same time would disturb one another, as on a real machine: they must not be then."""

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to run anything here, each with its remedy; creates nothing, takes seconds at most.

        What there is to check: the provider's binary and its version, whether the container runtime answers, limits of
        inotify and cgroups, free CPU and memory.
        """
        ...

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Trial:
        """Check, before anything runs, that this can be run, and return what runs it.

        Parameters
        ----------
        scenario : Scenario
        scheduler : SchedulerSpec
        settings : mapping
            What to change of the provider's settings, name to value.

        Raises
        ------
        TestbedError
            If a setting is none of this provider's, or the cluster cannot do what is asked.
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

    def close(self) -> None:
        """Remove what trials have made and left for the next one, unless it is to be kept; called in the end.

        Raises
        ------
        TestbedError
            If something is left.
        """
        ...
