"""The base of all images: a minimal system of this machine's own distribution, from its package mirror."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import Unprepared
from testbed.images.docker import Docker
from testbed.images.image import Image
from testbed.images.programs import OnProgress
from testbed.images.step import run_step

PACKAGES = (
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "dbus",
    "ethtool",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "netbase",
    "nftables",
    "procps",
    "python3",
    "runc",
    "socat",
    "systemd",
    "systemd-sysv",
)
_NOT_NEEDED = (
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
)


@dataclass(frozen=True)
class Mirror:
    """A package mirror.

    Parameters
    ----------
    url : str
    suite : str
        For example "bookworm".
    """

    url: str
    suite: str


def machine_mirror() -> Mirror:
    """Return the mirror that this machine itself installs from.

    Raises
    ------
    Unprepared
        If this machine runs no Debian (or a relative of it), or no mirror is configured.
    """
    try:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unprepared(
            f"images are built from packages of Debian or a relative of it, which this machine does not run ({error}): "
            f"build them on a machine that does, or use the published images"
        ) from error
    for line in listed.splitlines():
        url, release, component = line.split()
        if release == suite and component == "main":
            return Mirror(url, release)
    raise Unprepared("apt has no source of this release's component main: add one (/etc/apt/sources.list)")


def administrators_path() -> str:
    """Return PATH with the folders of administrators' programs, which may be missing from a user's PATH."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def debian_image(docker: Docker, mirror: Mirror, name: str = "debian", packages: Sequence[str] = PACKAGES) -> Image:
    """Return the image of a minimal system with packages; by default Python and those that nodes need."""

    def make(tag: str, on_progress: OnProgress) -> None:
        with tempfile.TemporaryDirectory(prefix="carico-debian-") as place:
            root = Path(place) / "root"
            debootstrap(root, mirror, packages, on_progress)
            on_progress("debian: building the image")
            _keep_only_notices(root / "usr/share/doc")
            docker.import_root(tag, root, _NOT_NEEDED)

    return Image(name, (mirror.suite, *packages, *_NOT_NEEDED), make)


def _keep_only_notices(documents: Path) -> None:
    """Remove the packages' documentation except for licences, which must accompany the programs."""
    for path in documents.rglob("*"):
        if path.name != "copyright" and not path.is_dir():
            path.unlink()


def debootstrap(root: Path, mirror: Mirror, packages: Sequence[str], on_progress: OnProgress) -> None:
    """Make a folder with the root file system of a minimal system; needs root.

    Raises
    ------
    BuildFailed
        If debootstrap fails; the message has its last lines.
    Unprepared
        If there is no debootstrap.
    """
    command = [
        # Only debootstrap sees its mounts (/proc, /sys), and they vanish with it however it ends. If they stayed,
        # removing the folder would remove files of the machine's own /proc and /sys.
        "unshare",
        "--mount",
        "debootstrap",
        "--variant=minbase",
        # Otherwise it goes on without checking the archive's signature if it has no key.
        "--force-check-gpg",
        f"--include={','.join(packages)}",
        mirror.suite,
        str(root),
        mirror.url,
    ]
    path = administrators_path()
    if shutil.which("debootstrap", path=path) is None:
        raise Unprepared("there is no command debootstrap: install it (Debian: debootstrap)")
    environment = os.environ | {"PATH": path}
    run_step(command, lambda line: on_progress(f"debian: {line.strip()[:60]}"), environment=environment)
