"""The markers: `cluster` says that a test needs a cluster, `carico` what it wants to be run there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.clusters.kinds import provider_named
from testbed.errors import UsageError
from testbed.options import Options
from testbed.requirements import check_installed
from testbed.schedulers import DEFAULT_SCHEDULERS

CLUSTER = "cluster"
CARICO = "carico"
KEYS = ("scenario", "scheduler", "repetitions", "fail_on")


@dataclass(frozen=True)
class MarkedExperiment:
    """What a `carico` marker asks for."""

    scenario: str
    schedulers: tuple[str, ...] = DEFAULT_SCHEDULERS
    repetitions: int | None = None


def declare_markers(config: pytest.Config) -> None:
    """Make the markers known."""
    config.addinivalue_line(
        "markers", "cluster: needs a cluster; is left out unless asked for with -m cluster, by name, or by an option"
    )
    config.addinivalue_line(
        "markers",
        "carico(scenario, scheduler=('carico', 'kube-scheduler'), repetitions=None, fail_on=None): what the fixture "
        "carico_results runs for the test; scheduler is one spec or a list of them",
    )


def is_cluster(item: pytest.Item) -> bool:
    """Whether a test is marked `cluster` (a folder of that name is not enough)."""
    return item.get_closest_marker(CLUSTER) is not None


def experiment_of(item: pytest.Item) -> MarkedExperiment | None:
    """Return what the `carico` marker of a test asks for; None without one.

    Raises
    ------
    UsageError
        If the marker has a key that is not known, or a value that cannot be used.
    """
    marker = item.get_closest_marker(CARICO)
    if marker is None:
        return None
    given: dict[str, Any] = {**dict(zip(KEYS, marker.args, strict=False)), **marker.kwargs}
    unknown = sorted(set(given) - set(KEYS))
    if unknown or len(marker.args) > len(KEYS):
        what = ", ".join(unknown) or f"a {len(KEYS) + 1}th argument"
        raise UsageError(f"{item.nodeid}: the marker carico does not know {what}; known: {', '.join(KEYS)}")
    if given.get("fail_on") is not None:
        # An ignored gate would be a green test that checks nothing.
        raise UsageError(f"{item.nodeid}: fail_on needs a baseline, which this version cannot compare with; use assert")
    scenario, scheduler = given.get("scenario"), given.get("scheduler", DEFAULT_SCHEDULERS)
    repetitions = given.get("repetitions")
    if not isinstance(scenario, str):
        raise UsageError(f"{item.nodeid}: the marker carico needs scenario='NAME', got {scenario!r}")
    listed = isinstance(scheduler, (list, tuple)) and all(isinstance(spec, str) for spec in scheduler)
    if not (isinstance(scheduler, str) or listed):
        raise UsageError(
            f"{item.nodeid}: the marker carico needs scheduler='SPEC' or a list of them, got {scheduler!r}"
        )
    if not (repetitions is None or (isinstance(repetitions, int) and repetitions >= 1)):
        raise UsageError(f"{item.nodeid}: the marker carico needs repetitions from 1 on, got {repetitions!r}")
    schedulers = (scheduler,) if isinstance(scheduler, str) else tuple(scheduler)
    return MarkedExperiment(scenario, schedulers, repetitions)


def check_markers(items: Iterable[pytest.Item], left_out: Iterable[pytest.Item], options: Options) -> None:
    """Check what the markers of all these tests ask for, before the first of them has run for minutes.

    Of those that are left out only the keys are looked at, which costs nothing.

    Raises
    ------
    UsageError, WorkloadError
        If one of them asks for something that does not exist, makes no sense or cannot be run.
    MissingExtra
        If the packages to run it with are not installed.
    """
    for item in left_out:
        experiment_of(item)
    for asked, item in [(experiment_of(item), item) for item in items]:
        if asked is None:
            continue
        check_installed()
        from testbed.experiment import Plan
        from testbed.schedulers.spec import parse_spec
        from workloads.errors import WorkloadError
        from workloads.scenario import load_scenario

        try:
            schedulers = tuple(parse_spec(text) for text in asked.schedulers)
            scenario = load_scenario(asked.scenario)
            Plan(scenario, schedulers, 1 if asked.repetitions is None else asked.repetitions)
            for scheduler in schedulers:
                provider_named(options.provider).check(scenario, scheduler, options.settings)
        except (UsageError, WorkloadError) as error:
            raise UsageError(f"{item.nodeid}: marker carico: {error}") from error
