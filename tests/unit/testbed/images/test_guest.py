"""A guest's disk: holds the images of the control plane and our own, unpacked; its folder appears whole."""

import json
import tarfile

import pytest

from testbed.errors import BuildFailed
from testbed.images import guest as guest_module
from testbed.images.control_plane import ControlPlane
from testbed.images.guest import GuestDisk
from testbed.images.image import Image
from testbed.images.kernel import Kernel


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(tmp_path / "kept")
    (kernel.folder / "modules" / "6.1").mkdir(parents=True)
    for name in ("vmlinux", "initrd"):
        (kernel.folder / name).write_text(name)
    (kernel.folder / "kernel.json").write_text('{"release": "6.1"}')
    return kernel


@pytest.fixture
def disk(docker, programs, debian, kernel, place):
    def make(tag, on_progress):
        place.joinpath("images", tag.replace("/", "_")).touch()

    own = [Image(name, (), make) for name in ("carico", "workloads")]
    return GuestDisk(programs.kept, ControlPlane(docker, programs, debian), Image("system", (), make), kernel, own)


@pytest.fixture
def exported(place, tmp_path):
    """What the container of the fake daemon has as its files."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "found").write_text("content")
    with tarfile.open(place / "exported", "w") as packed:
        packed.add(files, ".")


def test_the_disk_is_made_from_the_container_and_what_its_containerd_keeps(disk, exported, place, monkeypatch):
    made = []

    def make_disk(root, image, size):
        made.extend(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())
        image.write_text("disk")

    monkeypatch.setattr(guest_module, "make_disk", make_disk)
    told = []
    assert disk.ensure(told.append) == disk.folder
    assert sorted(made) == ["found", "var/lib/containerd/found"]
    facts = json.loads((disk.folder / "guest.json").read_text())
    assert (facts["kubernetes"], facts["kernel"]) == ("v1.34.4", "6.1")
    assert facts["images"][-2:] == [image.tag for image in disk.programs]
    assert {name: len(digest) for name, digest in facts["digests"].items()} == dict.fromkeys(
        ("root.img", "kernel", "initrd"), 64
    )
    assert (disk.folder / "kernel").read_text() == "vmlinux"
    calls = place.joinpath("calls").read_text()
    assert "--volume=/var/lib/containerd" in calls
    assert "content prune references" in calls
    bare = f"carico.local/{disk.folder.name.replace('-', ':')}"
    assert f"rmi --no-prune {bare}" in calls
    with tarfile.open(place / "removed" / bare.replace("/", "_")) as context:
        names = context.getnames()
    assert {"files/usr/local/bin/carico-guest", "node/prepare", "mask-units", "modules/6.1", "kubelet"} <= set(names)
    place.joinpath("calls").write_text("")
    disk.ensure(told.append)
    assert place.joinpath("calls").read_text() == ""


def test_nothing_is_left_of_a_disk_that_fails(disk, exported, monkeypatch):
    def make_disk(root, image, size):
        image.write_text("half")
        raise BuildFailed("mke2fs ended with 1: no space left")

    monkeypatch.setattr(guest_module, "make_disk", make_disk)
    before = set(disk.kept.iterdir())
    with pytest.raises(BuildFailed, match="no space left"):
        disk.ensure(print)
    assert set(disk.kept.iterdir()) == before


def test_the_digest_of_a_disk_is_of_its_contents_not_of_its_holes(tmp_path):
    contents = bytearray(5 << 20)
    contents[3_000_000:3_000_004] = b"data"
    full, sparse, other = (tmp_path / name for name in ("full", "sparse", "other"))
    full.write_bytes(contents)
    for file, at in ((sparse, 3_000_000), (other, 3_000_001)):
        with file.open("wb") as stream:
            stream.truncate(len(contents))
            stream.seek(at)
            stream.write(b"data")
    assert guest_module._digest(full) == guest_module._digest(sparse)
    assert guest_module._digest(full) != guest_module._digest(other)
    longer = tmp_path / "longer"
    longer.write_bytes(contents + bytes(1))
    assert guest_module._digest(longer) != guest_module._digest(full)


def test_other_images_are_another_disk(disk):
    other = GuestDisk(disk.kept, disk.control_plane, disk.system, disk.kernel, disk.programs[:1])
    assert other.folder != disk.folder
