"""The contents of the images: only what programs need, nothing that their user could change, and all licences."""

import json
import re
import sys
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from testbed.images.docker import Docker
from testbed.images.python_image import LOCKS
from testbed.images.sbom import bill

IMAGES = ("carico", "workloads", "workloads-sklearn")
LIGHT_BYTES = 60_000_000
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", params=IMAGES)
def exported(request, image, containers, tmp_path_factory):
    """The files of an image, exported from a container."""
    client = containers.DockerClient().client
    container = client.containers.create(image(request.param), "true")
    file = tmp_path_factory.mktemp("exported") / f"{request.param}.tar"
    try:
        with file.open("wb") as target:
            target.writelines(container.export())
    finally:
        container.remove()
        client.close()
    with tarfile.open(file) as files:
        yield files
    file.unlink()


def test_the_light_image_is_light(image, containers):
    client = containers.DockerClient().client
    assert client.images.get(image("workloads")).attrs["Size"] <= LIGHT_BYTES
    client.close()


def test_all_files_belong_to_root_and_only_root_may_change_them(exported):
    members = exported.getmembers()
    assert {(one.uid, one.gid) for one in members} == {(0, 0)}
    open_to_all = [one for one in members if not one.issym() and one.mode & 0o002]
    assert [(one.name, oct(one.mode & 0o7777)) for one in open_to_all] == [("tmp", "0o1777")]
    assert not [one.name for one in members if one.isfile() and one.mode & 0o6000]


def test_the_images_user_can_read_all_files(exported):
    unreadable = [one.name for one in exported if (one.isfile() and not one.mode & 0o004)]
    closed = [one.name for one in exported if one.isdir() and one.mode & 0o005 != 0o005]
    assert unreadable + closed == []


def test_no_traces_of_the_build_are_left(exported):
    names = [PurePosixPath(name) for name in exported.getnames()]
    assert not [str(name) for name in names if {".cache", "pip", "ensurepip"} & set(name.parts)]
    assert not [str(name) for name in names if name.parts[:1] == ("with-libraries",)]
    # This machine's folders, and the folder where wheels were unpacked.
    traces = [str(ROOT).encode(), sys.prefix.encode(), b"/packages/../"]
    for member in exported:
        if member.isfile():
            content = exported.extractfile(member).read()
            assert not [trace for trace in traces if trace in content], member.name


def test_licences_of_all_copied_software_are_included(exported):
    names = set(exported.getnames())
    for package in ("libc6", "libssl3", "libpython3.11-stdlib", "python3.11-minimal", "dash", "libsqlite3-0"):
        assert f"usr/share/doc/{package}/copyright" in names
    assert {"usr/share/common-licenses/Apache-2.0", "usr/share/common-licenses/LGPL-2.1"} <= names
    described = {PurePosixPath(name).parent for name in names if name.endswith(".dist-info/METADATA")}
    silent = [
        folder.name
        for folder in described
        if not any(PurePosixPath(name).is_relative_to(folder) and _is_licence(name) for name in names)
    ]
    # The wheels of kubernetes have no licence file; its licence, Apache 2.0, is among the common ones.
    assert [name for name in silent if not name.startswith("kubernetes-")] == []


def _is_licence(name):
    return PurePosixPath(name).name.lower().startswith(("licen", "copying", "notice"))


@pytest.mark.parametrize(("name", "extra"), [("carico", "scheduler"), ("workloads-sklearn", "workloads")])
def test_a_bill_of_materials_names_every_locked_package_in_its_version(image, name, extra):
    locked = re.findall(r"^([\w.-]+)==([^ ;]+)", (LOCKS / f"{extra}.txt").read_text(), re.MULTILINE)
    found = {each["name"]: each["version"] for each in json.loads(bill(Docker(), image(name)))["components"]}
    assert found.items() >= {(package.lower().replace("_", "-"), version) for package, version in locked}
    assert {"libc6", "libssl3"} <= found.keys(), "of the distribution, too"
