"""The exceptions of CARICO: one tree, so that a caller can catch all of it or one branch.

::

    CaricoError
    ├── InvalidInput (also ValueError)     a number, shape or name that makes no sense
    │   ├── UnknownVariant                 no variant of that name
    │   ├── InvalidState                   a saved state that does not fit the model that reads it
    │   └── InvalidConfig                  a configuration file that is not what it should be
    └── TelemetryError                     a source of telemetry cannot be read
        ├── TelemetryFileMissing           a file of /proc is not there, or vanished
        ├── TelemetryMalformed             a file is there and does not say what the kernel says
        ├── PressureDisabled               the kernel offers no pressure stall information
        ├── CounterWentBackwards           a cumulative counter fell
        ├── InvalidRecording               a recording that cannot be read, or would be overwritten
        └── RecordingEnded                 a recording has no further reading

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
