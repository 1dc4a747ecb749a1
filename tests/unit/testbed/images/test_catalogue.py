"""Missing prerequisites of images are listed at once, each with its remedy."""

import os
import shutil
from collections import namedtuple

from testbed.errors import Unprepared
from testbed.images import catalogue
from testbed.images.catalogue import Catalogue
from testbed.images.debian import Mirror
from testbed.images.docker import Docker
from testbed.images.programs import Programs

MIRROR = Mirror("http://mirror.example/debian", "bookworm")


def test_all_missing_prerequisites_are_listed_at_once(tmp_path, monkeypatch):
    def no_mirror():
        raise Unprepared("apt has no source of this release's component main")

    monkeypatch.setattr(catalogue, "machine_mirror", no_mirror)
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    monkeypatch.setattr(catalogue, "administrators_path", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    none = str(tmp_path / "none")
    found = Catalogue(Docker(none), Programs(tmp_path, go=none)).missing(("node", "carico"), tmp_path)
    assert [str(problem).partition(" none")[0][:40] for problem in found] == [
        f"there is no command {none}: install Docker"[:40],
        "apt has no source of this release's component main"[:40],
        "there is no pip, which fetches the packages of images"[:40],
        "there is no command debootstrap: install",
        "debootstrap needs root, this is user 100",
        "Go is needed to build the programs of a ",
    ]


def test_a_guests_disk_needs_root_and_the_kernels_package_too(docker, go, tmp_path, monkeypatch):
    apt = tmp_path / "bin" / "apt-cache"
    apt.write_text("#!/bin/sh\necho 'E: No packages found' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setattr(catalogue, "machine_mirror", lambda: MIRROR)
    monkeypatch.setattr(catalogue, "administrators_path", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: namedtuple("usage", "free")(9 << 30))
    found = Catalogue(docker, Programs(tmp_path)).missing(("guest",), tmp_path)
    assert [str(problem).partition(" (")[0] for problem in found] == [
        "there is no command debootstrap: install it",
        "making a disk needs root, this is user 1000: run this as root",
        "there is no command mke2fs: install it",
        "apt does not know the package linux-image-amd64",
    ]


def test_a_built_base_needs_neither_root_nor_debootstrap(docker, place, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "machine_mirror", lambda: MIRROR)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(5 << 30))
    debian = catalogue.debian_image(docker, MIRROR)
    place.joinpath("images", debian.tag.replace("/", "_")).touch()
    assert Catalogue(docker, Programs(tmp_path)).missing(("workloads",), tmp_path) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1 << 30))
    (full,) = Catalogue(docker, Programs(tmp_path)).missing(("workloads",), tmp_path)
    assert str(full).startswith(f"1.0 GiB are free at {place}, building images takes up to 4 GiB")
