"""Test kit: a fake provider whose runs take no time, for tests of code that uses the testbed."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from testbed.errors import InvalidSetting
from testbed.experiment.provider import OnProgress, Progress
from testbed.measurement.repetition import repetition_of
from testbed.measurement.stolen_cpu import METRIC
from testbed.requirements import Problem
from testbed.results.schema import DataItem, NodeSeries, PodOutcome, PodResult, Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import JobSpec, Scenario


class FakeProvider:
    """A provider whose pods take times that are drawn from the seed and the scheduler's name.

    Parameters
    ----------
    outcome : str
        The outcome of every job's first pod; the others succeed.
    interrupt_after : int, optional
        Number of runs after which Ctrl-C is pressed.
    problems : sequence of Problem
        What the preflight finds.
    shared_hardware : bool
        Whether runs would disturb one another.
    stolen : sequence of float
        The share of the machine's CPU time that is stolen during each run; later runs do not measure it.
    dies : bool
        Whether a run ends its process, as if the process had been killed.

    Examples
    --------
    >>> from testbed.schedulers.spec import parse_spec
    >>> from workloads.scenario import load_scenario
    >>> provider = FakeProvider()
    >>> one, again = (provider.check(load_scenario("sklearn"), parse_spec("carico"), {}).run(1) for _ in range(2))
    >>> one == again, len(one.pods), provider.calls
    (True, 100, ['sklearn carico 1', 'sklearn carico 1'])
    """

    name = "fake"

    def __init__(
        self,
        outcome: PodOutcome = "succeeded",
        interrupt_after: int | None = None,
        problems: Sequence[Problem] = (),
        shared_hardware: bool = False,
        stolen: Sequence[float] = (),
        dies: bool = False,
    ) -> None:
        self.calls: list[str] = []
        """Everything that has been run: scenario, scheduler and seed."""
        self.shared_hardware = shared_hardware
        self._problems = problems
        self._stolen = iter(stolen)
        self._outcome: PodOutcome = outcome
        self._interrupt_after = interrupt_after
        self._dies = dies

    def preflight(self) -> Sequence[Problem]:
        """Return the given problems; see `ClusterProvider.preflight`."""
        return self._problems

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> FakeTrial:
        """Accept any scenario, and no setting but `speed`; see `ClusterProvider.check`."""
        if set(settings) - {"speed"}:
            raise InvalidSetting(f"no setting is named {', '.join(settings)}; known: speed")
        return FakeTrial(self, scenario, scheduler, {"speed": float(settings.get("speed", 1.0))})

    def run(
        self,
        scenario: Scenario,
        scheduler: SchedulerSpec,
        seed: int,
        settings: Mapping[str, Any],
        on_progress: OnProgress | None = None,
    ) -> Repetition:
        """Make up a repetition, for `FakeTrial.run`."""
        speed = self.check(scenario, scheduler, settings).settings["speed"]
        if self._dies:
            os._exit(9)
        if len(self.calls) == self._interrupt_after:
            raise KeyboardInterrupt
        self.calls.append(f"{scenario.name} {scheduler.text} {seed}")
        rng = random.Random(f"{scheduler.text} {seed}")
        pods = [pod for job in scenario.jobs for pod in self._pods(job, speed, rng)]
        if on_progress is not None:
            on_progress(Progress("running", bound=len(pods), finished=0, pods=len(pods)))
        stolen = [DataItem({"value": share}, "share", {"metric": METRIC}) for share in islice(self._stolen, 1)]
        nothing: dict[str, Any] = {field: [] for field in NodeSeries.__struct_fields__ if field != "name"}
        nodes = [NodeSeries(f"node-{n}", **nothing) for n in range(scenario.cluster.nodes)]
        return repetition_of(
            scenario,
            scheduler,
            seed,
            settings={"speed": speed},
            pods=pods,
            nodes=nodes,
            more_items=stolen,
        )

    def kubernetes_version(self) -> None:
        """Return None, as no Kubernetes is run; see `ClusterProvider.kubernetes_version`."""

    def made_from(self) -> Mapping[str, str]:
        """Return nothing, as no cluster is made; see `ClusterProvider.made_from`."""
        return {}

    def close(self) -> None:
        """Do nothing, as `run` leaves nothing; see `ClusterProvider.close`."""

    def _pods(self, job: JobSpec, speed: float, rng: random.Random) -> list[PodResult]:
        pods = []
        for number in range(job.pods):
            start = job.start_s + 0.5
            end = start + rng.uniform(5.0, 10.0) / speed
            outcome: PodOutcome = "succeeded" if number else self._outcome
            pods.append(
                PodResult(
                    name=f"{job.name}-{number}",
                    job=job.name,
                    node="node-0",
                    created_s=job.start_s,
                    scheduled_s=start,
                    started_s=start,
                    finished_s=end,
                    outcome=outcome,
                )
            )
        return pods


@dataclass(frozen=True)
class FakeTrial:
    """A `Trial` of a `FakeProvider`."""

    provider: FakeProvider
    scenario: Scenario
    scheduler: SchedulerSpec
    settings: Mapping[str, Any]

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Let the provider make up a repetition; see `Trial.run`."""
        return self.provider.run(self.scenario, self.scheduler, seed, self.settings, on_progress)
