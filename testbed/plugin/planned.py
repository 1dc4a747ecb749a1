"""What the selected tests will measure, and whether the reference is among it, before anything runs.

Markers tell it. What a test without a marker measures, only the test itself knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from testbed.errors import InvalidSpec, suggested
from testbed.plugin.marked import experiment_of
from testbed.plugin.options import Options
from testbed.requirements import Problem

if TYPE_CHECKING:
    from testbed.experiment.extensions import Extensions


@dataclass(frozen=True)
class Planned:
    """What a test will measure under one scheduler."""

    test: str
    scenario: str
    """Empty, as is the scheduler, if only the test itself knows."""
    scheduler: str
    repetitions: int
    by_marker: bool
    """Whether the marker sets the number."""
    gated: bool
    """Whether the test has a gate of its own."""


def planned(items: Iterable[pytest.Item], options: Options, extensions: Extensions) -> list[Planned]:
    """Return what tests will measure whose markers are valid."""
    found: list[Planned] = []
    for item in items:
        fixtures, asked = getattr(item, "fixturenames", ()), experiment_of(item)
        test = item.nodeid.partition("[")[0]
        if asked is not None and "carico_results" in fixtures:
            default = options.gate_repetitions if asked.fail_on else options.repetitions
            number, scenario = asked.repetitions or default, extensions.scenario(asked.scenario).name
            by_marker, gated = asked.repetitions is not None, bool(asked.fail_on)
            found += [Planned(test, scenario, one, number, by_marker, gated) for one in asked.schedulers]
        elif "carico_experiment" in fixtures:
            found.append(Planned(test, "", "", options.repetitions, by_marker=False, gated=False))
    return found


def reference_problems(
    plans: Sequence[Planned], options: Options, extensions: Extensions, *, only_here: bool
) -> list[Problem]:
    """Return why the reference that was asked for can be none.

    Parameters
    ----------
    plans : sequence of Planned
    options : Options
    extensions : Extensions
    only_here : bool
        Whether the reference is for these tests alone, so that one of them must run it.
    """
    from testbed.schedulers.spec import parse_spec

    wanted, known = options.reference, list(dict.fromkeys(one.scheduler for one in plans))
    if wanted is None or not plans or wanted in known:
        return []
    if only_here and "" not in known:
        return [Problem(f"--carico-reference {wanted}: no selected test runs this scheduler{suggested(wanted, known)}")]
    try:
        parse_spec(wanted, extensions.schedulers)
    except InvalidSpec as error:
        return [Problem(f"--carico-reference: {error}")]
    return []
