"""What a sweep is over: pods, nodes, seeds, a setting of the cluster, or a parameter of one of its schedulers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UsageError, suggested
from testbed.results.schema import Repetition

SIZES = ("pods", "nodes", "seeds")
_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_MOST_VALUES = 10_000
_NAMED = "schedulerName="


@dataclass(frozen=True)
class Axis:
    """A name and its values, as typed."""

    name: str
    values: tuple[str, ...]

    @property
    def scheduler(self) -> str | None:
        """The scheduler whose parameter is meant; None if it is something else."""
        return self.name.rpartition(".")[0] or None

    @property
    def option(self) -> str:
        """The parameter of the scheduler."""
        return self.name.rpartition(".")[2]

    def spec(self, text: str, value: str) -> str | None:
        """Return a scheduler's spec with a value; None if the axis is over another scheduler.

        Raises
        ------
        UsageError
            If the spec sets the parameter itself.
        """
        if self.scheduler is None:
            return text
        if base_of(text) != self.scheduler:
            return None
        if self.option in options_of(text):
            raise UsageError(f"{text}: {self.option} is what --over changes: leave it out there")
        plain = text == self.scheduler and ":" not in text and not text.startswith(_NAMED)
        return f"{text}{':' if plain else ','}{self.option}={value}"

    def value_of(self, repetition: Repetition) -> str | None:
        """Return the value that a repetition has; None for a scheduler that has no part in the axis."""
        if self.scheduler is not None:
            in_it = base_of(repetition.scheduler) == self.scheduler
            return options_of(repetition.scheduler).get(self.option) if in_it else None
        if self.name == "pods":
            return str(sum(repetition.measured_jobs.values()))
        if self.name == "seeds":
            return str(repetition.seed)
        value = repetition.settings.get(self.name)
        return next((one for one in self.values if _same(one, value)), str(value))


def parse_axis(text: str) -> Axis:
    """Return what ``NAME=VALUE,VALUE,...`` is over; whole numbers may be a range, ``1..20``.

    Raises
    ------
    UsageError
        If it is written differently.

    Examples
    --------
    >>> parse_axis("kube-scheduler.cpu=50m,100m")
    Axis(name='kube-scheduler.cpu', values=('50m', '100m'))
    >>> parse_axis("seeds=1..3").values
    ('1', '2', '3')
    """
    start = len(_NAMED) if text.startswith(_NAMED) else 0
    rest, equals, written = text[start:].partition("=")
    name = (text[:start] + rest).strip()
    values: list[str] = []
    for one in written.split(","):
        if found := _RANGE.fullmatch(one.strip()):
            first, last = int(found[1]), int(found[2])
            if last - first > _MOST_VALUES:
                raise UsageError(f"--over {name}: {one} has more than {_MOST_VALUES} values")
            values += map(str, range(first, last + 1))
        else:
            values.append(one.strip())
    if not (name and equals and all(values) and values):
        raise UsageError(f"--over is written NAME=VALUE,VALUE,..., such as kube-scheduler.cpu=50m,100m; got {text!r}")
    if len(set(values)) < len(values):
        raise UsageError(f"--over {name}: each value once, got {', '.join(values)}")
    return Axis(name, tuple(values))


def check_axis(axis: Axis, schedulers: Sequence[str], settings: Sequence[str]) -> None:
    """Check that there is something of the axis's name.

    Parameters
    ----------
    axis : Axis
    schedulers : sequence of str
        The specs.
    settings : sequence of str
        The settings of the cluster, by name.

    Raises
    ------
    UsageError
        If there is not; the message says what is known.
    """
    bases = [base_of(text) for text in schedulers]
    if axis.scheduler is not None:
        if axis.scheduler not in bases:
            raise UsageError(
                f"--over {axis.name}: no scheduler under test is {axis.scheduler!r}{suggested(axis.scheduler, bases)}"
            )
        return
    if axis.name not in (*SIZES, *settings):
        rest = (
            f"known: {', '.join(SIZES)}, a parameter of a scheduler such as {bases[-1]}.cpu, or a setting that "
            f"'carico-testbed list settings' shows"
        )
        meant = suggested(axis.name, (*SIZES, *settings), rest)
        raise UsageError(f"--over {axis.name}: there is no such thing{meant}")
    if axis.name in SIZES and (wrong := [one for one in axis.values if not one.isdecimal()]):
        raise UsageError(f"--over {axis.name}: whole numbers are needed, got {wrong[0]!r}")


def base_of(text: str) -> str:
    """Return a spec without its options.

    Examples
    --------
    >>> [base_of(one) for one in ("kube-scheduler:cpu=1", "my.fit:Fit,limit=2", "schedulerName=mine,cpu=1")]
    ['kube-scheduler', 'my.fit:Fit', 'schedulerName=mine']
    """
    head = text.partition(",")[0]
    name, _, rest = head.partition(":")
    return name if "=" in rest else head


def options_of(text: str) -> dict[str, str]:
    """Return the options of a spec as written.

    Examples
    --------
    >>> options_of("kube-scheduler:cpu=1,memory=2Gi"), options_of("my.fit:Fit")
    ({'cpu': '1', 'memory': '2Gi'}, {})
    """
    written = text.removeprefix(base_of(text)).lstrip(":,")
    return dict(option.partition("=")[::2] for option in written.split(",") if option)


def _same(text: str, value: object) -> bool:
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, (int, float)):
        try:
            return float(text) == float(value)
        except ValueError:
            return False
    return text == value
