"""Shows the progress of a pytest session: past pytest's capturing, and on behalf of xdist's workers, which cannot."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import AbstractContextManager, nullcontext

import pytest

from testbed.experiment import progress
from testbed.experiment.progress import ProgressLine, minutes, remaining
from testbed.plugin.state import STATE

WATCHED_PERIOD_S = 10.0
"""Time between two lines about xdist's workers on a terminal, where a user may be waiting."""


class WorkersProgress:
    """A pytest plugin that reports from time to time how many tests xdist's workers have done.

    Parameters
    ----------
    config : pytest.Config
        The configuration of the process that reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began_s = time.monotonic()
        self._done: set[str] = set()
        self._line: ProgressLine | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test whose last phase a worker reports; only workers' reports have a `node`."""
        if report.when != "teardown" or not hasattr(report, "node"):
            return
        self._done.add(report.nodeid)
        if not getattr(report, "carico_statement", None):
            return
        if self._line is None:
            self._line = log_line(self._config, WATCHED_PERIOD_S)
        if self._line is not None:
            done, tests = len(self._done), len(self._config.stash[STATE].order)
            elapsed_s = time.monotonic() - self._began_s
            left = remaining(elapsed_s, done / max(tests, 1))
            self._line.show(f"carico: {done}/{tests} tests done · {minutes(elapsed_s)}{left}")


def progress_line(config: pytest.Config) -> ProgressLine | None:
    """Return the line about the current run; None where nobody would read it: with -q and in xdist's workers."""
    reporter = _reporter(config)
    if reporter is None or not _on_terminal(reporter):
        return log_line(config)
    writer = config.get_terminal_writer()

    def rewrite(text: str) -> None:
        # Not through the reporter, which counts columns and must continue where it was.
        with _uncaptured(config):
            sys.stdout.write(text)
            sys.stdout.flush()

    def around() -> tuple[str, str]:
        # Go back up to the end of the dots; a long line of them may have been wrapped.
        column = writer.width_of_current_line % shutil.get_terminal_size().columns
        return "\n", "\x1b[1A" + (f"\x1b[{column}C" if column else "")

    return ProgressLine(rewrite, rewritten=True, around=around)


def log_line(config: pytest.Config, watched_period_s: float | None = None) -> ProgressLine | None:
    """Return a log, with `watched_period_s` between lines on a terminal; None where nobody would read it."""
    reporter = _reporter(config)
    if reporter is None:
        return None
    writer = config.get_terminal_writer()

    def log(text: str) -> None:
        with _uncaptured(config):
            reporter.ensure_newline()
            if writer.width_of_current_line:  # ensure_newline() only sees lines that begin with a file name
                reporter.write("\n")
            reporter.write(text, flush=True)

    period_s = progress.PERIOD_S if watched_period_s is None or not _on_terminal(reporter) else watched_period_s
    return ProgressLine(log, rewritten=False, patience_s=period_s, period_s=period_s)


def _reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
    return None if reporter is None or reporter.verbosity < 0 else reporter


def _on_terminal(reporter: pytest.TerminalReporter) -> bool:
    return bool(reporter.isatty) and os.environ.get("TERM") != "dumb"


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    capturing = config.pluginmanager.getplugin("capturemanager")
    return nullcontext() if capturing is None else capturing.global_and_fixture_disabled()
