"""Scripts in place of Docker, which keeps images as files and records its input, and of Go; and built programs."""

import os
import stat

import pytest

from testbed.images.docker import Docker
from testbed.images.image import Image
from testbed.images.programs import PROGRAM_SETS, Programs

SCRIPT = """#!/bin/sh
echo "$*" >> {place}/calls
case $1 in
version) {version} ;;
info) echo {place} ;;
images) case $2 in
    --format) ls {place}/images | sed s,_,/, ;;
    *) ls {place}/images | grep -x "$(echo "$3" | tr / _)" || true ;;
    esac ;;
rmi) for last; do :; done
    case $last in
    *:used) echo "a container runs it" >&2; exit 1 ;;
    *) mv {place}/images/$(echo "$last" | tr / _) {place}/removed/ ;;
    esac ;;
image) case $* in
    *prune*) ;;
    *Created*) echo "sha256:0123 2026-11-24T10:00:00.123456789Z" ;;
    *) echo 1048576 ;;
    esac ;;
create) echo c0ffee ;;
export) cat {place}/exported ;;
build)
    tag=
    for option; do case $option in --tag=*) tag=${{option#--tag=}} ;; esac; done
    cat > {place}/images/$(echo "$tag" | tr / _)
    {build} ;;
import) cat > {place}/images/$(echo "$3" | tr / _) ;;
commit) for last; do :; done; touch {place}/images/$(echo "$last" | tr / _) ;;
save) echo "images $*" ;;
run) echo {python} ;;
exec) case $* in
    *import*) cat > {place}/imported ;;
    *" tar "*) cat {place}/exported ;;
    *"images list"*) sed 's/^images save //; s/ /\\n/g' {place}/imported ;;
    esac ;;
esac
"""


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "docker"
    for name in ("images", "removed"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def make_docker(tmp_path, place):
    def make(version="echo 28.2.2", build="true", python="3.13"):
        command = tmp_path / "fake-docker"
        command.write_text(SCRIPT.format(place=place, version=version, build=build, python=python))
        command.chmod(stat.S_IRWXU)
        return Docker(str(command))

    return make


@pytest.fixture
def docker(make_docker):
    return make_docker()


GO = """#!/bin/sh
case $1 in
version) echo "go version go1.26" ;;
build) while [ "$1" != -o ]; do shift; done; echo "$3" > "$2"; chmod +x "$2" ;;
esac
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A fake Go, first on the PATH."""
    command = tmp_path / "bin" / "go"
    command.parent.mkdir()
    command.write_text(GO)
    command.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return command


KUBEADM = """#!/bin/sh
echo registry.k8s.io/kube-proxy:v1.34.4
echo registry.k8s.io/coredns/coredns:v1.12.1
echo registry.k8s.io/pause:3.10.1
"""


@pytest.fixture
def programs(tmp_path):
    """Programs that are built, of a kubeadm that lists three images."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.26\n")
    go.chmod(stat.S_IRWXU)
    programs = Programs(tmp_path / "kept", go=str(go))
    for one in PROGRAM_SETS:
        place = programs.place(one)
        place.mkdir(parents=True)
        for name in one.packages:
            place.joinpath(name).write_text(KUBEADM if name == "kubeadm" else name)
            place.joinpath(name).chmod(stat.S_IRWXU)
    return programs


@pytest.fixture
def debian(place):
    """The image of a system."""

    def make(tag, on_progress):
        place.joinpath("images", tag.replace("/", "_")).touch()

    return Image("debian", (), make)
