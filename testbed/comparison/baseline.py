"""Baselines: what a run measured, in a small file that is committed and that later runs are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from carico.files import write_whole
from testbed.comparison.measured import Measured
from testbed.comparison.runs import differing
from testbed.errors import ResultsError, UnusableFile
from testbed.results.files import read_versioned
from testbed.results.run import Commit, Machine, Run

BASELINE_SCHEMA_VERSION = 1


class MadeBy(msgspec.Struct, frozen=True):
    """The run that made a baseline."""

    run: str
    started: str
    command: list[str]
    provider: str
    python: str
    packages: dict[str, str]
    commit: Commit | None
    machine: Machine | None = None
    """None in baselines of earlier versions."""


class Baseline(msgspec.Struct, frozen=True):
    """A baseline file."""

    made_by: MadeBy
    measured: list[Measured]
    added_by: list[MadeBy] = []
    """Later runs that added what was lacking, or measured a part of it anew; only those of which something is left."""
    schema_version: int = BASELINE_SCHEMA_VERSION

    @property
    def makers(self) -> list[MadeBy]:
        """All runs that made it."""
        return [self.made_by, *self.added_by]

    @property
    def when(self) -> str:
        """The day on which it was made, or the first and the last of them."""
        days = sorted(one.started[:10] for one in self.makers)
        return " to ".join(dict.fromkeys((days[0], days[-1])))

    def makers_of(self, one: Measured) -> list[MadeBy]:
        """Return the run that measured an entry, or the runs that may have: those of earlier versions have no names."""
        named = {each.by for each in self.measured}
        return [maker for maker in self.makers if (maker.run == one.by if one.by else maker.run not in named)]

    def measured_on(self, provider: str) -> list[Measured]:
        """Return the entries that were measured on a kind of cluster, or may have been."""
        return [one for one in self.measured if provider in [maker.provider for maker in self.makers_of(one)]]


def baseline_of(run: Run, measured: list[Measured]) -> Baseline:
    """Return what a run measured as a baseline."""
    made_by = MadeBy(run.id, run.started, run.command, run.provider, run.python, run.packages, run.commit, run.machine)
    return Baseline(made_by, measured)


def lacking(baseline: Baseline, found: Sequence[Measured]) -> list[Measured]:
    """Return what a baseline lacks: scenarios, schedulers, or settings of them."""
    known = [(one.scenario, one.scheduler, one.settings) for one in baseline.measured]
    return [one for one in found if (one.scenario, one.scheduler, one.settings) not in known]


def replaced(left: Sequence[Measured], added: Sequence[Measured]) -> list[tuple[Measured, list[str]]]:
    """Return what was measured again with other settings, each entry with the settings that differ.

    An entry that was added takes the place of the nearest that is left, of the same scenario and scheduler. If more are
    equally near than were added, none is replaced: only one of them was measured again, and nothing says which.

    Parameters
    ----------
    left, added : sequence of Measured
        What only an earlier baseline has, and what only a later one has. What both have takes no place, so that
        experiments that are alike in all but their settings stay beside each other.
    """
    found: list[tuple[Measured, list[str]]] = []
    for kind in dict.fromkeys((one.scenario, one.scheduler) for one in added):
        old, new = ([one for one in side if (one.scenario, one.scheduler) == kind] for side in (left, added))
        differs = [[differing(one.settings, ours.settings) for one in old] for ours in new]
        nearest = {n: row[n] for row in differs for n in range(len(old)) if len(row[n]) == min(map(len, row))}
        if len(nearest) <= len(new):
            found += [(old[n], names) for n, names in sorted(nearest.items())]
    return found


def extended(earlier: Baseline, later: Baseline) -> Baseline:
    """Return a baseline with what a later one has besides; what it has already stays as it is."""
    return _together(earlier, earlier.measured, later, lacking(earlier, later.measured))


def renewed(earlier: Baseline, kept: Sequence[Measured], later: Baseline) -> Baseline:
    """Return a later baseline with what is kept of an earlier one."""
    return _together(earlier, kept, later, later.measured) if kept else later


def _together(earlier: Baseline, kept: Sequence[Measured], later: Baseline, added: Sequence[Measured]) -> Baseline:
    """Return what is kept of one baseline with what another adds, made by the runs that measured any of it."""
    by = [maker for one in kept for maker in earlier.makers_of(one)]
    first, *others = [*(maker for maker in earlier.makers if maker in by), later.made_by]
    named = [msgspec.structs.replace(one, by=later.made_by.run) for one in added]
    return Baseline(first, sorted([*kept, *named], key=lambda one: (one.scenario, one.scheduler)), others)


def differing_machines(baseline: Baseline, provider: str, here: Machine) -> list[str]:
    """Return how the machines that made a baseline on a provider differ from this one, each difference once.

    The kernel may differ: it is updated where everything else stays.
    """
    made = (one.machine for one in baseline.makers if one.provider == provider)
    names = ["not known which" if one is None else _hardware(one) for one in made if one is None or _differ(one, here)]
    return [f"{name}; here {_hardware(here)}" for name in dict.fromkeys(names)]


def _differ(one: Machine, other: Machine) -> bool:
    return _hardware(one) != _hardware(other)


def _hardware(machine: Machine) -> str:
    memory = "" if machine.memory_bytes is None else f", {round(machine.memory_bytes / 2**30)}Gi"
    return f"{machine.cpus} CPUs of {machine.cpu_model}{memory}"


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, one scenario and scheduler a line, so that changes of it can be reviewed.

    Raises
    ------
    ResultsError
        If it cannot be written; an earlier file is not changed.
    """
    lines = ",\n".join(msgspec.json.encode(one).decode() for one in baseline.measured)
    made_by = msgspec.json.encode(baseline.made_by).decode()
    added_by = f',"added_by":{msgspec.json.encode(baseline.added_by).decode()}' if baseline.added_by else ""
    text = f'{{"schema_version":{baseline.schema_version},"made_by":{made_by}{added_by},"measured":[\n{lines}\n]}}\n'
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write the baseline to {path}: {error.strerror}") from error


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; its texts are printable.

    Raises
    ------
    UnusableFile
        If it cannot be read, is no baseline, comes from a newer version, or its series do not fit its seeds.
    """
    if path.is_file() and _begins_with(path, b'"repetitions"'):
        raise UnusableFile(
            f"{path} is a results file, and no baseline: --carico-save-baseline=FILE makes one, and 'carico-testbed "
            f"compare' compares results files"
        )
    found = read_versioned(path, Baseline, BASELINE_SCHEMA_VERSION, "baseline", for_pytest=True)
    for one in found.measured:
        if len(set(one.seeds)) < len(one.seeds) or any(len(series.values) != len(one.seeds) for series in one.series):
            raise UnusableFile(f"{path} is not a baseline of carico-testbed: {one.title}: one value a seed is needed")
    if not found.measured:
        raise UnusableFile(f"{path} is a baseline of nothing: delete it, and make another with --carico-save-baseline")
    return found


def is_baseline(path: Path) -> bool:
    """Whether a file looks like a baseline; results files begin otherwise.

    Raises
    ------
    UnusableFile
        If it cannot be read.
    """
    return _begins_with(path, b'"made_by"')


def _begins_with(path: Path, key: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return key in file.read(200)
    except OSError as error:
        raise UnusableFile(f"cannot read {path}: {error.strerror}") from error
