"""Test kit: a real, private containerd in a folder, with real containers but without images.

Needs root, control groups, and the programs containerd, ctr, runc and a static busybox (Debian's packages containerd,
runc and busybox-static). It shares nothing with the machine's own containerd. Containers get the labels of the kubelet
and the CRI, which make them pods.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from carico.errors import PodEventsError

_PROGRAMS = ("containerd", "ctr", "runc", "busybox")
_PATIENCE_S = 20.0
_NAMESPACE = "k8s.io"


class PrivateContainerd:
    """Runs until closed; containers outlive a stop, as on a node.

    Parameters
    ----------
    folder : path
        Holds the socket, files and the containers' root. Its path must be short, because the path of a socket has at
        most 107 bytes.

    Raises
    ------
    PodEventsError
        If containerd cannot run here; the message says why.
    """

    def __init__(self, folder: Path) -> None:
        missing = [program for program in _PROGRAMS if shutil.which(program) is None]
        if missing or os.geteuid() != 0:
            raise PodEventsError(
                f"a private containerd needs root (this is user {os.geteuid()}) and {', '.join(_PROGRAMS)} "
                f"(missing: {', '.join(missing) or 'none'}): apt-get install containerd runc busybox-static"
            )
        self.socket = str(folder / "containerd.sock")
        self._log = folder / "log"
        self._config = folder / "config.toml"
        self._config.write_text(
            f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{self.socket}"\n'
        )
        self._rootfs = folder / "rootfs"
        (self._rootfs / "bin").mkdir(parents=True)
        shutil.copy(str(shutil.which("busybox")), self._rootfs / "bin" / "busybox")
        self.start()

    def start(self) -> None:
        """Start containerd, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(["containerd", "--config", self._config], stdout=log, stderr=log)
        give_up_at = time.monotonic() + _PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self._process.kill()
                end = self._log.read_text(errors="replace")[-2000:]
                raise PodEventsError(f"containerd does not run here, the end of its log:\n{end}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """containerd's process id."""
        return self._process.pid

    def stop(self, kill: bool = False) -> None:
        """End containerd, with SIGKILL if `kill`, and leave its containers running."""
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(_PATIENCE_S)

    def run(
        self,
        name: str,
        pod: str = "",
        *,
        sandbox: bool = False,
        namespace: str = "default",
        command: tuple[str, ...] = ("sleep", "1000"),
        cgroup: str = "",
    ) -> subprocess.Popen[bytes]:
        """Return a process that starts a container with a busybox command; the caller waits for this process."""
        labels = {"io.cri-containerd.kind": "sandbox" if sandbox else "container"}
        if pod:
            labels |= {
                "io.kubernetes.pod.uid": pod,
                "io.kubernetes.pod.name": pod,
                "io.kubernetes.pod.namespace": namespace,
            }
        options = [option for key, value in labels.items() for option in ("--label", f"{key}={value}")]
        if cgroup:
            options += ["--cgroup", cgroup]
        return self._popen("run", "-d", "--null-io", "--rootfs", *options, self._rootfs, name, "/bin/busybox", *command)

    def start_pod(self, name: str, namespace: str = "default", containers: int = 1) -> None:
        """Start a sandbox and its containers, one after the other, as the kubelet does."""
        finished(self.run(name, name, sandbox=True, namespace=namespace))
        for number in range(containers):
            finished(self.run(f"{name}-{number}", name, namespace=namespace))

    def pids(self) -> dict[str, int]:
        """Return the process id of every running container, by name."""
        lines = self._ctr("tasks", "ls").splitlines()[1:]
        return {fields[0]: int(fields[1]) for fields in map(str.split, lines)}

    def end(self, *names: str) -> None:
        """Kill containers."""
        for name in names:
            self._ctr("tasks", "kill", "--signal", "SIGKILL", name)

    def remove(self, *names: str) -> None:
        """Remove containers, running or not."""
        ending = [self._popen("tasks", "rm", "--force", name) for name in names]
        for process in ending:
            process.communicate()  # fails if the task is gone
        self._ctr("containers", "rm", *names)

    def close(self) -> None:
        """Remove all containers and end containerd."""
        if self._process.poll() is not None:
            self.start()
        names = self._ctr("containers", "ls", "--quiet").split()
        if names:
            self.remove(*names)
        self.stop()

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def _ctr(self, *arguments: str) -> str:
        return finished(self._popen(*arguments))

    def _popen(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ctr", "--address", self.socket, "--namespace", _NAMESPACE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> PrivateContainerd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finished(process: subprocess.Popen[bytes]) -> str:
    """Wait for a process and return its output.

    Raises
    ------
    PodEventsError
        If the process failed; the message has its error output.
    """
    out, errors = process.communicate(timeout=_PATIENCE_S)
    if process.returncode:
        raise PodEventsError(f"{process.args!r} failed: {errors.decode(errors='replace').strip()}")
    return out.decode()
