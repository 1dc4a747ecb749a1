"""The experiments of one pytest session: an experiment that several tests ask for is run once.

Not here: pytest's side (`testbed.plugin.fixtures`), running (`plan`) and keeping repetitions (`cache`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.experiment.cache import Cache
from testbed.experiment.extensions import Extensions
from testbed.experiment.plan import OnProgress, Plan, Twice
from testbed.experiment.presets import Preset
from testbed.experiment.progress import Pace, ProgressLine, phase_of
from testbed.experiment.provider import ClusterProvider
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec, parse_spec
from workloads.scenario import Scenario

OTHER_SEEDS = 1_000_000
"""How far the seeds of the A/A check are from the session's."""


class Experiment:
    """The value of the fixture `carico_experiment`: runs scenarios under schedulers, with the session's options.

    Parameters
    ----------
    provider : ClusterProvider
    cache : Cache
        Keeps the repetitions.
    preset : Preset
    repetitions : int
        Default number of a run's repetitions.
    seed : int
        Seed of the first repetition of every run.
    settings : mapping
        Settings of every run; a run's own settings override them.
    progress : ProgressLine, optional
        Shows the progress of runs.
    extensions : Extensions, optional
        Schedulers and scenarios of one's own.
    aa_check : bool
        Whether the reference of every experiment is measured twice.
    reference : str, optional
        The scheduler that is, where it is run; by default the first of each experiment, as tables are sorted.
    """

    def __init__(
        self,
        provider: ClusterProvider,
        cache: Cache,
        *,
        preset: Preset,
        repetitions: int,
        seed: int,
        settings: Mapping[str, Any],
        progress: ProgressLine | None = None,
        extensions: Extensions | None = None,
        aa_check: bool = False,
        reference: str | None = None,
    ) -> None:
        self.provider = provider
        self._cache = cache
        self.preset = preset
        self.repetitions = repetitions
        self.seed = seed
        self.settings = settings
        self._progress = progress
        self._extensions = Extensions() if extensions is None else extensions
        self._aa_check = aa_check
        self._reference = reference

    def run(
        self,
        scenario: str | Scenario,
        scheduler: str,
        *,
        pods: int | None = None,
        nodes: int | None = None,
        repetitions: int | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> list[Repetition]:
        """Run a scenario under a scheduler and return the repetitions in the order of their seeds.

        Parameters
        ----------
        scenario : str or Scenario
            A name of the catalogue, a path to a YAML file, or the scenario itself.
        scheduler : str
            A spec, as for `carico-testbed run --scheduler`.
        pods, nodes : int, optional
            Sizes that differ from the scenario's.
        repetitions : int, optional
            By default as in the session's options and preset.
        seed : int, optional
            The seed of the first repetition; the session's by default.
        settings : mapping, optional
            Settings that override the session's.

        Raises
        ------
        TestbedError, WorkloadError
            If an argument names something that does not exist, or is invalid.
        """
        runs = self.compare(
            scenario, [scheduler], pods=pods, nodes=nodes, repetitions=repetitions, seed=seed, settings=settings
        )
        return runs[scheduler]

    def compare(
        self,
        scenario: str | Scenario,
        schedulers: Sequence[str],
        *,
        pods: int | None = None,
        nodes: int | None = None,
        repetitions: int | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, list[Repetition]]:
        """Run a scenario under several schedulers in turns and return the repetitions by scheduler; see `run`."""
        loaded = self._extensions.scenario(scenario) if isinstance(scenario, str) else scenario
        specs = tuple(parse_spec(scheduler, self._extensions.schedulers) for scheduler in schedulers)
        first_seed = self.seed if seed is None else seed
        plan = Plan(
            loaded.scaled(pods, nodes),
            specs,
            repetitions=self.repetitions if repetitions is None else repetitions,
            seed=first_seed,
            settings={**self.settings, **(settings or {})},
            twice=self._twice(specs, first_seed) if self._aa_check else None,
        )
        try:
            measured = plan.check(self.provider).run(self._shown(), through=self._cache.trial)
        finally:
            if self._progress is not None:
                self._progress.clear()
        return {text: [one for one in measured if one.scheduler == text and not one.of_aa_check] for text in schedulers}

    def _twice(self, specs: Sequence[SchedulerSpec], seed: int) -> Twice:
        named = [one for one in specs if one.text == self._reference]
        chosen = named[0] if named else min(specs, key=lambda one: one.text)
        # Where nothing disturbs runs, equal seeds give equal results, and only other seeds show noise.
        return Twice(chosen, seed if self.provider.shared_hardware else seed + OTHER_SEEDS)

    def _shown(self) -> OnProgress | None:
        if (line := self._progress) is None:
            return None
        pace = Pace()
        return lambda one, progress: line.show(pace.describe(one, progress), phase_of(progress))
