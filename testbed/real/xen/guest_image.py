"""What is in the guests' image, as the file guest.json beside it says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.errors import ClusterError, UsageError
from testbed.images.image import REGISTRY

FILE = "guest.json"


class GuestImage(msgspec.Struct, frozen=True):
    """The contents of an image."""

    kubernetes: str
    """The version of its programs, for example "v1.34.4"."""
    digests: dict[str, str]
    """SHA-256 of its files, of root.img among them."""
    images: list[str]
    """Full names of the container images that its containerd holds."""

    def container_image(self, name: str) -> str:
        """Return the full name of one of our images, such as "carico"; raises ClusterError if it is not there."""
        for image in self.images:
            if image.startswith(f"{REGISTRY}/{name}:"):
                return image
        raise ClusterError(
            f"the guests' image has no image {name}, it has {', '.join(self.images)}: build it anew with "
            f"carico-testbed images guest"
        )


def read_guest_image(folder: Path) -> GuestImage:
    """Read what is in the image of a folder; raises UsageError if that cannot be read."""
    file = folder / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=GuestImage)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{file} does not describe an image of guests: {error}; carico-testbed images guest builds one"
        ) from error
