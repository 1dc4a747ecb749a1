"""The experiments that tests' markers name, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from testbed.comparison.conditions import conditions
from testbed.errors import TestbedError, UsageError, suggested
from testbed.plugin.markers import CARICO
from testbed.plugin.options import Options
from testbed.providers import PROVIDERS
from testbed.requirements import Problem
from testbed.schedulers import DEFAULT_SCHEDULERS

if TYPE_CHECKING:
    from testbed.experiment.extensions import Extensions
    from testbed.experiment.provider import ClusterProvider

KEYS = ("scenario", "scheduler", "repetitions", "fail_on")
PROVIDERS_KEY = "providers"


@dataclass(frozen=True)
class MarkedExperiment:
    """The experiment of a `carico` marker."""

    scenario: str
    schedulers: tuple[str, ...] = DEFAULT_SCHEDULERS
    repetitions: int | None = None
    fail_on: tuple[str, ...] = ()
    """The conditions of the test's own gate."""


def experiment_of(item: pytest.Item) -> MarkedExperiment | None:
    """Return the experiment of a test's `carico` marker; None if it has no such marker.

    Raises
    ------
    UsageError
        If the marker has an unknown key, or a value that cannot be used.
    """
    _check_providers(item)
    marker = next((one for one in item.iter_markers(CARICO) if one.args or set(one.kwargs) != {PROVIDERS_KEY}), None)
    if marker is None:
        return None
    given: dict[str, Any] = {**dict(zip(KEYS, marker.args, strict=False)), **marker.kwargs}
    unknown = sorted(set(given) - {*KEYS, PROVIDERS_KEY})
    if unknown or len(marker.args) > len(KEYS):
        what, known = ", ".join(unknown) or f"a {len(KEYS) + 1}th argument", [*KEYS, PROVIDERS_KEY]
        raise UsageError(f"the marker carico does not know {what}{suggested(what, known)}")
    fail_on = () if given.get("fail_on") is None else _names(given["fail_on"])
    if given.get("fail_on") is not None and not fail_on:
        raise UsageError(f"the marker carico needs fail_on='CONDITION' or a list of them, got {given['fail_on']!r}")
    conditions(fail_on)
    scenario, scheduler = given.get("scenario"), given.get("scheduler", DEFAULT_SCHEDULERS)
    repetitions = given.get("repetitions")
    if not isinstance(scenario, str):
        raise UsageError(f"the marker carico needs scenario='NAME', got {scenario!r}")
    listed = isinstance(scheduler, (list, tuple)) and all(isinstance(spec, str) for spec in scheduler)
    if not (isinstance(scheduler, str) or listed):
        raise UsageError(f"the marker carico needs scheduler='SPEC' or a list of them, got {scheduler!r}")
    if not (repetitions is None or (isinstance(repetitions, int) and repetitions >= 1)):
        raise UsageError(f"the marker carico needs repetitions from 1 on, got {repetitions!r}")
    schedulers = (scheduler,) if isinstance(scheduler, str) else tuple(scheduler)
    return MarkedExperiment(scenario, schedulers, repetitions, fail_on)


def providers_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the kinds of cluster that a test is for; an empty tuple if it names none."""
    for marker in item.iter_markers(CARICO):
        if names := _names(marker.kwargs.get(PROVIDERS_KEY)):
            return names
    return ()


def _check_providers(item: pytest.Item) -> None:
    for marker in item.iter_markers(CARICO):
        given = marker.kwargs.get(PROVIDERS_KEY, "any")
        if not _names(given):
            raise UsageError(f"the marker carico needs providers='NAME' or a list of them, got {given!r}")


def _names(given: object) -> tuple[str, ...]:
    """Return a string, or a list of strings, as a tuple; an empty one for anything else."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return tuple(given)
    return ()


def wrong_keys(items: Iterable[pytest.Item]) -> list[Problem]:
    """Return what is wrong with the markers' keys and values: a cheap check that needs no package of an extra."""
    return _problems(items, experiment_of)


def wrong_providers(items: Iterable[pytest.Item], mine: str) -> list[Problem]:
    """Return which markers name a provider that does not exist: their tests would never run.

    Parameters
    ----------
    items : iterable of pytest.Item
    mine : str
        The name of the session's provider, which a conftest.py may have made.
    """
    known = list(dict.fromkeys((*PROVIDERS, mine)))

    def check(item: pytest.Item) -> None:
        for name in providers_of(item):
            if name not in known:
                raise UsageError(f"marker carico: no provider is named {name!r}{suggested(name, known)}")

    return _problems(items, check)


def wrong_markers(
    items: Iterable[pytest.Item], options: Options, provider: ClusterProvider, extensions: Extensions
) -> list[Problem]:
    """Return what is wrong with the markers' experiments, before the first of them runs for minutes.

    An experiment may name something that does not exist, be invalid, or be impossible on the provider. This check needs
    the testbed's packages.
    """
    from testbed.experiment.plan import Plan
    from testbed.schedulers.spec import parse_spec
    from workloads.errors import WorkloadError

    def check(item: pytest.Item) -> None:
        asked = experiment_of(item)
        if asked is None:
            return
        try:
            schedulers = tuple(parse_spec(text, extensions.schedulers) for text in asked.schedulers)
            scenario = extensions.scenario(asked.scenario)
            repetitions = 1 if asked.repetitions is None else asked.repetitions
            Plan(scenario, schedulers, repetitions, settings=options.settings).check(provider)
        except (TestbedError, WorkloadError) as error:
            raise UsageError(f"marker carico: {error}") from error

    return _problems(items, check)


def _problems(items: Iterable[pytest.Item], check: Callable[[pytest.Item], object]) -> list[Problem]:
    """Return the errors of a check by test; an error that several cases of a test share is reported once."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in items:
        try:
            check(item)
        except UsageError as error:
            found.setdefault((item.nodeid.partition("[")[0], str(error)), []).append(item.nodeid)
    return [Problem(f"{cases[0] if len(cases) == 1 else test}: {message}") for (test, message), cases in found.items()]
