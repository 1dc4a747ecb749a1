"""A step of building programs and images: a program with a time limit, whose output shows the progress."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from testbed.errors import BuildFailed

STEP_S = 1800.0
"""The time limit of a step; no step takes this long unless a mirror, a proxy or a daemon hangs."""
LAST_LINES = 20
"""Lines of a step's output in the message when it fails."""


def run_step(
    command: Sequence[str],
    on_line: Callable[[str], None],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float = STEP_S,
    stdin: IO[bytes] | None = None,
) -> None:
    """Run a program to its end.

    Parameters
    ----------
    command : sequence of str
    on_line : callable
        Called with every line that the program prints.
    folder : Path, optional
        The working directory.
    environment : mapping, optional
        Environment variables; the process's by default.
    limit_s : float
        Seconds.
    stdin : file, optional
        The program's input; the process's by default.

    Raises
    ------
    BuildFailed
        If the program fails or takes longer; the message has its last lines.
    FileNotFoundError
        If there is no such program.
    """
    last: deque[str] = deque(maxlen=LAST_LINES)
    is_late = threading.Event()
    # The program gets a session of its own, so that its children, which would hold its output open, are ended with it.
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:

        def end() -> None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        def end_late() -> None:
            is_late.set()
            end()

        timer = threading.Timer(limit_s, end_late)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last.append(line)
                on_line(line)
            process.wait()
        except BaseException:
            end()
            raise
        finally:
            timer.cancel()
    if process.returncode:
        how = f"did not end within {limit_s:.0f} s" if is_late.is_set() else f"ended with {process.returncode}"
        raise BuildFailed(f"{' '.join(command)} {how}:\n{''.join(last).rstrip()}")
