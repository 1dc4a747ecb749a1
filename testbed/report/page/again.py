"""The command that measures again what a section shows; none where no command is certain to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from testbed.errors import TestbedError
from testbed.measurement.repetition import settings_of_scenario
from testbed.report.groups import Section
from testbed.results.run import Run
from testbed.simulation.parameters import parameters_from
from workloads.errors import WorkloadError
from workloads.scenario import Scenario, load_scenario


def command_for(section: Section, run: Run | None) -> str | None:
    """Return the shell command: derived from what was recorded and checked against it, else the run's own.

    None for a file that belongs to no run, of something that no command of `carico-testbed run` measures.
    """
    derived = _derived(section)
    if derived is not None:
        return derived
    return None if run is None else shlex.join(run.command)


def _derived(section: Section) -> str | None:
    repetitions = [one for runs in section.runs.values() for one in runs]
    first, recorded = repetitions[0], _plain(repetitions[0].settings)
    seeds = {name: sorted(one.seed for one in runs) for name, runs in section.runs.items()}
    wanted = next(iter(seeds.values()))
    if "provider" in recorded or any(of_one != wanted for of_one in seeds.values()):
        return None  # a real cluster has options of its own
    if wanted != list(range(wanted[0], wanted[0] + len(wanted))):
        return None
    try:
        as_written = load_scenario(first.scenario)
        options, scenario = _scaled(as_written, recorded)
        changed = {name: value for name, value in recorded.items() if value != _defaults(scenario).get(name)}
        settings = {name: _typed(value) for name, value in changed.items()}
        again = _plain(settings_of_scenario(scenario) | msgspec.to_builtins(parameters_from(settings)))
    except (TestbedError, WorkloadError, ValueError, TypeError, OSError, KeyError):
        return None
    if again != recorded:
        return None
    words = ["carico-testbed", "run", first.scenario, "--scheduler", *section.runs, *options]
    words += ["--repetitions", str(len(wanted)), "--seed", str(wanted[0])]
    for name, text in settings.items():
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def _scaled(scenario: Scenario, recorded: dict[str, Any]) -> tuple[Sequence[str], Scenario]:
    """Return the options that give the scenario its recorded size, and the scenario in that size."""
    measured = [job for job in recorded["jobs"] if not job["disturbance"]]
    pods = measured[0]["pods"] if len(measured) == 1 else None
    own = [job.pods for job in scenario.jobs if not job.disturbance]
    pods = None if own == [pods] else pods
    nodes = None if recorded["nodes"] == scenario.cluster.nodes else recorded["nodes"]
    options = [*([] if pods is None else ["--pods", str(pods)]), *([] if nodes is None else ["--nodes", str(nodes)])]
    return options, scenario.scaled(pods, nodes)


def _defaults(scenario: Scenario) -> dict[str, Any]:
    return _plain(settings_of_scenario(scenario) | msgspec.to_builtins(parameters_from({})))


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"no option sets {value!r}")
    return str(value)


def _plain(settings: Any) -> dict[str, Any]:
    """As a file gives them back."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    return found
