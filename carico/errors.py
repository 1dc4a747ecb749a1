"""The exceptions of CARICO: one tree, so that a caller can catch all of it or one branch.

::

    CaricoError
    ├── InvalidInput (also ValueError)     a number, shape or name that makes no sense
    │   ├── UnknownVariant                 no variant of that name
    │   ├── InvalidState                   a saved state that does not fit the model that reads it
    │   ├── InvalidConfig                  a configuration file that cannot be read or whose content is invalid
    │   │   └── NoCluster                  nothing leads to a cluster: no kubeconfig or account, or a useless one
    │   ├── InvalidRequest                 a request to the extender that makes no sense
    │   ├── NotSigned                      a request for a node's certificate that the signer refuses
    │   └── InvalidJournal                 a journal of decisions that cannot be read
    ├── CertificateRefused                 the signer refuses this node a certificate
    ├── NotReady                           the extender cannot decide yet, or something is not ready in time
    ├── RegistryError                      a registry does not say which digest a tag stands for
    ├── KubeError                          a request to the Kubernetes API failed; `may_pass`: retrying may help
    │   ├── KubeUnreachable                no answer, or an incomplete one
    │   └── KubeRefused                    the API server refused the request
    ├── TelemetryError                     a source of telemetry cannot be read
    │   ├── TelemetryFileMissing           a telemetry file does not exist, or vanished
    │   ├── TelemetryMalformed             a telemetry file or answer has unexpected content
    │   ├── PressureDisabled               the kernel offers no pressure stall information
    │   ├── CounterWentBackwards           a cumulative counter fell
    │   ├── InvalidRecording               a recording that cannot be read, or would be overwritten
    │   └── RecordingEnded                 a recording has no further reading
    ├── PodEventsError                     a source of pod events cannot be read
    └── RpcError                           a call to another process of CARICO failed
        ├── Unreachable                    no answer within the deadline; retrying later may help
        └── Refused                        the other process refused the call: the caller or the request is wrong

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
    """A configuration file that cannot be read or whose content is invalid."""


class NoCluster(InvalidConfig):
    """Nothing leads to a cluster: there is no kubeconfig and no account of a pod, or it is of no use."""


class InvalidRequest(InvalidInput):
    """A request to the extender that makes no sense."""


class NotSigned(InvalidInput):
    """A request for a node's certificate that the signer refuses; `reason` is one word, for the request's condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CertificateRefused(CaricoError):
    """The signer refuses this node a certificate, or signs something else."""


class InvalidJournal(InvalidInput):
    """A journal of decisions that cannot be read."""


class NotReady(CaricoError):
    """The extender cannot decide yet, or pods or a certificate are not ready in time."""


class RegistryError(CaricoError):
    """A registry does not say which digest a tag stands for."""


class KubeError(CaricoError):
    """A request to the Kubernetes API failed; `may_pass` says whether retrying may help."""

    may_pass = False


class KubeUnreachable(KubeError):
    """The API server gave no answer, or an incomplete one."""

    may_pass = True


class KubeRefused(KubeError):
    """The API server refused the request; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        # 429: too busy. 5xx: an error of the server itself, for instance while it starts.
        self.may_pass = status == 429 or status >= 500


class TelemetryError(CaricoError):
    """A source of telemetry cannot be read."""


class TelemetryFileMissing(TelemetryError):
    """A telemetry file does not exist, cannot be opened, or vanished while it was being read."""


class TelemetryMalformed(TelemetryError):
    """A telemetry file does not hold what the kernel writes, or an answer is not what the metrics server sends."""


class PressureDisabled(TelemetryError):
    """The kernel offers no pressure stall information."""


class CounterWentBackwards(TelemetryError):
    """A cumulative counter fell between two readings."""


class InvalidRecording(TelemetryError):
    """A recording that cannot be read, is malformed, or would be overwritten."""


class RecordingEnded(TelemetryError):
    """A recording has no further reading."""


class PodEventsError(CaricoError):
    """A source of pod events cannot be read."""


class RpcError(CaricoError):
    """A call to another process of CARICO failed."""


class Unreachable(RpcError):
    """No answer came within the deadline; retrying later may help."""


class Refused(RpcError):
    """The other process refused the call: the caller or the request is wrong."""
