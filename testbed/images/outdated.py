"""Programs and images that were built here from other inputs than the present ones, so that nothing uses them now."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from testbed.errors import DockerFailed
from testbed.images.catalogue import PURPOSES, Catalogue
from testbed.images.docker import Docker
from testbed.images.image import REGISTRY
from testbed.images.kept import is_running, lock_of
from testbed.images.programs import PROGRAM_SETS
from testbed.images.python_image import PUBLISHED_BASE


def outdated_programs(catalogue: Catalogue) -> list[Path]:
    """Return the folders of other versions' programs and disks, and those that killed builds have left.

    Raises
    ------
    TestbedError
        If the present versions cannot be determined: there is no Go, or no package mirror.
    """
    programs = catalogue.programs
    guest = catalogue.guest_disk()
    present = {guest.folder, guest.kernel.folder, catalogue.xen_host().folder}
    present |= {programs.place(one) for one in PROGRAM_SETS}
    names = "|".join([*(re.escape(one.name) for one in PROGRAM_SETS), "guest", "kernel", "xen-host"])
    ours = re.compile(rf"(?:{names})-[0-9a-f]{{16}}|\.(?:{names})-\w+")
    if not programs.kept.is_dir():
        return []
    there = [one for one in programs.kept.iterdir() if ours.fullmatch(one.name) and one.is_dir()]
    return sorted(one for one in there if one not in present and not is_running(one))


def outdated_images(catalogue: Catalogue) -> list[str]:
    """Return the tags of images that were built here from other inputs than the present ones.

    Raises
    ------
    TestbedError
        If no daemon answers, or the present inputs cannot be determined.
    """
    present = {below.tag for name in PURPOSES for below in catalogue.with_bases(name)}
    present.add(catalogue.guest_disk().system.tag)
    present |= {catalogue.image(name, PUBLISHED_BASE).tag for name in PURPOSES}
    return sorted(set(catalogue.docker.tags(f"{REGISTRY}/*")) - present)


def remove_programs(folder: Path) -> str:
    """Remove a folder of programs, and return a message for the user."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    try:
        shutil.rmtree(folder)
        lock_of(folder).unlink(missing_ok=True)
    except OSError as error:
        return f"{folder} is not removed: {error.strerror}"
    return f"removed {folder}, {size / 2**20:.0f} MiB"


def remove_image(docker: Docker, tag: str) -> str:
    """Remove an image unless a container runs it, and return a message for the user."""
    try:
        docker.call("rmi", tag)
    except DockerFailed as error:
        return f"{tag} is not removed: {error}"
    return f"removed {tag}"
