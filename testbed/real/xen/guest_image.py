"""What is in the guests' image, as the file guest.json beside it says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.errors import ClusterError, UsageError
from testbed.images.catalogue import Catalogue
from testbed.images.docker import Docker
from testbed.images.guest import GuestFacts
from testbed.images.image import REGISTRY
from testbed.images.programs import Programs
from testbed.user_cache import user_cache

FILE = "guest.json"


def read_guest_image(folder: str | None) -> GuestFacts:
    """Read what is in the image of a folder, by default of the one that is built here.

    Raises
    ------
    TestbedError
        If that cannot be read, or it cannot be found out which one would be built here.
    """
    if folder is None:
        folder = str(Catalogue(Docker(), Programs(user_cache())).guest_disk().folder)
    file = Path(folder) / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=GuestFacts)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{file} does not describe an image of guests: {error}; carico-testbed images guest builds one"
        ) from error


def container_image(image: GuestFacts, name: str) -> str:
    """Return the full name of one of our container images, such as "carico"; raises ClusterError if it is not there."""
    for held in image.images:
        if held.startswith(f"{REGISTRY}/{name}:"):
            return held
    raise ClusterError(
        f"the guests' image has no image {name}, it has {', '.join(image.images)}: build it anew with carico-testbed "
        f"images guest"
    )
