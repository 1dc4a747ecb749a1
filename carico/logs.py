"""Logs of CARICO's processes: one line a message on standard error, as text or as JSON.

What servers, nodes and files say comes into messages: as text it can neither move a terminal's cursor nor begin a line.
"""

from __future__ import annotations

import json
import logging
import sys
import textwrap
import time
from typing import Any, TextIO

from carico.printable import printable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logs(kind: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Let the logger `carico` and its children write to `stream`, by default to standard error.

    Parameters
    ----------
    kind : {"text", "json"}
    level : {"debug", "info", "warning", "error"}
    stream : file, optional
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if kind == "json" else TextFormatter())
    logger = logging.getLogger("carico")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the values that the caller passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """``2026-11-20T10:15:30.123Z INFO carico.agent.agent: message name=value``; the lines of a trace are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        values = "".join(f" {name}={value}" for name, value in extras_of(record).items())
        line = printable(f"{_utc(record)} {record.levelname} {record.name}: {record.getMessage()}{values}")
        if record.exc_info is None:
            return line
        return f"{line}\n{textwrap.indent(printable(self.formatException(record.exc_info), lines=True), '  ')}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the values passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        line = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        } | extras_of(record)
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _utc(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
