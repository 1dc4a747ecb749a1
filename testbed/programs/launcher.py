"""Launches a program that ends with the thread that starts it, even if that thread's process is killed by SIGKILL.

The kernel does this (`PR_SET_PDEATHSIG`, Linux). The process that becomes the program asks for it, so that no code runs
between fork and exec. Processes that the program starts itself, and may leave behind on purpose, are not affected.

This module is run as a file, so that it is found in any environment; it imports nothing from this project.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).absolute()))
"""A command that takes its parent's process id and another command, and becomes that command."""
_PR_SET_PDEATHSIG = 1


def ending_with_parent(command: Sequence[str | Path]) -> list[str]:
    """Return a command that becomes `command` and ends with the thread that starts it."""
    return [*LAUNCHER, str(os.getpid()), *map(str, command)]


def main() -> None:
    """Become the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # the parent ended before prctl
        sys.exit(f"{command[0]} is not run: the process that started it has ended")
    try:
        os.execvp(command[0], command)  # noqa: S606 - our own arguments
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
