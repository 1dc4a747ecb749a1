"""The root file system that all images grow from: this machine's own distribution, small, from its package mirror."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
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
    """Where packages come from.

    Parameters
    ----------
    url : str
    suite : str
        As in bookworm.
    """

    url: str
    suite: str


def machine_mirror() -> Mirror:
    """Return the mirror that this machine itself installs from.

    Raises
    ------
    Unprepared
        If this is no Debian (or a relative of it), or none is configured.
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
            f"images are made from the packages of Debian or a relative of it, which this machine is not ({error}): "
            f"make them on one, or use the published images"
        ) from error
    for line in listed.splitlines():
        url, release, component = line.split()
        if release == suite and component == "main":
            return Mirror(url, release)
    raise Unprepared("apt has no source of this release's component main: add one (/etc/apt/sources.list)")


def administrators_path() -> str:
    """Return PATH with the folders of administrators' programs, which a user's may lack."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def debian_image(docker: Docker, mirror: Mirror) -> Image:
    """Return the image of a minimal system with what nodes need, and Python."""

    def make(tag: str, on_progress: OnProgress) -> None:
        with tempfile.TemporaryDirectory(prefix="carico-debian-") as place:
            root = Path(place) / "root"
            _debootstrap(root, mirror, on_progress)
            on_progress("debian: making an image of it")
            _keep_only_notices(root / "usr/share/doc")
            docker.import_root(tag, root, _NOT_NEEDED)

    return Image("debian", (mirror.suite, *PACKAGES, *_NOT_NEEDED), make)


def _keep_only_notices(documents: Path) -> None:
    """Remove what packages have in documents, but not their licences: these go where their programs go."""
    for path in documents.rglob("*"):
        if path.name != "copyright" and not path.is_dir():
            path.unlink()


def _debootstrap(root: Path, mirror: Mirror, on_progress: OnProgress) -> None:
    command = [
        # What it mounts (/proc, /sys) is seen by itself alone, and gone with it, however it ends: whoever removed the
        # folder meanwhile would be removing from the machine's own.
        "unshare",
        "--mount",
        "debootstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        mirror.suite,
        str(root),
        mirror.url,
    ]
    path = administrators_path()
    if shutil.which("debootstrap", path=path) is None:
        raise Unprepared("there is no command debootstrap: install it (Debian: debootstrap)")
    environment = os.environ | {"PATH": path}
    run_step(command, lambda line: on_progress(f"debian: {line.strip()[:60]}"), environment=environment)
