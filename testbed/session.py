"""The experiments of one pytest session: what tests ask for is run once, however many of them ask.

Not pytest's side (that is `testbed.fixtures`) and not the engine (`testbed.experiment`). Every finished repetition is
in a folder at once: other worker processes find it there, and an interruption loses nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from testbed.clusters.provider import ClusterProvider, OnProgress, Progress
from testbed.experiment import Pass, Plan, run_plan
from testbed.presets import Preset
from testbed.progress import ProgressLine, describe
from testbed.results.schema import Repetition, Results
from testbed.results.store import read_results, write_results
from testbed.schedulers.spec import SchedulerSpec, parse_spec
from workloads.scenario import Scenario, load_scenario


class Remembered:
    """A provider that runs nothing twice: it remembers what another one measured.

    Parameters
    ----------
    provider : ClusterProvider
        Who runs what is not known yet.
    folder : Path
        Where it is remembered, a results file for every repetition.
    """

    def __init__(self, provider: ClusterProvider, folder: Path) -> None:
        self.name = provider.name
        self._provider = provider
        self._folder = folder
        self._known: dict[str, Repetition] = {}

    def check(self, scenario: Scenario, scheduler: SchedulerSpec, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the provider; see `ClusterProvider.check`."""
        return self._provider.check(scenario, scheduler, settings)

    def run(
        self,
        scenario: Scenario,
        scheduler: SchedulerSpec,
        seed: int,
        settings: Mapping[str, Any],
        on_progress: OnProgress | None = None,
    ) -> Repetition:
        """Return what is known, or run it; see `ClusterProvider.run`."""
        # Settings that are spelled differently, or not at all, may be the same.
        in_force = self._provider.check(scenario, scheduler, settings)
        asked = msgspec.json.encode((scenario, scheduler.text, seed, in_force), order="sorted")
        key = hashlib.sha256(asked).hexdigest()
        if key not in self._known:
            file = self._folder / f"{key}.json"
            if not file.exists():
                measured = self._provider.run(scenario, scheduler, seed, settings, on_progress)
                write_results(file, Results([measured]))
            # Read back even if it was measured here: a test sees the same values wherever it runs.
            self._known[key] = read_results(file).repetitions[0]
        return self._known[key]


class Experiment:
    """What the fixture `carico_experiment` gives: runs scenarios under schedulers, with the session's options.

    Parameters
    ----------
    provider : ClusterProvider
    preset : Preset
    repetitions : int
        Of a run that does not say how many.
    seed : int
        Of the first repetition of every run.
    settings : mapping
        For every run; a run's own settings come on top.
    progress : ProgressLine, optional
        Where to say how far a run is.
    """

    def __init__(
        self,
        provider: ClusterProvider,
        preset: Preset,
        repetitions: int,
        seed: int,
        settings: Mapping[str, Any],
        progress: ProgressLine | None = None,
    ) -> None:
        self.provider = provider
        self.preset = preset
        self.repetitions = repetitions
        self.seed = seed
        self.settings = settings
        self._progress = progress

    def run(
        self,
        scenario: str | Scenario,
        scheduler: str,
        *,
        pods: int | None = None,
        nodes: int | None = None,
        repetitions: int | None = None,
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
            Other sizes than the scenario's.
        repetitions : int, optional
            Otherwise what the options and the preset of the session say.
        settings : mapping, optional
            On top of those of the session.

        Raises
        ------
        TestbedError, WorkloadError
            If something that was asked for does not exist or makes no sense.
        """
        runs = self.compare(scenario, [scheduler], pods=pods, nodes=nodes, repetitions=repetitions, settings=settings)
        return runs[scheduler]

    def compare(
        self,
        scenario: str | Scenario,
        schedulers: Sequence[str],
        *,
        pods: int | None = None,
        nodes: int | None = None,
        repetitions: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, list[Repetition]]:
        """Run a scenario under several schedulers in turns; as `run`, the repetitions by scheduler."""
        loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
        plan = Plan(
            loaded.scaled(pods, nodes),
            tuple(parse_spec(scheduler) for scheduler in schedulers),
            self.repetitions if repetitions is None else repetitions,
            self.seed,
            {**self.settings, **(settings or {})},
        )
        try:
            measured = run_plan(plan, self.provider, None if self._progress is None else self._show)
        finally:
            if self._progress is not None:
                self._progress.clear()
        return {text: [one for one in measured if one.scheduler == text] for text in schedulers}

    def _show(self, one: Pass, progress: Progress) -> None:
        assert self._progress is not None
        self._progress.show(describe(one, progress))
