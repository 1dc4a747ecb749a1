"""Builds the programs of a cluster from Go modules, which pin all versions, and keeps them by a digest of their inputs.

The name of a set's folder contains a digest of the module's files, the version of Go and the flags. So every version
has its own folder, and what is in a folder is never out of date. A folder appears when all of its programs are built.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from testbed.errors import BuildFailed
from testbed.images.kept import appear
from testbed.images.step import STEP_S, run_step
from testbed.results.provenance import machine
from testbed.results.run import Machine

MODULES = Path(__file__).parent / "modules"
OnProgress = Callable[[str], None]
"""Called with a short text about the progress of a long step."""

_OLDEST_GO = (1, 21)
"""The first Go that fetches a newer Go if a module needs one."""
# No debug information, which the linker would drop anyway: this saves a tenth of the time.
_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false", "-v")
# Compilers run for seconds only; collecting their garbage took a sixth of the time.
_COMPILERS = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
_COMPILERS_FROM = 3 << 29
"""Bytes of memory for each CPU, which runs a compiler; on machines with less, Go's own settings apply."""


@dataclass(frozen=True)
class ProgramSet:
    """Programs of one Go module.

    Parameters
    ----------
    name : str
        Its folder among the modules.
    packages : mapping of str to str
        The Go package of each program, by the program's name.
    version_of : str, optional
        The required module whose version the programs report; it is set by linker flags, as in Kubernetes's own builds.
    """

    name: str
    packages: Mapping[str, str]
    version_of: str | None = None


_KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)
PROGRAM_SETS = (
    ProgramSet(
        "kubernetes", {name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES}, version_of="k8s.io/kubernetes"
    ),
    ProgramSet("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    ProgramSet("coredns", {"coredns": "."}),
    ProgramSet("pause", {"pause": "."}),
    ProgramSet("kind", {"kind": "sigs.k8s.io/kind"}),
    ProgramSet("kwok", {name: f"sigs.k8s.io/kwok/cmd/{name}" for name in ("kwok", "kwokctl")}),
)


class Programs:
    """Builds sets of programs, or finds those that are already built.

    Parameters
    ----------
    kept : Path
        The folder that keeps them.
    modules : Path, optional
        The folder of the Go modules; the package's own by default.
    go : str, optional
        The Go command.
    """

    def __init__(self, kept: Path, modules: Path = MODULES, go: str = "go") -> None:
        self.kept = kept
        self._modules = modules
        self._go = go

    def build(self, programs: ProgramSet, on_progress: OnProgress = lambda text: None) -> Path:
        """Return the folder of the programs; build them if they are not there.

        Raises
        ------
        BuildFailed
            If Go fails, with its last lines in the message, or if the folder cannot be made or written.
        """
        folder = self.place(programs)
        if folder.is_dir():
            return folder
        with appear(folder) as out:
            # A copy, because an installed package may be read-only, and Go locks the module's files.
            module = out.parent / "module"
            shutil.copytree(self._modules / programs.name, module)
            packages = sorted(set(programs.packages.values()))
            on_progress(f"{programs.name}: looking up packages")
            wanted = len(self._run(module, "list", "-mod=readonly", "-deps", *packages).split())
            for program, package in programs.packages.items():
                on_line = _shown(on_progress, f"{programs.name}: {program}", wanted)
                command = [self._go, "build", *self._flags(programs), "-o", str(out / program), package]
                run_step(command, on_line, module, self._environment())
        return folder

    def check_go(self) -> None:
        """Check that Go can build the modules, or fetch a newer Go that can, as versions from 1.21 on do.

        Raises
        ------
        BuildFailed
            If there is no Go, or it is too old.
        """
        said = self._run(self._modules, "version").strip()
        version = re.search(r"go(\d+)\.(\d+)", said)
        if version is not None and tuple(map(int, version.groups())) < _OLDEST_GO:
            raise BuildFailed(f"Go is too old to build the programs of a cluster ({said}): install 1.24 or newer")

    def place(self, programs: ProgramSet) -> Path:
        """Return the folder of the programs, whether or not they are built.

        Raises
        ------
        BuildFailed
            If there is no Go.
        """
        digest = hashlib.sha256()
        for file in sorted((self._modules / programs.name).iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        built_with = [self._run(self._modules, "version"), *self._flags(programs), *map(str, programs.packages.items())]
        digest.update("\0".join(built_with).encode())
        return self.kept / f"{programs.name}-{digest.hexdigest()[:16]}"

    def version(self, programs: ProgramSet) -> str:
        """Return the version of the programs' module, for example v1.34.4."""
        requirements = (self._modules / programs.name / "go.mod").read_text(encoding="utf-8")
        match = re.search(
            rf"^(?:require|\t)\s*{re.escape(str(programs.version_of))} (v\S+)", requirements, re.MULTILINE
        )
        if match is None:
            raise BuildFailed(f"{self._modules / programs.name}/go.mod requires no version of {programs.version_of}")
        return match[1]

    def _flags(self, programs: ProgramSet) -> list[str]:
        linker = ["-s", "-w"]
        if programs.version_of is not None:
            version = self.version(programs)
            major, minor = version.removeprefix("v").split(".")[:2]
            said = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            linker += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in said.items()]
        return [*_FLAGS, f"-ldflags={' '.join(linker)}"]

    def _run(self, folder: Path, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self._go, *arguments],
                cwd=folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=True,
                timeout=STEP_S,
            )
        except FileNotFoundError as error:
            raise BuildFailed(
                f"Go is needed to build the programs of a cluster, and there is no command {self._go}: install Go "
                f"1.24 or newer"
            ) from error
        except subprocess.CalledProcessError as error:
            raise BuildFailed(f"go {' '.join(arguments)} failed:\n{error.stderr.strip()}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildFailed(
                f"go {' '.join(arguments)} did not end within {STEP_S:.0f} s: does the module proxy answer "
                f"(go env GOPROXY)?"
            ) from error
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return _compilers(machine()) | os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}


def _shown(on_progress: OnProgress, what: str, wanted: int) -> Callable[[str], None]:
    """Return a reader of Go's output: with -v, Go prints a line for every package that is not in its cache."""
    compiled = count(1)
    return lambda line: on_progress(f"{what}, {next(compiled)} of at most {wanted} packages compiled")


def _compilers(of: Machine) -> dict[str, str]:
    return _COMPILERS if (of.memory_bytes or 0) >= of.cpus * _COMPILERS_FROM else {}
