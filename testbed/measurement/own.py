"""A measurement of one's own: a metric, and the function that computes it from a repetition. Importing it is cheap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from testbed.errors import OwnCodeFailed, UsageError
from testbed.measurement.metrics import Metric

if TYPE_CHECKING:
    from testbed.results.schema import DataItem, OwnMetric, Repetition

GROUP = "carico_testbed.measurements"
"""The entry points of installed packages that are measurements."""
Measured = Mapping[str, float | Sequence[float]]
"""By job: a number, or the numbers of a distribution."""


@dataclass(frozen=True)
class Measurement:
    """A measurement that is added to every repetition, and is compared and gated like the testbed's own."""

    name: str
    unit: str
    meaning: str
    measure: Callable[[Repetition], Measured] = field(repr=False)
    """Returns what was measured for each job; jobs may be left out."""
    less_is_better: bool | None = None
    """None if neither direction is better: then it explains, and is never judged."""
    statistics: tuple[str, ...] = ("value",)
    """What of it is compared by default: "value" of a number; of a distribution "mean", "p99", "max" and so on."""
    relative: bool = True
    """Whether values are compared by their ratio; say False if they may be 0."""

    @property
    def metric(self) -> Metric:
        """What the registry of metrics knows of it."""
        return Metric(
            self.name, self.unit, self.meaning, self.less_is_better, tuple(self.statistics), relative=self.relative
        )

    def items(self, repetition: Repetition) -> list[DataItem]:
        """Return the data items of a repetition.

        Raises
        ------
        OwnCodeFailed
            If the function raises an exception, or returns what is no such mapping.
        """
        from testbed.measurement.statistics import summary
        from testbed.results.schema import DataItem, OwnMetric

        try:
            found = {job: _numbers(value) for job, value in self.measure(repetition).items()}
        except Exception as error:
            raise OwnCodeFailed(f"the measurement {self.name}: {type(error).__name__}: {error}") from error
        kept = {name: getattr(self.metric, name) for name in OwnMetric.__struct_fields__}
        own = OwnMetric(**kept | {"statistics": list(self.statistics)})
        items = []
        for job, numbers in found.items():
            if not all(map(math.isfinite, numbers)):
                raise OwnCodeFailed(f"the measurement {self.name} of job {job}: finite numbers are needed, got {found}")
            if not numbers:
                continue
            data = {"value": numbers[0]} if self.statistics == ("value",) else summary(numbers)
            items.append(DataItem(data, self.unit, {"metric": self.name, "job": job}, own))
        return items


def own_metrics(repetitions: Iterable[Repetition]) -> list[OwnMetric]:
    """Return the metrics of the user's own that repetitions have, each once."""
    items = (item for one in repetitions for item in one.data_items)
    return list({item.own.name: item.own for item in items if item.own is not None}.values())


def installed() -> list[Measurement]:
    """Return the measurements of installed packages; raises UsageError if one cannot be loaded."""
    found = []
    for point in entry_points(group=GROUP):
        try:
            found.append(checked(point.load()))
        except Exception as error:
            raise UsageError(f"the measurement {point.name!r} cannot be loaded from {point.value}: {error}") from error
    return found


def flattened(given: Iterable[Iterable[Any]]) -> list[Measurement]:
    """Return the measurements that several hooks have given; raises UsageError if one is something else."""
    return [checked(one) for several in given for one in several]


def checked(one: object) -> Measurement:
    """Return a measurement if it is one; raises UsageError."""
    if not isinstance(one, Measurement):
        raise UsageError(f"a testbed.measurement.own.Measurement is needed, got {one!r}")
    return one


def _numbers(value: float | Sequence[float]) -> list[float]:
    return [float(one) for one in value] if isinstance(value, Sequence) else [float(value)]
