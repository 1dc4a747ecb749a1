"""The images of real clusters by name, and the prerequisites for building them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from testbed.errors import TestbedError
from testbed.images.control_plane import ControlPlane
from testbed.images.debian import Mirror, administrators_path, debian_image, machine_mirror
from testbed.images.docker import Docker
from testbed.images.guest import GUEST_PACKAGES, GuestDisk
from testbed.images.image import Image
from testbed.images.kernel import Kernel
from testbed.images.node_image import node_image
from testbed.images.programs import PROGRAM_SETS, Programs
from testbed.images.python_image import base_image, program_image
from testbed.images.xen_host import XenHost
from testbed.requirements import Problem

PURPOSES = {
    "node": "a node of kind, with the control plane's images",
    "carico": "agent, aggregator and extender",
    "workloads": "the programs pi, stress and web",
    "workloads-sklearn": "the same and mlp, with scikit-learn",
}
"""The images and their contents, by name."""

_PROGRAMS_BYTES = 6 << 30
"""Disk for building programs, most of it for Go's own caches."""
_IMAGES_BYTES = 4 << 30
_PACKAGES = {
    "carico": ("carico", "scheduler"),
    "workloads": ("workloads", ""),
    "workloads-sklearn": ("workloads", "workloads"),
}
"""The package of this project that an image has, and the extra with what that needs, by the image's name."""
_GUEST = "guest"
_GUEST_BYTES = 3 << 30
"""Twice what the disk contains, which is a folder first."""
_IN_GUESTS = ("carico", "workloads")
"""The images, beside the control plane's, that guests of Xen have."""


@dataclass(frozen=True)
class Catalogue:
    """Describes the images, and checks their prerequisites.

    Parameters
    ----------
    docker : Docker
    programs : Programs
    """

    docker: Docker
    programs: Programs

    def image(self, name: str, base: str | None = None) -> Image:
        """Return an image by name, built on this machine's own distribution, or on a `base` that can be pulled.

        Raises
        ------
        TestbedError
            If its inputs cannot be determined: there is no package mirror, or no Go.
        """
        if base is None or name == "node":
            debian = debian_image(self.docker, machine_mirror())
            if name == "node":
                return node_image(ControlPlane(self.docker, self.programs, debian))
            return program_image(self.docker, name, *_PACKAGES[name], base_image(self.docker, debian))
        return program_image(self.docker, name, *_PACKAGES[name], base)

    def guest_disk(self) -> GuestDisk:
        """Return the disk of Xen guests, with the images of CARICO and of the workloads; raises as `image` does."""
        mirror = machine_mirror()
        return GuestDisk(
            kept=self.programs.kept,
            control_plane=ControlPlane(self.docker, self.programs, debian_image(self.docker, mirror)),
            system=_guest_system(self.docker, mirror),
            kernel=Kernel(self.programs.kept),
            programs=[self.image(name) for name in _IN_GUESTS],
        )

    def xen_host(self) -> XenHost:
        """Return the disk of the emulated host of Xen that tests use."""
        return XenHost(self.programs.kept, Kernel(self.programs.kept))

    def with_bases(self, name: str) -> list[Image]:
        """Return an image with those that it is built on where none can be pulled; raises as `image` does."""
        debian = debian_image(self.docker, machine_mirror())
        return [self.image(name), base_image(self.docker, debian), debian]

    def _is_there(self, name: str) -> bool:
        try:
            return self.docker.has(self.image(name).tag)
        except TestbedError:  # `missing` reports it elsewhere
            return False

    def missing(self, names: tuple[str, ...], place: Path) -> list[Problem]:
        """Return what is missing to build images, each with its remedy; builds nothing.

        Parameters
        ----------
        names : tuple of str
            Of images; "guest" stands for the disk of Xen guests, which is no image.
        place : Path
            The folder that keeps programs.
        """
        guest = _GUEST in names
        if guest:
            names = (*names, *_IN_GUESTS)
        found = []
        answers = there = False
        try:
            self.docker.version()
            answers = True
            found += _full_disk(Path(self.docker.root()), _IMAGES_BYTES, "images", "as by docker image prune")
        except TestbedError as error:
            found.append(Problem(str(error)))
        try:
            mirror = machine_mirror()
            systems = [debian_image(self.docker, mirror), *([_guest_system(self.docker, mirror)] if guest else [])]
            there = answers and all(self.docker.has(system.tag) for system in systems)
        except TestbedError as error:
            found.append(Problem(str(error)))
        fetched = [name for name in names if name in _PACKAGES and _PACKAGES[name][1]]
        if find_spec("pip") is None and not all(map(self._is_there, fetched)):
            found.append(Problem("there is no pip, which fetches the packages of images", "python -m ensurepip"))
        if not there and shutil.which("debootstrap", path=administrators_path()) is None:
            found.append(Problem("there is no command debootstrap", "install it (Debian: debootstrap)"))
        if os.geteuid() != 0 and (guest or not there):
            who = "making a disk" if guest else "debootstrap"
            found.append(Problem(f"{who} needs root, this is user {os.geteuid()}", "run this as root"))
        if guest:
            if shutil.which("mke2fs", path=administrators_path()) is None:
                found.append(Problem("there is no command mke2fs", "install it (Debian: e2fsprogs)"))
            found += Kernel(self.programs.kept).missing()
            found += _full_disk(place, _GUEST_BYTES, "the disk of Xen guests", "or name another folder with --kept")
        if guest or "node" in names:
            found += missing_for_programs(self.programs, tuple(one.name for one in PROGRAM_SETS), place)
        return found


def _guest_system(docker: Docker, mirror: Mirror) -> Image:
    return debian_image(docker, mirror, "debian-guest", GUEST_PACKAGES)


def missing_for_programs(programs: Programs, names: tuple[str, ...], place: Path) -> list[Problem]:
    """Return what is missing to build sets of programs; nothing if they are already built."""
    try:
        if all(programs.place(one).is_dir() for one in PROGRAM_SETS if one.name in names):
            return []
        programs.check_go()
        found = []
    except TestbedError as error:
        found = [Problem(str(error))]
    remedy = "or name another folder with --kept, and later with CARICO_PROGRAMS (and GOCACHE, GOMODCACHE)"
    return found + _full_disk(place, _PROGRAMS_BYTES, "programs with Go's own caches", remedy)


def _full_disk(place: Path, needed: int, what: str, remedy: str) -> list[Problem]:
    there = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free >= needed:
        return []
    return [
        Problem(
            f"{free / 2**30:.1f} GiB are free at {there}, building {what} takes up to {needed / 2**30:.0f} GiB",
            f"make room, {remedy}",
        )
    ]
