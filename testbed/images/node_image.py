"""The image of kind's nodes, which holds everything that a cluster itself runs.

It is Debian with systemd, containerd and Kubernetes's programs. The build also loads the control plane's images into
the image's containerd, because nodes could not pull them.
"""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import BuildFailed
from testbed.images.docker import Content, Docker
from testbed.images.image import RECIPES, Image
from testbed.images.programs import PROGRAM_SETS, OnProgress, Programs
from testbed.images.step import STEP_S

VERSION_LABEL = "io.carico.node"
"""Label of node images that bring their own pod network, so that kind must add none; its value is the version of
Kubernetes."""

_SETS = {programs.name: programs for programs in PROGRAM_SETS}
_CTR = ("ctr", "--namespace=k8s.io")
_START_S = 30
_LIVES_S = 3600


@dataclass(frozen=True)
class _Part:
    """An image of the control plane: the name that kubeadm wants, and its only program."""

    tag: str
    program: Path


def node_image(docker: Docker, programs: Programs, debian: Image) -> Image:
    """Return the image of a node; the sets of `programs` must have been built.

    Raises
    ------
    BuildFailed
        If one of the programs cannot be run.
    """
    recipe, proxy, script = (
        RECIPES / "node",
        RECIPES / "kube-proxy" / "Containerfile",
        RECIPES / "common" / "with-libraries",
    )
    kubernetes = programs.place(_SETS["kubernetes"])
    version = programs.version(_SETS["kubernetes"])

    def make(tag: str, on_progress: OnProgress) -> None:
        base = debian.ensure(docker, on_progress)
        parts = _parts(programs, version)
        for part in parts:
            on_progress(f"node: {part.tag}")
            if part.program.name == "kube-proxy":
                files: dict[str, Content] = {"Containerfile": proxy, "with-libraries": script}
                docker.build(part.tag, files | {"kube-proxy": part.program}, {"BASE": base})
            else:
                docker.build(part.tag, {"Containerfile": _single(part.program.name), "program": part.program})
        on_progress("node: system and programs")
        bare = f"{tag}-bare"
        arguments = {
            "BASE": base,
            "VERSION": version,
            "PAUSE_IMAGE": next(part.tag for part in parts if part.program.name == "pause"),
        }
        files = {"Containerfile": recipe / "Containerfile", "files": recipe / "files"}
        docker.build(bare, files | {name: kubernetes / name for name in ("kubelet", "kubeadm", "kubectl")}, arguments)
        try:
            _fill(docker, bare, tag, version=version, images=[part.tag for part in parts], on_progress=on_progress)
        finally:
            docker.call("rmi", "--no-prune", bare)

    built = [str(programs.place(_SETS[name]).name) for name in ("kubernetes", "etcd", "coredns", "pause")]
    return Image("node", (debian.tag, recipe, proxy, script, *built), make)


def _single(program: str) -> bytes:
    path = f"/usr/local/bin/{program}"
    return f'FROM scratch\nCOPY program {path}\nENV PATH=/usr/local/bin\nENTRYPOINT ["{path}"]\n'.encode()


def control_plane_images(programs: Programs) -> list[str]:
    """Return the images of the control plane, which a node brings along.

    Raises
    ------
    BuildFailed
        If one of the programs cannot be run.
    """
    return [part.tag for part in _parts(programs, programs.version(_SETS["kubernetes"]))]


def _parts(programs: Programs, version: str) -> list[_Part]:
    """Return the images that kubeadm lists."""
    kubernetes = programs.place(_SETS["kubernetes"])
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


def _fill(docker: Docker, bare: str, tag: str, *, version: str, images: list[str], on_progress: OnProgress) -> None:
    """Run the image, load images into its containerd, and commit the result as a new image."""
    container = f"carico-images-{uuid.uuid4().hex[:8]}"
    # If this process is killed, the container ends when its sleep is over.
    options = ("--detach", "--rm", "--privileged", "--network=none", f"--name={container}", "--entrypoint=sleep")
    docker.call("run", *options, bare, str(_LIVES_S))
    try:
        docker.call("exec", "--detach", container, "containerd")
        wait = f"for _ in $(seq {_START_S * 10}); do ctr version && exit; sleep 0.1; done; exit 1"
        docker.call("exec", container, "sh", "-c", wait)
        on_progress("node: loading images of the control plane")
        docker.save(images, ["exec", "--interactive", container, *_CTR, "images", "import", "--no-unpack", "-"])
        held = docker.call("exec", container, *_CTR, "images", "list", "--quiet").split()
        lost = sorted(set(images) - set(held))
        if lost:
            raise BuildFailed(f"the node's containerd did not load {', '.join(lost)}; it has {', '.join(held)}")
        docker.call("exec", container, "sh", "-c", "pkill -x containerd; while pgrep -x containerd; do sleep 0.1; done")
        on_progress("node: building the image")
        changes = (f"LABEL {VERSION_LABEL}={version}", 'ENTRYPOINT ["/usr/local/bin/node-entrypoint"]', "CMD []")
        docker.call("commit", *(f"--change={change}" for change in changes), container, tag)
    finally:
        docker.call("rm", "--force", "--volumes", container)
