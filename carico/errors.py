"""The exceptions of CARICO: one tree, so that a caller can catch all of it or one branch.

::

    CaricoError
    ├── InvalidInput (also ValueError)     a number, shape or name that makes no sense
    │   ├── UnknownVariant                 no variant of that name
    │   ├── InvalidState                   a saved state that does not fit the model that reads it
    │   ├── InvalidConfig                  a configuration file that is not what it should be
    │   ├── InvalidRequest                 a request to the extender that makes no sense
    │   └── InvalidJournal                 a journal of decisions that cannot be read
    ├── NotReady                           a process that has yet to learn what it decides on, or what was decided
    ├── KubeError                          the Kubernetes API did not do what it was asked; `may_pass`: ask again
    │   ├── KubeUnreachable                no answer, or one that broke off
    │   └── KubeRefused                    it answered that it will not
    ├── TelemetryError                     a source of telemetry cannot be read
    │   ├── TelemetryFileMissing           a file of /proc is not there, or vanished
    │   ├── TelemetryMalformed             a file is there and does not say what the kernel says
    │   ├── PressureDisabled               the kernel offers no pressure stall information
    │   ├── CounterWentBackwards           a cumulative counter fell
    │   ├── InvalidRecording               a recording that cannot be read, or would be overwritten
    │   └── RecordingEnded                 a recording has no further reading
    ├── PodEventsError                     a source of pod events cannot be read
    └── RpcError                           another process of CARICO did not do what it was asked
        ├── Unreachable                    no answer within the deadline; asking again later may help
        └── Refused                        it answered that it will not: who asks, or what is asked, is wrong

A message gives the value seen, the value wanted and the remedy.
"""

from __future__ import annotations


class CaricoError(Exception):
    """Anything CARICO reports as wrong."""


class InvalidInput(CaricoError, ValueError):
    """A number, shape or name that makes no sense where it was given."""


class UnknownVariant(InvalidInput):
    """No variant of that name."""


class InvalidState(InvalidInput):
    """A saved state that does not fit the model that reads it."""


class InvalidConfig(InvalidInput):
    """A configuration file that cannot be read or is not what it should be."""


class InvalidRequest(InvalidInput):
    """A request to the extender that makes no sense."""


class InvalidJournal(InvalidInput):
    """A journal of decisions that cannot be read."""


class NotReady(CaricoError):
    """Nothing can be decided now: the process has yet to learn on what, or who asks that it was decided."""


class KubeError(CaricoError):
    """The Kubernetes API did not do what it was asked; `may_pass` says whether asking again may help."""

    may_pass = False


class KubeUnreachable(KubeError):
    """No answer came, or it broke off."""

    may_pass = True


class KubeRefused(KubeError):
    """The API server answered that it will not; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        # Too busy, or troubles of the server's own, as while it starts.
        self.may_pass = status == 429 or status >= 500


class TelemetryError(CaricoError):
    """A source of telemetry cannot be read."""


class TelemetryFileMissing(TelemetryError):
    """A file of /proc is not there, or vanished while it was being read."""


class TelemetryMalformed(TelemetryError):
    """A file is there and does not hold what the kernel writes."""


class PressureDisabled(TelemetryError):
    """The kernel offers no pressure stall information."""


class CounterWentBackwards(TelemetryError):
    """A cumulative counter fell between two samples."""


class InvalidRecording(TelemetryError):
    """A recording that cannot be read, is not what it should be, or would be overwritten."""


class RecordingEnded(TelemetryError):
    """A recording has no further reading."""


class PodEventsError(CaricoError):
    """A source of pod events cannot be read."""


class RpcError(CaricoError):
    """Another process of CARICO did not do what it was asked."""


class Unreachable(RpcError):
    """No answer came within the deadline; asking again later may help."""


class Refused(RpcError):
    """The other side answered that it will not: who asks, or what is asked, is wrong."""
