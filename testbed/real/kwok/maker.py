"""Makes clusters with KWOK: a real control plane on this machine, whose nodes and pods are only API objects."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path

import yaml

from testbed.errors import ClusterError
from testbed.experiment.free_resources import FREE_CPUS, shortages
from testbed.programs.find import PROGRAMS_VARIABLE, found_programs, version_of
from testbed.programs.run import run_program
from testbed.real.maker import CREATE_TIMEOUT_S
from testbed.real.platform import CARICO
from testbed.requirements import Problem
from testbed.results.locks import locked

NEEDED_BYTES = 1 << 30
"""Measured: the control plane takes 480 MiB at its peak with 1,000 nodes."""
OPTIONS = {
    "etcd": "etcdBinary",
    "kube-apiserver": "kubeApiserverBinary",
    "kube-controller-manager": "kubeControllerManagerBinary",
    "kube-scheduler": "kubeSchedulerBinary",
    "kubectl": "kubectlBinary",
    "kwok": "kwokControllerBinary",
}
"""The programs of a cluster, and their options in kwokctl's configuration."""
KWOKCTL = "kwokctl"
_STOP_TIMEOUT_S = 60.0


class KwokMaker:
    """A `ClusterMaker` that calls kwokctl.

    Parameters
    ----------
    environment : mapping, optional
        Environment variables; the process's by default.
    """

    kind = "kwok"
    on_this_machine = True
    create_timeout_s = CREATE_TIMEOUT_S

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    @property
    def kubernetes_version(self) -> str:
        """The version that kube-apiserver prints; see `ClusterMaker`."""
        return self._versions["kubernetes"]

    def preflight(self) -> Sequence[Problem]:
        """Check programs, memory and CPU; see `ClusterMaker.preflight`."""
        found = []
        missing = [name for name in (*OPTIONS, KWOKCTL) if name not in self._programs]
        if missing:
            found.append(
                Problem(
                    f"the provider kwok needs {', '.join(missing)}",
                    "carico-testbed images programs kubernetes etcd kwok, or name their folder with "
                    f"{PROGRAMS_VARIABLE}",
                )
            )
        else:
            self._versions  # noqa: B018 - raises if a program does not run
        found += shortages("kwok", NEEDED_BYTES, FREE_CPUS)
        return found

    def fingerprint(self) -> Mapping[str, str]:
        """Return versions and configuration; see `ClusterMaker.fingerprint`."""
        return {**self._versions, "stages": hashlib.sha256(_stages().encode()).hexdigest()[:16]}

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Start the control plane; see `ClusterMaker.create`."""
        options: dict[str, object] = {
            option: str(self._programs[program]) for program, option in OPTIONS.items() if program in self._programs
        }
        options |= {
            "runtime": "binary",
            "kubeVersion": self.kubernetes_version,
            "bindAddress": "127.0.0.1",
            # Without a path kwokctl would download etcdctl, which only snapshots of etcd run, and we take none.
            "etcdctlBinary": str(self._programs["etcd"]),
        }
        head = {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokctlConfiguration",
            "options": options,
            # As on clusters of kubeadm; kube-apiserver itself does not enable it.
            "componentsPatches": [
                {
                    "name": "kube-apiserver",
                    "extraArgs": [{"key": "enable-admission-plugins", "value": "NodeRestriction"}],
                }
            ],
        }
        configuration = folder / "kwokctl.yaml"
        configuration.write_text(yaml.safe_dump(head) + "---\n" + _stages(), encoding="utf-8")
        # One cluster at a time, because kwokctl finds free ports first and listens on them somewhat later.
        with locked(folder.parent.parent / "ports"):
            self._run(
                folder,
                timeout_s,
                *("create", "cluster", "--name", name, "--config", str(configuration)),
                *("--kubeconfig", str(self.kubeconfig(name, folder)), "--wait", f"{timeout_s:.0f}s"),
            )

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """See `ClusterMaker.kubeconfig`."""
        return folder / "kubeconfig"

    def delete(self, name: str, folder: Path) -> None:
        """Stop the control plane; see `ClusterMaker.delete`."""
        if not (workdir(folder) / "clusters" / name).exists():
            return
        self._run(
            folder,
            _STOP_TIMEOUT_S,
            *("delete", "cluster", "--name", name, "--kubeconfig", str(self.kubeconfig(name, folder))),
        )

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the logs of the control plane, and of CARICO beside it; see `ClusterMaker.collect_logs`."""
        logs = workdir(folder) / "clusters" / name / "logs"
        try:
            shutil.copytree(logs, into / "logs", dirs_exist_ok=True)
            for file in (folder / CARICO).glob("*.log"):
                shutil.copy(file, into / "logs" / f"{CARICO}-{file.name}")
        except (OSError, shutil.Error) as error:
            raise ClusterError(f"the logs of {name} cannot be copied from {logs}: {error}") from error

    @cached_property
    def _programs(self) -> dict[str, Path]:
        return found_programs((*OPTIONS, KWOKCTL), self._environment)

    @cached_property
    def _versions(self) -> dict[str, str]:
        asked = {"kubernetes": "kube-apiserver", "scheduler": "kube-scheduler", "etcd": "etcd", "kwok": "kwok"}
        if missing := [program for program in asked.values() if program not in self._programs]:
            raise ClusterError(f"there is no {', '.join(missing)}: build it with carico-testbed images programs")
        return {name: version_of(self._programs[program]) for name, program in asked.items()}

    def _run(self, folder: Path, timeout_s: float, *arguments: str) -> None:
        if KWOKCTL not in self._programs:
            raise ClusterError(f"there is no {KWOKCTL}: build it with carico-testbed images programs kwok")
        environment = self._environment | {"KWOK_WORKDIR": str(workdir(folder))}
        run_program([self._programs[KWOKCTL], *arguments], timeout_s, environment)


def workdir(folder: Path) -> Path:
    """Return kwokctl's own folder in the folder of a cluster."""
    return folder / "kwok"


def _stages() -> str:
    return (resources.files("testbed.real.kwok") / "stages.yaml").read_text(encoding="utf-8")
