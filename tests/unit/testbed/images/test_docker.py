"""Calls of Docker, and their errors."""

import tarfile

import pytest

from testbed.errors import DockerFailed, Unprepared
from testbed.images.docker import Docker


def test_files_of_a_build_belong_to_root_and_have_no_times(docker, place, tmp_path):
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


def test_an_error_includes_the_last_lines_of_a_build(make_docker):
    docker = make_docker(build="seq 100 >&2; exit 3")
    with pytest.raises(DockerFailed, match=r"ended with 3:\n81\n(?s:.*)\n100$"):
        docker.build("carico.local/tried:1", {"Containerfile": b""})


def test_a_call_that_takes_too_long_is_ended(make_docker):
    with pytest.raises(DockerFailed, match=r"docker version did not end within 0 s"):
        make_docker(version="exec sleep 60").call("version", limit_s=0.2)


def test_a_missing_command_and_a_missing_daemon_have_different_errors(make_docker, tmp_path):
    with pytest.raises(Unprepared, match=r"there is no command .*none: install Docker"):
        Docker(str(tmp_path / "none")).version()
    with pytest.raises(Unprepared, match=r"no Docker daemon answers: (?s:.*)refused; start one"):
        make_docker(version="echo connection refused >&2; exit 1").version()


def test_a_root_file_system_becomes_an_image_without_excluded_files(docker, place, tmp_path):
    root = tmp_path / "root"
    for name in ("etc/passwd", "usr/share/doc/a/copyright"):
        root.joinpath(name).parent.mkdir(parents=True)
        root.joinpath(name).write_text(name)
    docker.import_root("carico.local/debian:1", root, ["./usr/share/doc/*"])
    with tarfile.open(place / "images" / "carico.local_debian:1") as layer:
        names = layer.getnames()
    assert "./etc/passwd" in names
    assert not [name for name in names if name.startswith("./usr/share/doc/")]


def test_a_missing_root_file_system_is_an_error(docker, tmp_path):
    with pytest.raises(DockerFailed, match=r"tar of .*none ended with 2"):
        docker.import_root("carico.local/debian:1", tmp_path / "none")
