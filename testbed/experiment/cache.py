"""A cache of repetitions: what one process of a run has measured, the other processes of the run do not measure again.

A repetition is written to the run's folder as soon as it is finished, so that it is not lost however the process ends;
so are attempts that were disturbed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from testbed.experiment.provider import OnProgress, Trial
from testbed.experiment.retry import run_with_retries
from testbed.measurement.own import Measurement
from testbed.results.locks import locked
from testbed.results.provenance import scheduler_used
from testbed.results.repetition_log import LogEntry
from testbed.results.runs import RunFolder
from testbed.results.schema import Repetition
from testbed.schedulers.spec import SchedulerSpec
from workloads.scenario import Scenario


class Cache:
    """The repetitions of one run.

    Parameters
    ----------
    folder : RunFolder
        The run's folder, which must exist.
    attempts : int
        The most times that a repetition is run; see `run_with_retries`.
    measurements : iterable of Measurement
        What is measured of every repetition beside what the testbed measures.
    """

    def __init__(self, folder: RunFolder, attempts: int = 1, measurements: Iterable[Measurement] = ()) -> None:
        self._folder = folder
        self._attempts = attempts
        self._measurements = tuple(measurements)
        self._known: dict[str, Repetition] = {}

    def trial(self, trial: Trial) -> CachedTrial:
        """Return a trial that runs only what is not in the cache yet."""
        return CachedTrial(trial, self)

    def measured(self, trial: Trial, seed: int, on_progress: OnProgress | None) -> Repetition:
        """Return a repetition of a trial: from the cache, or run now.

        Raises
        ------
        ResultsError
            If what was measured cannot be written.
        """
        key = _key(trial, seed)
        if key not in self._known:
            log = self._folder.log
            known = log.find(key)
            if known is None:
                # Wait if another process is running this repetition; no process holds two of these locks.
                with locked(self._folder.locks / key):
                    if log.find(key) is None:
                        log.append(self._run(key, trial, seed, on_progress))
                # Read back even if it was measured here, so that a test sees the same values in every process.
                known = log.find(key)
                assert known is not None
            self._known[key] = known
        return self._known[key]

    def has(self, trial: Trial, seed: int) -> bool:
        """Whether a repetition is in the cache."""
        return self._folder.log.find(_key(trial, seed)) is not None

    def keep(self, trial: Trial, seed: int, measured: Repetition) -> None:
        """Put a repetition into the cache that was run elsewhere; raises as `measured` does."""
        self._folder.log.append(self._entry(_key(trial, seed), trial, measured))

    def _run(self, key: str, trial: Trial, seed: int, on_progress: OnProgress | None) -> LogEntry:
        disturbed, workload = self._folder.disturbed_log, _sha256(trial.scenario)
        measured = run_with_retries(
            lambda tell: trial.run(seed, tell),
            self._attempts,
            earlier=disturbed.find_all(key),
            keep=lambda one: disturbed.append(LogEntry(key, workload, one)),
            on_progress=on_progress,
        )
        return self._entry(key, trial, measured)

    def _entry(self, key: str, trial: Trial, measured: Repetition) -> LogEntry:
        own = [item for one in self._measurements for item in one.items(measured)]
        if own:
            measured = msgspec.structs.replace(measured, data_items=[*measured.data_items, *own])
        return LogEntry(key, _sha256(trial.scenario), measured, scheduler_used(trial.scheduler))


@dataclass(frozen=True)
class CachedTrial:
    """A `Trial` that runs only what is not in the cache yet."""

    trial: Trial
    cache: Cache

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
        return self.trial.settings

    def run(self, seed: int, on_progress: OnProgress | None = None) -> Repetition:
        """Return the repetition, or run it; see `Trial.run` and `Cache.measured`."""
        return self.cache.measured(self.trial, seed, on_progress)


def _key(trial: Trial, seed: int) -> str:
    # The key has the settings in force: the given ones may be spelled differently, or left out, and mean the same.
    # It has what the scheduler is, too: one's own may have changed since.
    return _sha256((trial.scenario, scheduler_used(trial.scheduler), seed, trial.settings))


def _sha256(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
