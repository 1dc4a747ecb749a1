"""Images of this project's packages: their contents and inputs."""

import tarfile

import pytest

from testbed.errors import BuildFailed
from testbed.images import python_image
from testbed.images.python_image import LOCKS, PUBLISHED_BASE, program_image


def test_an_image_without_requirements_has_only_the_packages_files(docker, place):
    tag = program_image(docker, "workloads", "workloads", "", PUBLISHED_BASE).ensure(docker, print)
    with tarfile.open(place / "images" / tag.replace("/", "_")) as context:
        names = context.getnames()
    assert {"Containerfile", "packages", "commands", "program/workloads/pi.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert f"--build-arg=BASE={PUBLISHED_BASE}" in place.joinpath("calls").read_text()


def test_tests_and_unused_parts_of_packages_are_left_out(docker, place, monkeypatch):
    fetched = []

    def fetch(command, **options):
        fetched.append(command)
        target = next(option.removeprefix("--target=") for option in command if option.startswith("--target="))
        for name in ("numpy/core.py", "numpy/tests/test_core.py", "kubernetes/aio/client.py", "bin/f2py"):
            file = python_image.Path(target, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return python_image.subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(python_image.subprocess, "run", fetch)
    tag = program_image(docker, "carico", "carico", "scheduler", PUBLISHED_BASE).ensure(docker, print)
    with tarfile.open(place / "images" / tag.replace("/", "_")) as context:
        files = [entry.name for entry in context if entry.isfile()]
        command = context.extractfile("commands/carico").read()
    assert [name for name in files if name.startswith("packages/")] == ["packages/numpy/core.py"]
    assert command == b'#!/bin/sh\nexec python3 -m carico "$@"\n'
    assert "--python-version=3.13" in fetched[0], "of the base, not of this process"
    assert {"--require-hashes", f"--requirement={LOCKS / 'scheduler.txt'}"} <= set(fetched[0])


def test_a_base_with_too_old_a_python_is_an_error(make_docker):
    docker = make_docker(python="3.10")
    with pytest.raises(BuildFailed, match=r"Python of .*slim is 3\.10, CARICO needs 3\.11 or newer"):
        program_image(docker, "carico", "carico", "scheduler", PUBLISHED_BASE).ensure(docker, print)


def test_a_hanging_package_index_is_an_error(docker, monkeypatch):
    def hang(command, timeout, **options):
        raise python_image.subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(python_image.subprocess, "run", hang)
    with pytest.raises(
        BuildFailed, match=r"pip did not fetch .*scheduler.txt within 1800 s: does the package index answer"
    ):
        program_image(docker, "carico", "carico", "scheduler", PUBLISHED_BASE).ensure(docker, print)


def test_packages_that_cannot_be_fetched_are_an_error(docker, monkeypatch):
    failed = python_image.subprocess.CompletedProcess([], 1, stderr="no matching distribution")
    monkeypatch.setattr(python_image.subprocess, "run", lambda command, **options: failed)
    with pytest.raises(BuildFailed, match=r"pip could not fetch .*scheduler.txt:\nno matching distribution"):
        program_image(docker, "carico", "carico", "scheduler", PUBLISHED_BASE).ensure(docker, print)
