"""Logs of CARICO's processes: one line a message on standard error, as text or as JSON.

What servers, nodes and files say comes into messages: as text it can neither move a terminal's cursor nor begin a line.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from carico.printable import printable

_MINUTE_S = 60.0
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


class FewLines:
    """A kind of line that strangers can cause: a few a minute are logged, and then how many more there were.

    That number is logged with the first line after the minute, so there is no timer and no thread.

    Parameters
    ----------
    logger : logging.Logger
    level : int
    what : str
        Begins every line.
    most : int, optional
        Lines a minute.
    now : callable, optional
        Returns the time, seconds; the machine's by default.
    """

    def __init__(
        self, logger: logging.Logger, level: int, what: str, most: int = 10, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._level = level
        self._what = what
        self._most = most
        self._now = now
        self._lock = threading.Lock()
        self._began = -math.inf
        self._lines = 0
        """Lines since then, logged or not."""

    def add(self, detail: str, exc_info: BaseException | None = None, **values: object) -> None:
        """Log a line with an exception's trace and with values, unless there were many within the minute."""
        now, more = self._now(), 0
        with self._lock:
            if now >= self._began + _MINUTE_S:
                more = self._lines - self._most
                self._began, self._lines = now, 0
            self._lines += 1
            many = self._lines > self._most
        if more > 0:
            self._logger.log(self._level, "%s: and %d more within a minute", self._what, more)
        if not many:
            self._logger.log(self._level, "%s: %s", self._what, detail, exc_info=exc_info, extra=values)


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
