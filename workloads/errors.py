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
