"""The root disk of guests of Xen that are nodes of a cluster, with the kernel that boots it.

The disk is a file with a file system: Debian with systemd, containerd and an SSH server, Kubernetes's programs, and all
images that a cluster of the testbed runs, unpacked. One disk serves every guest as the read-only base of its own. A
guest gets its name, addresses and key from its kernel's command line, or from the hypervisor's store.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from testbed.images.control_plane import ControlPlane, pause_image
from testbed.images.debian import PACKAGES
from testbed.images.disk import make_disk
from testbed.images.docker import Content
from testbed.images.filling import CONTENT, filled
from testbed.images.image import RECIPES, REGISTRY, Image, digest_of
from testbed.images.kept import appear
from testbed.images.kernel import Kernel
from testbed.images.node_image import SHARED
from testbed.images.programs import OnProgress

GUEST_PACKAGES = (*PACKAGES, "openssh-server", "xenstore-utils")
"""What a guest's system has: the hypervisor's store tells it its settings, and SSH lets its maker in."""
DISK_BYTES = 8 << 30
"""The size of a guest's disk; the file is sparse and takes what it contains."""
_RECIPE = RECIPES / "guest"
_BLOCK = 1 << 20


class GuestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about a guest's disk beside its files, in `guest.json`.

    Parameters
    ----------
    kubernetes : str
        The version, for example v1.34.4.
    kernel : str
        The kernel's release, for example 6.1.0-56-amd64.
    disk_bytes : int
        The size that a guest sees.
    digests : mapping
        By which the contents of root.img, kernel and initrd can be told from others.
    images : tuple of str
        The images that a guest's containerd has.
    """

    kubernetes: str
    kernel: str
    disk_bytes: int
    digests: dict[str, str]
    images: tuple[str, ...]


@dataclass(frozen=True)
class GuestDisk:
    """A guest's root disk, and its kernel, kept in a folder.

    Parameters
    ----------
    kept : Path
        The folder that keeps programs.
    control_plane : ControlPlane
    system : Image
        The system of the disk.
    kernel : Kernel
    programs : sequence of Image
        The images of this project's own programs.
    """

    kept: Path
    control_plane: ControlPlane
    system: Image
    kernel: Kernel
    programs: Sequence[Image]

    @cached_property
    def folder(self) -> Path:
        """The folder of root.img, kernel, initrd and guest.json, whether or not it is there.

        Raises
        ------
        BuildFailed
            If there is no Go, by whose version programs are identified.
        """
        tags = [image.tag for image in self.programs]
        own = (str(DISK_BYTES), _RECIPE, *SHARED.values(), self.system.tag, self.kernel.folder.name)
        return self.kept / f"guest-{digest_of(*own, *self.control_plane.inputs, *tags)}"

    @property
    def facts(self) -> GuestFacts:
        """What guest.json says; the disk must be there."""
        return msgspec.json.decode((self.folder / "guest.json").read_bytes(), type=GuestFacts)

    def ensure(self, on_progress: OnProgress) -> Path:
        """Build the disk unless it is there, and return its folder. Needs root, mke2fs and a Docker daemon.

        Raises
        ------
        BuildFailed, DockerFailed
            If a step fails.
        Unprepared
            If something is missing.
        """
        if not self.folder.is_dir():
            with appear(self.folder) as made, tempfile.TemporaryDirectory(dir=made.parent) as place:
                self._make(made, Path(place), on_progress)
        return self.folder

    def _make(self, made: Path, root: Path, on_progress: OnProgress) -> None:
        docker = self.control_plane.docker
        kernel = self.kernel.ensure(on_progress)
        images = self.control_plane.build(on_progress)
        system = self.system.ensure(docker, on_progress)
        images += [image.ensure(docker, on_progress) for image in self.programs]
        on_progress("guest: system and programs")
        bare = f"{REGISTRY}/{self.folder.name.replace('-', ':')}"
        files: dict[str, Content] = {"Containerfile": _RECIPE / "Containerfile", "files": _RECIPE / "files"}
        files |= SHARED | {"modules": kernel / "modules"} | self.control_plane.node_programs
        docker.build(bare, files, {"BASE": system, "PAUSE_IMAGE": pause_image(images)})
        try:
            on_progress("guest: loading images")
            with filled(docker, bare, images, unpacked=True) as container:
                on_progress("guest: copying its files")
                docker.unpack(["export", container], root)
                content = ["exec", container, "tar", "--create", f"--directory={CONTENT}", "--xattrs", "."]
                docker.unpack(content, root / CONTENT.lstrip("/"))
        finally:
            docker.call("rmi", "--no-prune", bare)
        (root / ".dockerenv").unlink(missing_ok=True)
        on_progress("guest: writing the disk")
        make_disk(root, made / "root.img", DISK_BYTES)
        for name, source in {"kernel": "vmlinux", "initrd": "initrd"}.items():
            (made / name).write_bytes((kernel / source).read_bytes())
        facts = GuestFacts(
            kubernetes=self.control_plane.version,
            kernel=self.kernel.release,
            disk_bytes=DISK_BYTES,
            digests={name: _digest(made / name) for name in ("root.img", "kernel", "initrd")},
            images=tuple(images),
        )
        (made / "guest.json").write_bytes(msgspec.json.format(msgspec.json.encode(facts)) + b"\n")


def _digest(file: Path) -> str:
    """Return a digest of what a file contains; it does not read holes, which are most of a disk."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        at = 0
        while at < end:
            try:
                at = os.lseek(stream.fileno(), at, os.SEEK_DATA) // _BLOCK * _BLOCK
            except OSError:  # only a hole is left
                break
            block = os.pread(stream.fileno(), _BLOCK, at)
            if block.count(0) < len(block):
                digest.update(f"{at}\0".encode() + block)
            at += _BLOCK
        digest.update(f"{end}".encode())
    return digest.hexdigest()
