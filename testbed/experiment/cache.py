"""A provider of which nothing is asked twice: what one process of a run has measured, all of them know.

Every repetition is in the run's folder as soon as it is finished, so nothing that ends a process loses it; disturbed
attempts at it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from testbed.experiment.provider import ClusterProvider, OnProgress
from testbed.experiment.retry import run_undisturbed
from testbed.requirements import Problem
from testbed.results.locks import locked
from testbed.results.repetition_log import Line
from testbed.results.runs import RunFolder
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario


class Remembered:
    """Stands before another provider, which runs what is not known yet.

    Parameters
    ----------
    provider : ClusterProvider
    folder : RunFolder
        Where it is remembered; must be there.
    attempts : int
        How often a repetition is run at most; see `run_undisturbed`.
    """

    def __init__(self, provider: ClusterProvider, folder: RunFolder, attempts: int = 1) -> None:
        self.name = provider.name
        self.shared_hardware = provider.shared_hardware
        self._provider = provider
        self._folder = folder
        self._attempts = attempts
        self._known: dict[str, Repetition] = {}

    def preflight(self) -> Sequence[Problem]:
        """Ask the provider; see `ClusterProvider.preflight`."""
        return self._provider.preflight()

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
        """Return what is known, or run it; see `ClusterProvider.run`.

        Raises
        ------
        ResultsError
            If what was measured cannot be written.
        """
        # Settings that are spelled differently, or not at all, may be the same.
        in_force = self._provider.check(scenario, scheduler, settings)
        key = _sha256((scenario, scheduler.text, seed, in_force))
        if key not in self._known:
            lines = self._folder.lines
            known = lines.find(key)
            if known is None:
                # Who asks for what another process is running waits for it: nobody holds two of these locks.
                with locked(self._folder.locks / key):
                    if lines.find(key) is None:
                        once = partial(self._provider.run, scenario, scheduler, seed, settings)
                        disturbed, workload = self._folder.disturbed, _sha256(scenario)
                        measured = run_undisturbed(
                            once,
                            self._attempts,
                            disturbed.find_all(key),
                            lambda one: disturbed.append(Line(key, workload, one)),
                            on_progress,
                        )
                        lines.append(Line(key, workload, measured))
                # Read back even if it was measured here: a test sees the same values wherever it runs.
                known = lines.find(key)
                assert known is not None
            self._known[key] = known
        return self._known[key]

    def kubernetes_version(self) -> str | None:
        """Ask the provider; see `ClusterProvider.kubernetes_version`."""
        return self._provider.kubernetes_version()

    def close(self) -> None:
        """Close the provider; see `ClusterProvider.close`."""
        self._provider.close()


def _sha256(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
