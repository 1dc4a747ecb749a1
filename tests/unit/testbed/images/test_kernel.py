"""A kernel from the distribution's package, which is downloaded and unpacked but not installed."""

import gzip
import os
import struct

import pytest

from testbed.errors import Unprepared
from testbed.images.debian_packages import dependency_of, unpack_packages
from testbed.images.kernel import _DRIVERS, Kernel

RELEASE = "6.1.0-56-amd64"
DEPENDS = f"linux-image-amd64\n  Depends: linux-image-{RELEASE}\n"


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """A function that puts scripts in place of apt's and dpkg's programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


@pytest.fixture
def package(tmp_path):
    """The files of a kernel's package, and of busybox's."""
    root = tmp_path / "package"
    tree = root / "lib" / "modules" / RELEASE
    (tree / "kernel").mkdir(parents=True)
    recipe = [name for group in _DRIVERS.values() for name in group]
    listed = [
        "overlay",
        "loop",
        "dm-snapshot",
        "xen-blkback",
        "xen-netback",
        "xen-evtchn",
        "xen-gntalloc",
        "xen-gntdev",
    ]
    listed += ["xen-privcmd", "xenfs", "bridge", "br_netfilter", "veth", "dummy", "x_tables", "ip_tables", "ip6_tables"]
    listed += [f"{name}_one" for name in ("nf", "nft", "xt", "ip_set", "ipt", "iptable", "ip6t", "ip6table")]
    for name in [*recipe, *listed, "nfnetlink", "unwanted"]:
        (tree / "kernel" / f"{name}.ko").write_bytes(b"\0depends=\0")
    (tree / "modules.builtin").touch()
    payload = gzip.compress(b"\x7fELF kernel") + bytes(4)
    head = bytearray(1024)
    head[0x1F1], head[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    (root / "boot").mkdir()
    (root / "boot" / f"vmlinuz-{RELEASE}").write_bytes(bytes(head) + payload)
    (root / "boot" / f"config-{RELEASE}").write_text("CONFIG_XEN=y")
    (root / "bin").mkdir()
    (root / "bin" / "busybox").write_bytes(b"busybox")
    return root


def test_what_guests_boot_is_taken_from_the_packages(apt, package, tmp_path):
    apt("apt-cache", f"cat << END\n{DEPENDS}END")
    apt("apt-get", 'for last; do :; done; touch "$last.deb"')
    apt("dpkg-deb", f'cp -a {package}/. "$3"')
    kernel = Kernel(tmp_path / "kept")
    told = []
    folder = kernel.ensure(told.append)
    assert told[0] == f"kernel: fetching linux-image-{RELEASE}"
    assert kernel.release == RELEASE
    assert (folder / "vmlinux").read_bytes() == b"\x7fELF kernel"
    for name in (b"init\0", b"bin/busybox\0", b"modules/xen/00-xen-blkfront.ko\0", b"modules/root/01-ext4.ko\0"):
        assert name in (folder / "initrd").read_bytes()
    modules = {file.name for file in (folder / "modules" / RELEASE).rglob("*") if file.is_file()}
    assert {"overlay.ko", "xt_one.ko", "xen-blkback.ko", "modules.builtin", "config"} <= modules
    assert "unwanted.ko" not in modules
    assert kernel.missing() == []


def test_an_unknown_package_is_reported(apt):
    apt("apt-cache", "exit 100")
    with pytest.raises(Unprepared, match=r"apt does not know the package linux-image-amd64 .*apt-get update"):
        dependency_of("linux-image-amd64", "linux-image-")
    apt("apt-cache", "echo linux-image-amd64")
    with pytest.raises(Unprepared, match="depends on no linux-image-"):
        dependency_of("linux-image-amd64", "linux-image-")


def test_packages_are_unpacked_and_not_kept(apt, tmp_path):
    apt("apt-get", 'touch "$4.deb"')
    apt("dpkg-deb", 'echo "$2" >> "$3/unpacked"')
    unpack_packages(["busybox-static"], tmp_path / "place")
    assert [file.name for file in (tmp_path / "place").iterdir()] == ["unpacked"]
    assert (tmp_path / "place" / "unpacked").read_text().endswith("/busybox-static.deb\n")
