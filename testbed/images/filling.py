"""Loads images into the containerd of a node that is being built, because nodes cannot pull them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed.errors import BuildFailed
from testbed.images.docker import Docker

CONTENT = "/var/lib/containerd"
"""Where containerd keeps images."""
_CTR = ("ctr", "--namespace=k8s.io")
_START_S = 30
_LIVES_S = 3600


@contextmanager
def filled(docker: Docker, node: str, images: Sequence[str], unpacked: bool = False) -> Iterator[str]:
    """Run a node's image as a container, and give its name when its containerd has loaded images, and has ended.

    Parameters
    ----------
    docker : Docker
    node : str
        The node's image, with containerd, ctr and pkill.
    images : sequence of str
        Images of the daemon.
    unpacked : bool
        Whether containerd unpacks the images, and drops the layers that they came in. Then what containerd keeps is a
        volume of the container, because the container's own file system does not serve for that.

    Raises
    ------
    BuildFailed
        If containerd has not loaded all images.
    DockerFailed
        If a call of the daemon fails.
    """
    container = f"carico-images-{uuid.uuid4().hex[:8]}"
    # If this process is killed, the container ends when its sleep is over.
    options = ["--detach", "--rm", "--privileged", "--network=none", f"--name={container}", "--entrypoint=sleep"]
    if unpacked:
        options.append(f"--volume={CONTENT}")
    docker.call("run", *options, node, str(_LIVES_S))
    try:
        docker.call("exec", "--detach", container, "containerd")
        wait = f"for _ in $(seq {_START_S * 10}); do ctr version && exit; sleep 0.1; done; exit 1"
        docker.call("exec", container, "sh", "-c", wait)
        how = () if unpacked else ("--no-unpack",)
        docker.save(images, ["exec", "--interactive", container, *_CTR, "images", "import", *how, "-"])
        held = docker.call("exec", container, *_CTR, "images", "list", "--quiet").split()
        lost = sorted(set(images) - set(held))
        if lost:
            raise BuildFailed(f"the node's containerd did not load {', '.join(lost)}; it has {', '.join(held)}")
        if unpacked:
            docker.call("exec", container, *_CTR, "content", "prune", "references")
        docker.call("exec", container, "sh", "-c", "pkill -x containerd; while pgrep -x containerd; do sleep 0.1; done")
        yield container
    finally:
        docker.call("rm", "--force", "--volumes", container)
