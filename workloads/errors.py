"""The exceptions of the workloads package.

::

    WorkloadError (also ValueError)
    ├── InvalidQuantity     not a Kubernetes quantity, or one that makes no sense
    ├── InvalidDemand       a demand model's parameter makes no sense
    ├── InvalidHistogram    a latency or a quantile that makes no sense
    ├── InvalidScenario     a scenario file is not what the schema says
    ├── UnknownScenario     no scenario of that name
    └── InvalidTrace        the file of a trace is invalid, or gives no scenario
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkloadError(ValueError):
    """Base of all errors about what was asked to run."""


class InvalidQuantity(WorkloadError):
    """Not a Kubernetes quantity, or one that makes no sense where it stands."""


class InvalidDemand(WorkloadError):
    """A demand model's parameter makes no sense."""


class InvalidHistogram(WorkloadError):
    """A latency or a quantile that makes no sense."""


class InvalidScenario(WorkloadError):
    """A scenario file is not what the schema says."""


class UnknownScenario(WorkloadError):
    """No scenario of that name."""


class InvalidTrace(WorkloadError):
    """The file of a trace is invalid, or gives no scenario."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a question for an error message about an unknown name; an empty text if no known name is close.

    Examples
    --------
    >>> did_you_mean("poison", ["burst", "poisson"]), did_you_mean("x", ["y"])
    (", did you mean 'poisson'?", '')
    """
    close = get_close_matches(given, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
