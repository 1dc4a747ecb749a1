"""The image of kind's nodes, which holds everything that a cluster itself runs.

It is Debian with systemd, containerd and Kubernetes's programs. The build also loads the control plane's images into
the image's containerd, because nodes could not pull them.
"""

from __future__ import annotations

from testbed.images.control_plane import ControlPlane, pause_image
from testbed.images.docker import Content
from testbed.images.filling import filled
from testbed.images.image import MASK_UNITS, RECIPES, Image
from testbed.images.programs import OnProgress

VERSION_LABEL = "io.carico.node"
"""Label of node images that bring their own pod network, so that kind must add none; its value is the version of
Kubernetes."""
SHARED: dict[str, Content] = {"node": RECIPES / "node", "mask-units": MASK_UNITS}
"""What all nodes have, whether they are containers or guests, by its name in a build: containerd's configuration, the
kubelet as a service, the pod network."""
_RECIPE = RECIPES / "kind"
POD_SUBNET = "10.244.0.0/16"
"""The network of all pods, as the nodes' script `pod-network` has it."""
CLUSTER_DNS = _RECIPE / "files" / "kind" / "manifests" / "default-storage.yaml"
"""A manifest that makes CoreDNS answer for the cluster only: nodes have no name server that it could ask."""


def node_image(control_plane: ControlPlane) -> Image:
    """Return the image of a node.

    Raises
    ------
    BuildFailed
        If one of the programs cannot be run.
    """
    docker = control_plane.docker

    def make(tag: str, on_progress: OnProgress) -> None:
        images = control_plane.build(on_progress)
        on_progress("node: system and programs")
        bare = f"{tag}-bare"
        files: dict[str, Content] = {"Containerfile": _RECIPE / "Containerfile", "files": _RECIPE / "files"}
        arguments = {
            "BASE": control_plane.debian.tag,
            "VERSION": control_plane.version,
            "PAUSE_IMAGE": pause_image(images),
        }
        docker.build(bare, files | SHARED | control_plane.node_programs, arguments)
        try:
            on_progress("node: loading images of the control plane")
            with filled(docker, bare, images) as container:
                on_progress("node: building the image")
                label = f"LABEL {VERSION_LABEL}={control_plane.version}"
                changes = (label, 'ENTRYPOINT ["/usr/local/bin/node-entrypoint"]', "CMD []")
                docker.call("commit", *(f"--change={change}" for change in changes), container, tag)
        finally:
            docker.call("rmi", "--no-prune", bare)

    return Image("node", (*SHARED.values(), _RECIPE, *control_plane.inputs), make)
