"""Ties a program to the thread that starts it: it ends with it, however that comes, by SIGKILL, too.

The kernel sees to it (`PR_SET_PDEATHSIG`, Linux). It is asked by the process that becomes the program, so that nothing
runs between fork and exec. What the program starts itself is not tied, so that what it leaves behind on purpose stays.

Run as a file, so that it is found whatever the program's environment is; it imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

TETHER = (sys.executable, "-I", "-S", str(Path(__file__).absolute()))
"""Given its parent's process id and a command, it becomes the command."""
_PR_SET_PDEATHSIG = 1


def tied(command: Sequence[str | Path]) -> list[str]:
    """Return the command that becomes `command`, tied to the thread that runs it."""
    return [*TETHER, str(os.getpid()), *map(str, command)]


def main() -> None:
    """Become the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it has ended before the kernel was asked
        sys.exit(f"{command[0]} is not run: who started it has ended")
    try:
        os.execvp(command[0], command)  # noqa: S606 - our own arguments
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
