"""What can be run: all scenarios, schedulers, workloads and settings, as plain text."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from carico.model.variants import DEFAULT_VARIANT
from carico.variants import VARIANTS
from testbed.experiment.presets import PRESETS
from testbed.report.numbers import WIDTH, counted
from testbed.schedulers.own import installed
from testbed.simulation.parameter_sets import DEFAULT, PARAMETER_SETS
from testbed.simulation.parameters import SET, SimulationParameters, choices
from workloads.arrivals import PATTERNS
from workloads.demand import MODELS, signature_of
from workloads.scenario import NodePool, Scenario, catalogue


def listing(*kinds: str) -> list[str]:
    """Return everything of some kinds, or of all, under headings."""
    lines: list[str] = []
    for kind in kinds or KINDS:
        heading, entries = KINDS[kind]
        lines += ["", heading] if lines else [heading]
        for name, text in entries():
            lines += _entry(name, text)
    return lines


def listing_as_json(*kinds: str) -> dict[str, list[dict[str, str]]]:
    """Return everything by kind, each with its name, as it is to be written, and its description."""
    return {kind: [{"name": name, "description": text} for name, text in KINDS[kind][1]()] for kind in kinds or KINDS}


def _scenarios() -> Iterator[tuple[str, str]]:
    for scenario in catalogue():
        yield scenario.name, _described(scenario)


def _schedulers() -> Iterator[tuple[str, str]]:
    yield "carico", f"CARICO, which needs no requests; the variant {DEFAULT_VARIANT.name}"
    for variant in VARIANTS.values():
        yield f"carico:variant={variant.name}", variant.description
    yield "kube-scheduler", "the default scheduler, with the requests in the scenario"
    yield "kube-scheduler:cpu=100m,memory=750Mi", "the same, with these requests for every pod"
    for name, point in installed().items():
        yield name, f"installed: {point.value}"
    yield "module:Class,key=value", "one of your own, on the simulated cluster"
    yield "schedulerName=NAME,manifest=FILE", "any scheduler of a real cluster, which the manifest may deploy"


def _workloads() -> Iterator[tuple[str, str]]:
    for name, model in MODELS.items():
        yield f"{name}: {signature_of(model)}", _summary(model)


def _arrivals() -> Iterator[tuple[str, str]]:
    for pattern in PATTERNS:
        fields = ", ".join(_fields(pattern))
        yield f"{pattern.__struct_config__.tag}{': ' * bool(fields)}{fields}", _summary(pattern)


def _presets() -> Iterator[tuple[str, str]]:
    for preset in PRESETS.values():
        yield preset.name, preset.description


def _settings() -> Iterator[tuple[str, str]]:
    yield f"{SET}={DEFAULT}", f"One of {', '.join(PARAMETER_SETS)}: a named set of values; other settings override it"
    _, schemas = msgspec.json.schema_components((SimulationParameters,))
    for name, schema in schemas[SimulationParameters.__name__]["properties"].items():
        allowed = choices(name)
        one_of = f"One of {', '.join(allowed)}. " if allowed else ""
        yield f"{name}={schema['default']}", one_of + schema["description"]


KINDS: dict[str, tuple[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "scenarios": ("Scenarios (carico-testbed run SCENARIO)", _scenarios),
    "schedulers": ("Schedulers (--scheduler SPEC)", _schedulers),
    "workloads": ("Workloads (of a scenario of your own), with their parameters", _workloads),
    "arrivals": ("Arrivals of a job's pods (arrivals: {pattern: NAME, ...})", _arrivals),
    "presets": ("Presets (pytest -m cluster --carico-preset=NAME)", _presets),
    "settings": ("Settings of the simulated cluster (--set KEY=VALUE), with their defaults", _settings),
}
"""By kind, the heading and what yields the entries."""


def _fields(kind: Any) -> Iterator[str]:
    """The fields of a struct, with their defaults if they have any."""
    needed = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    for place, name in enumerate(kind.__struct_fields__):
        yield name if place < needed else f"{name}={kind.__struct_defaults__[place - needed]}"


def _summary(documented: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, as plain text."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def _described(scenario: Scenario) -> str:
    shape = scenario.cluster
    nodes = " and ".join(_pool(pool) for pool in shape.each_pool)
    jobs = ", ".join(f"{job.name} ({counted(job.pods, 'pod')})" for job in scenario.jobs)
    return f"{scenario.description}. {nodes}. Jobs: {jobs}"


def _pool(pool: NodePool) -> str:
    return f"{counted(pool.nodes, 'node')} of {pool.cores} cores and {pool.memory}"


def _entry(name: str, text: str) -> list[str]:
    return [
        f"  {name}",
        *textwrap.wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False),
    ]
