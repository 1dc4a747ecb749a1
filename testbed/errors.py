"""The exceptions of the testbed.

::

    TestbedError
    ├── UsageError                the request is invalid (exit code 2, or 4 under pytest)
    │   ├── InvalidSetting        an unknown setting, or a value that it does not take
    │   └── InvalidSpec           no scheduler has this spec
    ├── ResultsError              a results file cannot be written or read
    │   └── UnusableFile          it was found out before anything was done (also Unprepared)
    ├── OwnCodeFailed             a scheduler or a measurement of the user's own raised an exception
    ├── ClusterError              a real cluster cannot be made, used or removed
    │   ├── WaitTimedOut          an awaited state was not reached in time
    │   ├── Disconnected          a machine of the cluster does not answer, or has stopped answering
    │   ├── CommandFailed         a command on a machine of the cluster failed
    │   └── NoCluster             a kubeconfig leads to no cluster (also Unprepared)
    ├── BuildFailed               a program or an image of a real cluster could not be built
    ├── DockerFailed              a call of the Docker daemon failed
    └── Unprepared                something that is needed is missing, nothing was done (exit code 4)
        └── MissingExtra          packages that the testbed, or one of its extras, needs are not installed
"""

from __future__ import annotations

from collections.abc import Iterable

UNPREPARED = 4
"""The exit code for `Unprepared`, the same as pytest's for a usage error."""


class TestbedError(Exception):
    """Any error that the testbed reports."""

    __test__ = False  # or pytest would take it for a test class, by its name


class UsageError(TestbedError, ValueError):
    """The request is invalid."""


class InvalidSetting(UsageError):
    """An unknown setting, or a value that it does not take."""


class InvalidSpec(UsageError):
    """No scheduler has this spec."""


class ResultsError(TestbedError):
    """A results file cannot be written or read."""


class OwnCodeFailed(TestbedError):
    """A scheduler or a measurement of the user's own raised an exception, or returned what is no answer."""


class DamagedResults(UserWarning):
    """Part of what a run left cannot be read; the rest is used."""


class ClusterError(TestbedError):
    """A real cluster cannot be made, used or removed."""


class WaitTimedOut(ClusterError):
    """An awaited state was not reached in time."""


class Disconnected(ClusterError):
    """A machine of the cluster does not answer, or has stopped answering: whether a command was run is unknown."""


class CommandFailed(ClusterError):
    """A command on a machine of the cluster failed.

    Parameters
    ----------
    message : str
    status : int or None
        The exit status; None if a signal ended the command.
    """

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status


class BuildFailed(TestbedError):
    """A program or an image of a real cluster could not be built."""


class DockerFailed(TestbedError):
    """A call of the Docker daemon failed."""


class Unprepared(TestbedError):
    """Something that is needed is missing; nothing was done."""


class UnusableFile(ResultsError, Unprepared):
    """A file cannot be read, or it is known beforehand that one cannot be written."""


class NoCluster(ClusterError, Unprepared):
    """A kubeconfig leads to no cluster; nothing was run."""


class MissingExtra(Unprepared):
    """Packages that the testbed, or one of its extras, needs are not installed."""


def suggested(given: str, known: Iterable[str], rest: str = "") -> str:
    """Return the end of an error message about an unknown name; see `workloads.errors.suggested`.

    The plugin must not import `workloads` before a test needs it. Where a package of the user's own hides it, there is
    no suggestion.

    Examples
    --------
    >>> suggested("pod_completion", ["job_completion_time", "pod_completion_time"], "'list' shows all")
    ", did you mean 'pod_completion_time'? 'list' shows all"
    """
    try:
        from workloads.errors import suggested as found
    except ImportError:
        return ""
    return found(given, known, rest)
