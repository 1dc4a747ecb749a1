"""A sweep as asked for, and the points that it consists of. It is kept as `sweep.json` in its run's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from carico.files import write_whole
from testbed.errors import UsageError
from testbed.experiment.provider import ClusterProvider, Trial
from testbed.measurement.own import Measurement
from testbed.results.files import read_versioned
from testbed.schedulers.spec import OwnSpec, parse_spec
from testbed.sweep.axis import Axis
from testbed.sweep.programs import hashes_of
from workloads.scenario import Scenario

SCHEMA_VERSION = 1
FILE = "sweep.json"


class Sweep(msgspec.Struct, frozen=True):
    """What was asked for, of which programs: equal sweeps have equal results."""

    scenario: str
    scenario_sha256: str
    """Hash of its canonical JSON, before the axis and sizes change it."""
    over: str
    values: list[str]
    schedulers: list[str]
    sources: list[str | None]
    """Hashes of the files that define the schedulers, as far as they are one's own."""
    provider: str
    repetitions: int
    seed: int
    pods: int | None = None
    nodes: int | None = None
    settings: dict[str, Any] = {}
    programs: dict[str, str] = {}
    """Hashes of the modules and packages that decide what is measured; none in sweeps of earlier versions."""
    schema_version: int = SCHEMA_VERSION

    @property
    def axis(self) -> Axis:
        """What it is over."""
        return Axis(self.over, tuple(self.values))


@dataclass(frozen=True)
class Point:
    """A scheduler at a value, or at all values if the axis does not change it."""

    spec: str
    scenario: Scenario
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]


def scenario_sha256(scenario: Scenario) -> str:
    """Return the hash that a `Sweep` has of its scenario."""
    return hashlib.sha256(msgspec.json.encode(scenario, order="sorted")).hexdigest()


def sources_of(schedulers: Sequence[str], axis: Axis) -> list[str | None]:
    """Return the hashes that a `Sweep` has of its schedulers' files; raises InvalidSpec."""
    texts = [axis.spec(text, axis.values[0]) or text for text in schedulers]
    return [parse_spec(text).provenance.source_sha256 for text in texts]


def programs_of(schedulers: Sequence[str], axis: Axis, measurements: Iterable[Measurement]) -> dict[str, str]:
    """Return the hashes that a `Sweep` has of programs; raises InvalidSpec."""
    specs = [parse_spec(axis.spec(text, axis.values[0]) or text) for text in schedulers]
    own = [one.kind.__module__ for one in specs if isinstance(one, OwnSpec)]
    return hashes_of([*own, *(one.measure.__module__ for one in measurements)])


def differing_programs(earlier: Sweep, later: Sweep) -> list[str] | None:
    """Return what has changed since an earlier sweep; None if it is another sweep.

    Examples
    --------
    >>> earlier = Sweep("pi-2000", "", "nodes", ["1"], ["own:Fit"], [None], "simulated", 1, 1, programs={"own": "a"})
    >>> differing_programs(earlier, msgspec.structs.replace(earlier, programs={"own": "b"}))
    ['own']
    """
    if msgspec.structs.replace(earlier, sources=later.sources, programs=later.programs) != later:
        return None
    before, after = earlier.programs, later.programs
    programs = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    sources = zip(later.schedulers, earlier.sources, later.sources, strict=True)
    return programs or [text for text, theirs, ours in sources if theirs != ours]


def points(sweep: Sweep, scenario: Scenario) -> list[Point]:
    """Return all points, each once.

    Raises
    ------
    UsageError
        If the axis contradicts the other options.
    WorkloadError
        If the scenario has no such size.
    """
    axis, found = sweep.axis, []
    if (given := {"pods": sweep.pods, "nodes": sweep.nodes}.get(sweep.over)) is not None:
        raise UsageError(f"--{sweep.over} {given}: that is what --over changes: leave it out")
    if sweep.over in sweep.settings:
        raise UsageError(f"--set {sweep.over}: that is what --over changes: leave it out")
    if sweep.over == "seeds" and sweep.repetitions > 1:
        raise UsageError("--over seeds: each seed is one repetition: leave out --repetitions")
    scenario = scenario.scaled(sweep.pods, sweep.nodes)
    seeds = tuple(range(sweep.seed, sweep.seed + sweep.repetitions))
    is_setting = axis.scheduler is None and sweep.over not in ("pods", "nodes", "seeds")
    for value in sweep.values:
        sizes = {name: int(value) for name in ("pods", "nodes") if sweep.over == name}
        scaled = scenario.scaled(**sizes) if sizes else scenario
        settings = sweep.settings | ({sweep.over: value} if is_setting else {})
        for text in sweep.schedulers:
            spec = axis.spec(text, value)
            point = Point(
                text if spec is None else spec, scaled, settings, (int(value),) if sweep.over == "seeds" else seeds
            )
            if point not in found:
                found.append(point)
    return found


def trials(all_points: list[Point], provider: ClusterProvider) -> list[tuple[Trial, int]]:
    """Check every point, and return what is to be run: seed by seed, so that an early end has something of everything.

    Raises what `ClusterProvider.check` raises.
    """
    checked = [(provider.check(one.scenario, parse_spec(one.spec), one.settings), one.seeds) for one in all_points]
    most = max(len(seeds) for _, seeds in checked)
    return [(trial, seeds[turn]) for turn in range(most) for trial, seeds in checked if turn < len(seeds)]


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write `sweep.json` to a run's folder; raises OSError."""
    write_whole(folder / FILE, msgspec.json.format(msgspec.json.encode(sweep)) + b"\n")


def read_sweep(folder: Path) -> Sweep | None:
    """Return the sweep of a run's folder; None if the run is none. Raises ResultsError."""
    file = folder / FILE
    return read_versioned(file, Sweep, SCHEMA_VERSION, "description of a sweep") if file.is_file() else None
