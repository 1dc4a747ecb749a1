"""The base image: from the machine's own package mirror, by debootstrap."""

import platform
import stat
import tarfile

import pytest

from testbed.errors import BuildFailed, Unprepared
from testbed.images import debian
from testbed.images.debian import Mirror, debian_image, machine_mirror

INDEX = """#!/bin/sh
echo "http://mirror.example/debian {suite} main"
echo "http://mirror.example/debian {suite}-updates main"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(debian, "administrators_path", lambda: f"{folder}:/usr/bin:/bin")

    def add(name, text):
        file = folder / name
        file.write_text(text)
        file.chmod(stat.S_IRWXU)

    add("unshare", '#!/bin/sh\nshift\nexec "$@"\n')  # needs no root
    return add


def test_the_mirror_is_that_of_the_machines_own_release(programs):
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    programs("apt-get", INDEX.format(suite=suite))
    assert machine_mirror() == Mirror("http://mirror.example/debian", suite)
    programs("apt-get", INDEX.format(suite="none"))
    with pytest.raises(Unprepared, match="apt has no source of this release's component main"):
        machine_mirror()


def test_another_system_should_use_published_images(programs):
    programs("apt-get", "#!/bin/sh\nexit 1\n")
    with pytest.raises(Unprepared, match=r"a relative of it, which this machine does not run .*published images"):
        machine_mirror()


def test_the_root_from_debootstrap_becomes_an_image(programs, docker, place):
    programs("debootstrap", '#!/bin/sh\necho "I: Retrieving bash"\nmkdir -p "$5/etc"\ntouch "$5/etc/passwd"\n')
    image = debian_image(docker, Mirror("http://mirror.example/debian", "bookworm"))
    told = []
    assert image.ensure(docker, told.append) == image.tag
    assert told[0] == "debian: I: Retrieving bash"
    assert place.joinpath("images", image.tag.replace("/", "_")).stat().st_size


def test_only_licences_stay_of_the_packages_documents(programs, docker, place):
    programs(
        "debootstrap",
        '#!/bin/sh\nmkdir -p "$5/usr/share/doc/dash"\ncd "$5/usr/share/doc"\ntouch dash/copyright dash/changelog.gz\n'
        "ln -s dash linked\nln -s nowhere NEWS\n",
    )
    tag = debian_image(docker, Mirror("http://mirror.example/debian", "bookworm")).ensure(docker, print)
    with tarfile.open(place / "images" / tag.replace("/", "_")) as image:
        documents = [name.removeprefix("./usr/share/doc/") for name in image.getnames() if "/doc/" in name]
    assert sorted(documents) == ["dash", "dash/copyright", "linked"]


def test_a_missing_debootstrap_is_reported(programs, docker, monkeypatch, tmp_path):
    monkeypatch.setattr(debian, "administrators_path", lambda: str(tmp_path))
    with pytest.raises(Unprepared, match="there is no command debootstrap: install it"):
        debian_image(docker, Mirror("http://mirror.example/debian", "bookworm")).ensure(docker, print)


def test_an_error_includes_debootstraps_last_lines(programs, docker):
    programs("debootstrap", "#!/bin/sh\necho 'E: no such mirror'\nexit 7\n")
    with pytest.raises(
        BuildFailed, match=r"debootstrap .*http://mirror.example/debian ended with 7:\nE: no such mirror"
    ):
        debian_image(docker, Mirror("http://mirror.example/debian", "bookworm")).ensure(docker, print)
