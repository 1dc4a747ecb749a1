"""Images by digest: a tag may move to another image, and a digest does not.

Which digest a tag stands for is said by a registry (`carico.deployment.registry`). Where none answers, it is known once
a node has pulled the image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from carico.errors import InvalidInput
from carico.kube.objects import KubeObject

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""What images are identified by."""


def check_image(image: str) -> None:
    """Refuse the name of an image that makes no sense.

    Raises
    ------
    InvalidInput
        If it does not.
    """
    if not image or any(character.isspace() for character in image):
        raise InvalidInput(f"an image is named REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, got {image!r}")
    name, at, digest = image.partition("@")
    if at and not (name and DIGEST.fullmatch(digest)):
        raise InvalidInput(
            f"a digest is sha256: and 64 hexadecimal digits, as `docker push` prints it, got {digest!r} in {image!r}"
        )


def digests(pods: Iterable[KubeObject]) -> dict[str, set[str]]:
    """Return what pods run, as NAME@sha256:DIGEST, by the name with a tag that they were given.

    Left out are names that have a digest already, and images that came from no registry: nodes know no digest of them.
    """
    found: dict[str, set[str]] = {}
    for pod in pods:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        declared = [each for kind in ("initContainers", "containers") for each in spec.get(kind) or ()]
        images = {each["name"]: each["image"] for each in declared}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for each in status.get(kind) or ():
                image = images.get(each.get("name"), "")
                pulled = str(each.get("imageID") or "").rpartition("://")[2]  # without Docker's docker-pullable://
                name, _, digest = pulled.partition("@")
                if image and "@" not in image and name == full_name(image) and DIGEST.fullmatch(digest):
                    found.setdefault(image, set()).add(pulled)
    return found


def pinned_in(things: Iterable[KubeObject], image: str) -> str | None:
    """Return an image with the digest that deployed objects with pods name it by; None if they name none."""
    for thing in things:
        for container in thing["spec"]["template"]["spec"]["containers"]:
            if str(container.get("image")).startswith(f"{image}@"):
                return str(container["image"])
    return None


def full_name(image: str) -> str:
    """Return the full name of an image without its tag, as ``REGISTRY/NAME``."""
    folder, _, last = image.rpartition("/")
    name = "/".join(filter(None, (folder, last.partition(":")[0])))
    host, slash, rest = name.partition("/")
    if slash and host in ("docker.io", "index.docker.io"):
        name, slash = rest, "/" if "/" in rest else ""
    elif slash and (host == "localhost" or "." in host or ":" in host):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
