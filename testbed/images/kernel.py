"""The kernel that guests of Xen boot, and what it needs before it has a disk.

All comes from the distribution's kernel package: the kernel as an ELF file, an initial file system, uncompressed, which
finds the disk under Xen and on machines with virtio disks, and the modules that nodes need.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from testbed.errors import Unprepared
from testbed.images.cpio import cpio_archive
from testbed.images.debian_packages import dependency_of, unpack_packages
from testbed.images.image import RECIPES, digest_of
from testbed.images.kept import appear
from testbed.images.kernel_file import uncompressed_kernel, wanted_modules
from testbed.images.programs import OnProgress
from testbed.requirements import Problem

PACKAGE = "linux-image-amd64"
"""Depends on the newest kernel."""
_PREFIX = "linux-image-"
_CONFIG = "config"
_DRIVERS = {
    "xen": ("xen-blkfront", "xen-netfront"),
    "virtio": ("virtio_pci", "virtio_blk", "virtio_net", "virtio-rng"),
    "root": ("crc32c_generic", "ext4"),
}
"""Modules that the initial file system loads; of the first two, those that fit the machine."""


class KernelFacts(msgspec.Struct, frozen=True):
    """What is said about a kernel beside its files."""

    release: str


@dataclass(frozen=True)
class Kernel:
    """A kernel with its initial file system and modules, kept in a folder.

    Parameters
    ----------
    kept : Path
        The folder that keeps programs.
    """

    kept: Path

    @cached_property
    def folder(self) -> Path:
        """The folder of `vmlinux`, `initrd` and `modules`, whether or not it is there."""
        return self.kept / f"kernel-{digest_of(RECIPES / 'kernel', str(_DRIVERS), _CONFIG)}"

    @property
    def release(self) -> str:
        """The kernel's release, for example 6.1.0-56-amd64; it must be there."""
        return msgspec.json.decode((self.folder / "kernel.json").read_bytes(), type=KernelFacts).release

    def ensure(self, on_progress: OnProgress) -> Path:
        """Build the files unless they are there, and return their folder.

        Raises
        ------
        BuildFailed
            If a step fails.
        Unprepared
            If apt does not know the kernel's package.
        """
        if not self.folder.is_dir():
            with appear(self.folder) as made, tempfile.TemporaryDirectory(prefix="carico-kernel-") as place:
                self._make(made, Path(place), on_progress)
        return self.folder

    def missing(self) -> list[Problem]:
        """Return what is missing to build the files, each with its remedy."""
        try:
            if not self.folder.is_dir():
                dependency_of(PACKAGE, _PREFIX)
        except Unprepared as error:
            return [Problem(str(error))]
        return []

    def _make(self, made: Path, place: Path, on_progress: OnProgress) -> None:
        package = dependency_of(PACKAGE, _PREFIX)
        release = package.removeprefix(_PREFIX)
        on_progress(f"kernel: fetching {package}")
        unpack_packages([package, "busybox-static"], place)
        on_progress("kernel: unpacking it")
        kernel = uncompressed_kernel((place / "boot" / f"vmlinuz-{release}").read_bytes())
        (made / "vmlinux").write_bytes(kernel)
        tree = place / "lib" / "modules" / release
        (made / "initrd").write_bytes(_initial_files(tree, place / "bin" / "busybox"))
        listed = (RECIPES / "kernel" / "modules").read_text(encoding="utf-8").splitlines()
        patterns = [line for line in listed if line and not line.startswith("#")]
        modules = made / "modules" / release
        # depmod needs the package's lists beside the modules.
        for file in [*wanted_modules(tree, patterns), *tree.glob("modules.*")]:
            copy = modules / file.relative_to(tree)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        # kubeadm looks here, too, for what the kernel can do, and joins no node otherwise.
        (modules / _CONFIG).write_bytes((place / "boot" / f"config-{release}").read_bytes())
        (made / "kernel.json").write_bytes(msgspec.json.encode(KernelFacts(release)))


def _initial_files(tree: Path, busybox: Path) -> bytes:
    files = {"init": (0o755, (RECIPES / "kernel" / "init").read_bytes()), "bin/busybox": (0o755, busybox.read_bytes())}
    for group, names in _DRIVERS.items():
        for number, file in enumerate(wanted_modules(tree, names)):
            files[f"modules/{group}/{number:02}-{file.name}"] = (0o644, file.read_bytes())
    return cpio_archive(files, ("dev", "proc", "sys", "root"))
