"""Runs a program that makes or removes a cluster, with a deadline; errors include the end of its output."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from testbed.errors import ClusterError
from testbed.programs.launcher import ending_with_parent

_LAST_LINES = 15


def run_program(
    command: Sequence[str | Path],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a program to its end and return its output; it ends early if the calling thread ends.

    Parameters
    ----------
    command : sequence of str or Path
    timeout_s : float
    environment : mapping, optional
        Environment variables; the process's by default.
    folder : Path, optional
        The working directory.

    Raises
    ------
    ClusterError
        If the program fails, takes longer or cannot be run; the message has its last lines.
    """
    name = " ".join([Path(command[0]).name, *(str(word) for word in command[1:3])])
    try:
        # The program gets a session of its own: Ctrl-C reaches only us, and we end it with its children.
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            ending_with_parent(command),
            env=None if environment is None else dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ClusterError(f"{name} cannot be run: {error}") from error
    with process:
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ClusterError(f"{name} was not done after {timeout_s:.0f} s") from error
            raise
    if process.returncode:
        last = "\n".join(said.splitlines()[-_LAST_LINES:])
        raise ClusterError(f"{name} ended with {process.returncode}:\n{last}")
    return said
