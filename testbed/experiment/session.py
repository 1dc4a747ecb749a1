"""The experiments of one pytest session: an experiment that several tests ask for is run once.

Not here: pytest's side (`testbed.plugin.fixtures`), running (`plan`) and keeping repetitions (`cache`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.experiment.cache import Cache
from testbed.experiment.extensions import Extensions
from testbed.experiment.plan import OnProgress, Plan
from testbed.experiment.presets import Preset
from testbed.experiment.progress import Pace, ProgressLine, phase_of
from testbed.experiment.provider import ClusterProvider
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from workloads.scenario import Scenario


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
    ) -> None:
        self.provider = provider
        self._cache = cache
        self.preset = preset
        self.repetitions = repetitions
        self.seed = seed
        self.settings = settings
        self._progress = progress
        self._extensions = Extensions() if extensions is None else extensions

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
        plan = Plan(
            loaded.scaled(pods, nodes),
            tuple(parse_spec(scheduler, self._extensions.schedulers) for scheduler in schedulers),
            repetitions=self.repetitions if repetitions is None else repetitions,
            seed=self.seed if seed is None else seed,
            settings={**self.settings, **(settings or {})},
        )
        try:
            measured = plan.check(self.provider).run(self._shown(), through=self._cache.trial)
        finally:
            if self._progress is not None:
                self._progress.clear()
        return {text: [one for one in measured if one.scheduler == text] for text in schedulers}

    def _shown(self) -> OnProgress | None:
        if (line := self._progress) is None:
            return None
        pace = Pace()
        return lambda one, progress: line.show(pace.describe(one, progress), phase_of(progress))
