"""What is asked of Docker, and what is said when it cannot."""

import tarfile

import pytest

from testbed.errors import DockerFailed, Unprepared
from testbed.images.docker import Docker


def test_a_build_is_given_its_files_as_roots_and_of_no_time(docker, place, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    folder = tmp_path / "folder"
    (folder / "__pycache__").mkdir(parents=True)
    folder.joinpath("__pycache__", "a.pyc").write_text("")
    folder.joinpath("a.py").write_text("pass")
    files = {"Containerfile": b"FROM scratch\n", "bin/program": program, "package": folder}
    docker.build("carico.local/tried:1", files, {"BASE": "debian"}, {"said": "so"})
    with tarfile.open(place / "images" / "carico.local_tried:1") as context:
        entries = {entry.name: entry for entry in context}
    assert sorted(entries) == ["Containerfile", "bin/program", "package", "package/a.py"]
    assert entries["bin/program"].mode & 0o777 == 0o755
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}
    called = place.joinpath("calls").read_text().splitlines()
    assert "--network=none" in called[0]
    assert "--build-arg=BASE=debian --label=said=so" in called[0]


def test_a_failed_step_is_told_by_its_last_lines(make_docker):
    docker = make_docker(build="seq 100 >&2; exit 3")
    with pytest.raises(DockerFailed, match=r"ended with 3:\n81\n(?s:.*)\n100$"):
        docker.build("carico.local/tried:1", {"Containerfile": b""})


def test_what_takes_too_long_is_ended(make_docker):
    with pytest.raises(DockerFailed, match=r"docker version did not end within 0 s"):
        make_docker(version="exec sleep 60").call("version", limit_s=0.2)


def test_no_docker_and_no_daemon_are_told_apart(make_docker, tmp_path):
    with pytest.raises(Unprepared, match=r"there is no command .*none: install Docker"):
        Docker(str(tmp_path / "none")).version()
    with pytest.raises(Unprepared, match=r"no Docker daemon answers: (?s:.*)refused; start one"):
        make_docker(version="echo connection refused >&2; exit 1").version()


def test_a_root_file_system_becomes_an_image_of_what_is_not_left_out(docker, place, tmp_path):
    root = tmp_path / "root"
    for name in ("etc/passwd", "usr/share/doc/a/copyright"):
        root.joinpath(name).parent.mkdir(parents=True)
        root.joinpath(name).write_text(name)
    docker.import_root("carico.local/debian:1", root, ["./usr/share/doc/*"])
    with tarfile.open(place / "images" / "carico.local_debian:1") as layer:
        names = layer.getnames()
    assert "./etc/passwd" in names
    assert not [name for name in names if name.startswith("./usr/share/doc/")]


def test_a_root_file_system_that_is_none_is_no_image(docker, tmp_path):
    with pytest.raises(DockerFailed, match=r"tar of .*none ended with 2"):
        docker.import_root("carico.local/debian:1", tmp_path / "none")
