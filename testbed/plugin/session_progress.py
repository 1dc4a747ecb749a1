"""How a pytest session shows its progress: past pytest's capturing, and for xdist's workers, whom nobody can read."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import AbstractContextManager, nullcontext

import pytest

from testbed.experiment import progress
from testbed.experiment.progress import ProgressLine, minutes
from testbed.plugin.state import STATE

WATCHED_PERIOD_S = 10.0
"""Between two lines about workers on a terminal, where somebody may be waiting."""


class WorkersProgress:
    """Says now and then how many tests xdist's workers have done; pytest knows it as a plugin.

    Parameters
    ----------
    config : pytest.Config
        Of the process that reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began_s = time.monotonic()
        self._done: set[str] = set()
        self._line: ProgressLine | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the report of a phase of a test; only those from a worker name a node."""
        if report.when != "teardown" or not hasattr(report, "node"):
            return
        self._done.add(report.nodeid)
        if not getattr(report, "carico_cluster", False):
            return
        if self._line is None:
            self._line = log_line(self._config, WATCHED_PERIOD_S)
        if self._line is not None:
            tests = f"{len(self._done)}/{len(self._config.stash[STATE].order)} tests done"
            self._line.show(f"carico: {tests} · {minutes(time.monotonic() - self._began_s)}")


def progress_line(config: pytest.Config) -> ProgressLine | None:
    """A line about the run that goes on here; None where nobody reads it: with -q and in xdist's workers."""
    reporter = _reporter(config)
    if reporter is None or not _on_terminal(reporter):
        return log_line(config)
    writer = config.get_terminal_writer()

    def rewrite(text: str) -> None:
        # Not through the reporter: it must not notice, and goes on where it was.
        with _uncaptured(config):
            sys.stdout.write(text)
            sys.stdout.flush()

    def around() -> tuple[str, str]:
        # Back up to where the dots were; a long line may have been wrapped.
        column = writer.width_of_current_line % shutil.get_terminal_size().columns
        return "\n", "\x1b[1A" + (f"\x1b[{column}C" if column else "")

    return ProgressLine(rewrite, rewritten=True, around=around)


def log_line(config: pytest.Config, watched_period_s: float | None = None) -> ProgressLine | None:
    """A line of its own for every message, more often on a terminal if so asked; None where nobody reads it."""
    reporter = _reporter(config)
    if reporter is None:
        return None
    writer = config.get_terminal_writer()

    def log(text: str) -> None:
        with _uncaptured(config):
            reporter.ensure_newline()
            if writer.width_of_current_line:  # the dots of workers begin with no file name, which is what that sees
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
