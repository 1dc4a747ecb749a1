"""A host of Xen that QEMU emulates, for tests: a disk with Debian and Xen's tools (its dom0), and the hypervisor.

Nothing here starts it; who has this project's sources does so by scripts/xen-lab.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from testbed.images.debian import debootstrap, machine_mirror
from testbed.images.disk import make_disk
from testbed.images.image import MASK_UNITS, RECIPES, digest_of
from testbed.images.kept import appear
from testbed.images.kernel import Kernel
from testbed.images.programs import OnProgress
from testbed.images.step import run_step

_PACKAGES = (
    "dbus",
    "dmsetup",
    "e2fsprogs",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "openssh-server",
    "procps",
    "systemd",
    "systemd-sysv",
    "xen-system-amd64",
)
_DISK_BYTES = 16 << 30
"""What dom0 sees; what guests write goes there, too."""
_FILES = RECIPES / "xen-host"


@dataclass(frozen=True)
class XenHost:
    """The host's disk, hypervisor, kernel and initial file system, in a folder.

    Parameters
    ----------
    kept : Path
        The folder that keeps programs.
    kernel : Kernel
    """

    kept: Path
    kernel: Kernel

    @cached_property
    def folder(self) -> Path:
        """The folder of `disk`, `xen`, `vmlinux` and `initrd`, whether or not it is there."""
        made_from = (*_PACKAGES, str(_DISK_BYTES), _FILES, MASK_UNITS, self.kernel.folder.name)
        return self.kept / f"xen-host-{digest_of(*made_from)}"

    def ensure(self, on_progress: OnProgress) -> Path:
        """Build the files unless they are there, and return their folder. Needs root, debootstrap and mke2fs.

        Raises
        ------
        BuildFailed
            If a step fails.
        Unprepared
            If something is missing.
        """
        if not self.folder.is_dir():
            with appear(self.folder) as made, tempfile.TemporaryDirectory(dir=made.parent) as place:
                self._make(made, Path(place) / "root", on_progress)
        return self.folder

    def _make(self, made: Path, root: Path, on_progress: OnProgress) -> None:
        kernel = self.kernel.ensure(on_progress)
        debootstrap(root, machine_mirror(), _PACKAGES, on_progress)
        on_progress("host: finishing the disk")
        (hypervisor,) = (root / "boot").glob("xen-*.gz")
        (made / "xen").write_bytes(gzip.decompress(hypervisor.read_bytes()))
        shutil.rmtree(root / "var" / "cache" / "apt")
        shutil.copytree(kernel / "modules", root / "usr" / "lib" / "modules", dirs_exist_ok=True)
        shutil.copytree(_FILES, root, dirs_exist_ok=True)
        shutil.copy(MASK_UNITS, root)
        run_step(["unshare", "--mount", "chroot", str(root), "/finish"], lambda line: None)
        make_disk(root, made / "disk", _DISK_BYTES)
        for name in ("vmlinux", "initrd"):
            shutil.copyfile(kernel / name, made / name)
