"""The lab's processes, which outlive the command that starts them: starting, finding and ending them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from testbed.errors import ClusterError

PROGRAMS = ("qemu-system-x86_64", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_END_S = 15.0
_LAST_BYTES = 2000


def start(command: Sequence[str | Path], log: Path) -> psutil.Popen:
    """Start a program in a session of its own, so that it goes on after this process; its output goes to the log."""
    with log.open("ab") as stream:
        return psutil.Popen(
            [*map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def require_running(process: psutil.Process, log: Path) -> None:
    """Raise ClusterError with the end of its log if a process has ended."""
    if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
        said = log.read_bytes()[-_LAST_BYTES:].decode(errors="replace").strip()
        raise ClusterError(f"{log.stem} has ended; the end of {log}:\n{said}")


def of_lab(folder: Path, processes: Iterable[psutil.Process] | None = None) -> list[psutil.Process]:
    """Return the processes of the lab in a folder: our programs that have a file in it among their arguments."""
    found = []
    for process in psutil.process_iter() if processes is None else processes:
        try:
            command = process.cmdline()
        except psutil.Error:  # it has just ended, or is another user's
            continue
        if command and Path(command[0]).name in PROGRAMS and any(f"{folder}/" in word for word in command[1:]):
            found.append(process)
    return found


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end, and kill those that have not after 15 s."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_END_S)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_END_S)
