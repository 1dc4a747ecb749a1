"""The images of a cluster's control plane, each with one program, under the names that kubeadm wants."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import BuildFailed
from testbed.images.docker import Content, Docker
from testbed.images.image import RECIPES, Image
from testbed.images.programs import PROGRAM_SETS, OnProgress, Programs
from testbed.images.step import STEP_S

_SETS = {programs.name: programs for programs in PROGRAM_SETS}
_PROXY, _SCRIPT = RECIPES / "kube-proxy" / "Containerfile", RECIPES / "common" / "with-libraries"


@dataclass(frozen=True)
class _Part:
    """An image of the control plane: the name that kubeadm wants, and its only program."""

    tag: str
    program: Path


@dataclass(frozen=True)
class ControlPlane:
    """The images of the control plane, and Kubernetes's programs; the sets of `programs` must have been built.

    Parameters
    ----------
    docker : Docker
    programs : Programs
    debian : Image
        The system from which kube-proxy's helpers are taken.
    """

    docker: Docker
    programs: Programs
    debian: Image

    @property
    def version(self) -> str:
        """The version of Kubernetes, for example v1.34.4."""
        return self.programs.version(_SETS["kubernetes"])

    @property
    def inputs(self) -> tuple[str | Path, ...]:
        """What the images are made from, as an input of images that hold them."""
        built = [str(self.programs.place(_SETS[name]).name) for name in ("kubernetes", "etcd", "coredns", "pause")]
        return (self.debian.tag, _PROXY, _SCRIPT, *built)

    @property
    def node_programs(self) -> dict[str, Content]:
        """The programs that every node has, as files of a build."""
        kubernetes = self.programs.place(_SETS["kubernetes"])
        return {name: kubernetes / name for name in ("kubelet", "kubeadm", "kubectl")}

    def build(self, on_progress: OnProgress) -> list[str]:
        """Build the images, and return their names.

        Raises
        ------
        BuildFailed
            If kubeadm does not say which images it needs.
        DockerFailed
            If a build fails.
        """
        parts = _parts(self.programs)
        base = self.debian.ensure(self.docker, on_progress)
        for part in parts:
            on_progress(f"control plane: {part.tag}")
            if part.program.name == "kube-proxy":
                files: dict[str, Content] = {"Containerfile": _PROXY, "with-libraries": _SCRIPT}
                self.docker.build(part.tag, files | {"kube-proxy": part.program}, {"BASE": base})
            else:
                self.docker.build(part.tag, {"Containerfile": _single(part.program.name), "program": part.program})
        return [part.tag for part in parts]


def control_plane_images(programs: Programs) -> list[str]:
    """Return the names of the control plane's images, which a node brings along.

    Raises
    ------
    BuildFailed
        If one of the programs cannot be run.
    """
    return [part.tag for part in _parts(programs)]


def pause_image(images: list[str]) -> str:
    """Return the one among the control plane's images that holds a pod's namespaces."""
    return next(tag for tag in images if tag.rpartition("/")[2].startswith("pause:"))


def _single(program: str) -> bytes:
    path = f"/usr/local/bin/{program}"
    return f'FROM scratch\nCOPY program {path}\nENV PATH=/usr/local/bin\nENTRYPOINT ["{path}"]\n'.encode()


def _parts(programs: Programs) -> list[_Part]:
    """Return the images that kubeadm lists."""
    kubernetes, version = programs.place(_SETS["kubernetes"]), programs.version(_SETS["kubernetes"])
    command = [str(kubernetes / "kubeadm"), "config", "images", "list", f"--kubernetes-version={version}"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=STEP_S).stdout.split()
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildFailed(f"kubeadm does not list the images that it needs: {error}") from error
    found = []
    for tag in listed:
        name = tag.rpartition("/")[2].partition(":")[0]
        place = kubernetes if name.startswith("kube-") else programs.place(_SETS[name])
        found.append(_Part(tag, place / name))
    return found
