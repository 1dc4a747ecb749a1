"""A line with the progress of a long run: rewritten in place on a terminal, or else repeated from time to time."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.experiment.plan import Pass
    from testbed.experiment.provider import Progress

PERIOD_S = 30.0
"""Time between two lines in a log."""
REWRITE_PERIOD_S = 0.1
PACE_FROM_S = 2.0
"""Time after which the pace of a run is an estimate."""
LONGEST_S = 1e9
"""From this estimate of a whole run on, there is none."""
SEPARATOR = " · "
"""Between a message's name and its figures."""
LEAST_OF_NAME = 10
"""Characters of a name that tell what is meant; in narrower terminals, a message's end is cut off."""
ERASE_LINE = "\r\x1b[K"


class ProgressLine:
    """Shows the latest of many messages, as often as a reader can follow.

    Parameters
    ----------
    write : callable
        Called with the text to print, line ends included.
    rewritten : bool
        Whether the output is a terminal, on which one line is rewritten.
    period_s : float, optional
        Seconds between two lines in a log; `PERIOD_S` by default.
    patience_s : float
        Seconds before the first line in a log, so that short runs write none.
    around : callable, optional
        On a terminal: returns the texts to write before the line appears and after it has been removed.
    clock : callable
        Returns monotonic time, seconds.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        rewritten: bool,
        period_s: float | None = None,
        patience_s: float = 0.0,
        around: Callable[[], tuple[str, str]] = lambda: ("", ""),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._rewritten = rewritten
        self._period_s = PERIOD_S if period_s is None else period_s
        self._around = around
        self._clock = clock
        self._next_s = clock() + (0.0 if rewritten else patience_s)
        self._after: str | None = None
        self._phase: str | None = None

    def show(self, text: str, phase: str | None = None) -> None:
        """Show a message, unless the previous one is too recent.

        Parameters
        ----------
        text : str
        phase : str, optional
            What goes on; in a log, every new phase gets a line at once.
        """
        now = self._clock()
        begins = not self._rewritten and phase is not None and phase != self._phase
        self._phase = phase
        if now < self._next_s and not begins:
            return
        if not self._rewritten:
            self._next_s = now + self._period_s
            self._write(text + "\n")
            return
        self._next_s = now + REWRITE_PERIOD_S
        before = ""
        if self._after is None:
            before, self._after = self._around()
        self._write(before + ERASE_LINE + shortened(text, shutil.get_terminal_size().columns - 1))

    def clear(self) -> None:
        """Remove the line from the terminal, so that something else can be written there."""
        if self._after is not None:
            self._write(ERASE_LINE + self._after)
            self._after = None


def shortened(text: str, width: int) -> str:
    """Return a message that fits: of its name, which ends at the first dot, the middle is left out; figures stay.

    Examples
    --------
    >>> shortened("pi-2000 × kube-scheduler:cpu=100m · rep 2/5 · 0:42", 40)
    'pi-2000 × k…er:cpu=100m · rep 2/5 · 0:42'
    """
    name, dot, figures = text.partition(SEPARATOR)
    left = width - len(dot + figures) - 1
    if not dot or len(text) <= width or left < LEAST_OF_NAME:
        return text[:width]
    return f"{name[: left - left // 2]}…{name[len(name) - left // 2 :]}{dot}{figures}"


def line_on_stderr() -> ProgressLine:
    """Return a line on standard error."""

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    return ProgressLine(write, sys.stderr.isatty())


class Pace:
    """Describes how far a plan has come, and estimates how long the rest takes at the pace so far.

    Parameters
    ----------
    clock : callable
        Returns monotonic time, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._first: tuple[float, float] | None = None

    def describe(self, one: Pass, progress: Progress) -> str:
        """Return a line, for example ``pi-2000 × carico · rep 2/5 · 180/1000 bound · 0:42, about 1:30 left``."""
        done = f"{progress.bound}/{progress.pods} bound" if progress.phase == "running" else progress.phase
        again = "" if progress.attempt == 1 else f" · attempt {progress.attempt}"
        now, share = self._clock(), (one.place + _share(progress)) / one.places
        if self._first is None:
            # What was cached took no time, and making a cluster is no part of the pace.
            self._first = now, share
        first_s, first = self._first
        # Of what was not done when the first message came, this share is done.
        pace = remaining(now - first_s, (share - first) / (1.0 - first)) if first < 1.0 else ""
        return f"{one}{again} · {done} · {minutes(now - self._began_s)}{pace}"


def remaining(elapsed_s: float, share: float) -> str:
    """Return how long the rest takes if a share of the work took so long; nothing if it is too early to tell.

    Examples
    --------
    >>> remaining(30.0, 0.25), remaining(30.0, 0.0)
    (', about 1:30 left', '')
    """
    if elapsed_s < PACE_FROM_S or elapsed_s > LONGEST_S * share:
        return ""
    return f", about {minutes(elapsed_s * (1.0 - share) / share)} left"


def phase_of(progress: Progress) -> str | None:
    """Return the phase that gets a line of its own in a log; runs are too many for that."""
    return None if progress.phase in ("running", "done") else progress.phase


def _share(progress: Progress) -> float:
    if progress.phase == "done":
        return 1.0
    return (progress.bound + progress.finished) / (2 * max(progress.pods, 1)) if progress.phase == "running" else 0.0


def minutes(seconds: float) -> str:
    """Return a time as minutes and seconds, for example ``1:04``."""
    whole = max(int(seconds), 0)
    return f"{whole // 60}:{whole % 60:02d}"
