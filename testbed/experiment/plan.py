"""Experiments: a scenario under one or several schedulers, repeated.

A plan decides what is run, in which order and with which seed; it knows nothing of clusters or reports. Schedulers take
turns, and the order of the turns alternates (A B, B A, ...), so that drift on a real cluster affects all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from typing import Any

import msgspec

from testbed.errors import UsageError
from testbed.experiment.presets import DEFAULT_SEED
from testbed.experiment.processes import process_pool
from testbed.experiment.provider import ClusterProvider, Progress, Trial
from testbed.results.schema import AA_CHECK, Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario


@dataclass(frozen=True)
class Pass:
    """One run of a plan."""

    scenario: Scenario
    scheduler: SchedulerSpec
    seed: int
    number: int
    """The number of the scheduler's repetition, from 1 on."""
    of: int
    place: int
    """The place of this run among all of the plan, from 0 on."""
    places: int
    of_aa_check: bool = False

    def __str__(self) -> str:
        check = " (A/A)" if self.of_aa_check else ""
        return f"{self.scenario.name} × {self.scheduler.text}{check} · rep {self.number}/{self.of}"


OnProgress = Callable[[Pass, Progress], None]


@dataclass(frozen=True)
class Twice:
    """A scheduler of a plan that is measured a second time in every turn, for the A/A check."""

    scheduler: SchedulerSpec
    seed: int
    """The seed of the first repetition."""


@dataclass(frozen=True)
class AaTrial:
    """A `Trial` whose repetitions are for the A/A check only."""

    trial: Trial

    @property
    def scenario(self) -> Scenario:
        """See `Trial`."""
        return self.trial.scenario

    @property
    def scheduler(self) -> SchedulerSpec:
        """See `Trial`."""
        return self.trial.scheduler

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Trial`."""
        return {**self.trial.settings, AA_CHECK: True}

    def run(self, seed: int, on_progress: Callable[[Progress], None] | None = None) -> Repetition:
        """See `Trial.run`."""
        found = self.trial.run(seed, on_progress)
        return msgspec.structs.replace(found, settings={**found.settings, AA_CHECK: True})


@dataclass(frozen=True)
class Plan:
    """An experiment to run.

    Raises
    ------
    UsageError
        If there is no scheduler, one is named twice, or a number is out of range.
    """

    scenario: Scenario
    """Already scaled to the wanted size."""
    schedulers: tuple[SchedulerSpec, ...]
    repetitions: int = 1
    seed: int = DEFAULT_SEED
    """The seed of the first repetition; the next ones have the following numbers. All schedulers get the same seeds."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the provider that differ from its defaults, by name."""
    twice: Twice | None = None

    def __post_init__(self) -> None:
        names = [scheduler.text for scheduler in self.schedulers]
        if not names:
            raise UsageError("an experiment needs at least one scheduler, got none")
        if len(set(names)) != len(names):
            raise UsageError(f"name each scheduler once, got {' '.join(names)}; for more runs ask for repetitions")
        if self.repetitions < 1:
            raise UsageError(f"an experiment needs at least one repetition, got {self.repetitions}")
        if self.seed < 0:
            raise UsageError(f"a seed must not be negative, got {self.seed}")

    def check(self, provider: ClusterProvider) -> CheckedPlan:
        """Check that a provider can run the plan; raises what `ClusterProvider.check` raises."""
        trials = {
            scheduler.text: provider.check(self.scenario, scheduler, self.settings) for scheduler in self.schedulers
        }
        return CheckedPlan(self, trials, provider.name, provider.shared_hardware)

    def passes(self) -> list[Pass]:
        """Return all runs of the plan, in order."""
        of_turn = [(scheduler, self.seed, False) for scheduler in self.schedulers]
        if self.twice is not None:
            of_turn.append((self.twice.scheduler, self.twice.seed, True))
        order = [
            (turn, one) for turn in range(self.repetitions) for one in (reversed(of_turn) if turn % 2 else of_turn)
        ]
        return [
            Pass(self.scenario, scheduler, first + turn, turn + 1, self.repetitions, place, len(order), of_aa_check)
            for place, (turn, (scheduler, first, of_aa_check)) in enumerate(order)
        ]


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that a provider can run."""

    plan: Plan
    trials: Mapping[str, Trial]
    """By the scheduler's spec."""
    provider: str
    shared_hardware: bool
    """See `ClusterProvider`."""

    def run(
        self,
        on_progress: OnProgress | None = None,
        processes: int = 1,
        through: Callable[[Trial], Trial] = lambda trial: trial,
    ) -> list[Repetition]:
        """Run all passes and return their repetitions in the order of `Plan.passes`.

        Parameters
        ----------
        on_progress : callable, optional
            Called with the current pass and its progress; with several processes only when a pass is done.
        processes : int
            Passes that run at the same time, each in a process of its own; then trials must be picklable. The results
            do not depend on it.
        through : callable, optional
            Returns the trial to run in place of the given one, for example one that caches results (`Cache.trial`).

        Raises
        ------
        UsageError
            If `processes` is less than one, or more than one on shared hardware.
        TestbedError
            If a run fails, or its process dies.
        """
        if processes < 1:
            raise UsageError(f"at least one process is needed, got {processes}")
        if processes > 1 and self.shared_hardware:
            raise UsageError(f"runs on the provider {self.provider} would disturb one another: use one process")
        trials = {(text, False): through(trial) for text, trial in self.trials.items()}
        trials |= {(text, True): through(AaTrial(trial)) for text, trial in self.trials.items()}
        if processes > 1:
            return _run_in_processes(self.plan.passes(), trials, on_progress, processes)
        repetitions = []
        for one in self.plan.passes():
            tell = None if on_progress is None else _about(one, on_progress)
            repetitions.append(trials[one.scheduler.text, one.of_aa_check].run(one.seed, tell))
        return repetitions


def _run_in_processes(
    passes: Sequence[Pass], trials: Mapping[tuple[str, bool], Trial], on_progress: OnProgress | None, processes: int
) -> list[Repetition]:
    with process_pool(processes) as pool:
        futures = {pool.submit(trials[one.scheduler.text, one.of_aa_check].run, one.seed): one for one in passes}
        for future in as_completed(futures):
            repetition, one = future.result(), futures[future]
            if on_progress is not None:
                on_progress(one, _done(repetition))
    return [future.result() for future in futures]


def _done(repetition: Repetition) -> Progress:
    pods = len(repetition.pods)
    return Progress("done", bound=pods, finished=pods, pods=pods)


def _about(one: Pass, on_progress: OnProgress) -> Callable[[Progress], None]:
    return lambda progress: on_progress(one, progress)
