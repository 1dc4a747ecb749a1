"""The exceptions of the testbed.

::

    TestbedError
    ├── UsageError                what was asked for makes no sense (exit code 2, or 4 under pytest)
    │   ├── InvalidSetting        an unknown setting, or a value it does not take
    │   └── InvalidSpec           no scheduler is described so
    ├── ResultsError              a results file cannot be written or read
    ├── ClusterError              a real cluster cannot be made, used or removed
    │   └── WaitTimedOut          what was waited for did not come in time
    ├── BuildFailed               a program or an image of a real cluster could not be made
    ├── DockerFailed              the Docker daemon did not do what it was asked
    └── Unprepared                something that a run needs is missing, nothing was run (exit code 4)
        └── MissingExtra          the packages of the extra `testbed` are not installed
"""

from __future__ import annotations

UNPREPARED = 4
"""The exit code for `Unprepared`, as pytest's for a wrong usage."""


class TestbedError(Exception):
    """Anything the testbed reports as wrong."""

    __test__ = False  # pytest would take the name for a test class


class UsageError(TestbedError, ValueError):
    """What was asked for makes no sense."""


class InvalidSetting(UsageError):
    """An unknown setting, or a value it does not take."""


class InvalidSpec(UsageError):
    """No scheduler is described so."""


class ResultsError(TestbedError):
    """A results file cannot be written or read."""


class ClusterError(TestbedError):
    """A real cluster cannot be made, used or removed."""


class WaitTimedOut(ClusterError):
    """What was waited for did not come in time."""


class BuildFailed(TestbedError):
    """A program or an image of a real cluster could not be made."""


class DockerFailed(TestbedError):
    """The Docker daemon did not do what it was asked."""


class Unprepared(TestbedError):
    """Something that a run needs is missing; nothing was run."""


class MissingExtra(Unprepared):
    """The packages of the extra `testbed` are not installed."""
