"""Pruning removes the programs and images that nothing uses any more, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands import images as command
from testbed.images import catalogue as catalogue_module
from testbed.images.catalogue import PURPOSES, Catalogue
from testbed.images.debian import Mirror
from testbed.images.programs import PROGRAM_SETS, Programs


@pytest.fixture
def kept(go, tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def catalogue(kept, docker, monkeypatch):
    monkeypatch.setattr(command, "Docker", lambda: docker)
    monkeypatch.setattr(catalogue_module, "machine_mirror", lambda: Mirror("http://mirror.example/debian", "bookworm"))
    return Catalogue(docker, Programs(kept))


@pytest.fixture
def file_of(place):
    """A function that returns the file of an image in the fake daemon."""
    return lambda tag: place / "images" / tag.replace("/", "_")


def prune(kept, capsys, *options):
    assert main(["images", "prune", "--kept", str(kept), *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_programs_of_other_versions_and_killed_builds_are_removed(kept, catalogue, capsys):
    guest = catalogue.guest_disk()
    present = [
        guest.folder,
        guest.kernel.folder,
        catalogue.xen_host().folder,
        *(Programs(kept).place(one) for one in PROGRAM_SETS),
    ]
    old, killed, others = kept / "etcd-0123456789abcdef", kept / ".guest-x1y2z3", kept / "clusters"
    host, killed_host = kept / "xen-host-0123456789abcdef", kept / ".xen-host-x1y2z3"
    for folder in (*present, old, killed, host, killed_host, others):
        folder.mkdir(parents=True)
    old.joinpath("etcd").write_bytes(bytes(3 << 20))
    assert prune(kept, capsys, "--dry-run") == [str(killed), str(killed_host), str(old), str(host)]
    assert old.is_dir()
    assert prune(kept, capsys) == [
        f"removed {killed}, 0 MiB",
        f"removed {killed_host}, 0 MiB",
        f"removed {old}, 3 MiB",
        f"removed {host}, 0 MiB",
    ]
    assert sorted(kept.iterdir()) == sorted([*present, others])
    assert prune(kept, capsys) == ["nothing is out of date"]


@pytest.mark.parametrize("name", ["guest", "kernel", "xen-host", "etcd"])
def test_the_folder_of_a_build_stays_until_its_process_ends(kept, catalogue, capsys, name):
    build = (
        "import sys, time; from pathlib import Path; from testbed.images.kept import appear\n"
        "with appear(Path(sys.argv[1])) as made: print(made, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", build, str(kept / f"{name}-0123456789abcdef")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        made = Path(process.stdout.readline().strip())
        try:
            assert prune(kept, capsys) == ["nothing is out of date"]
            assert made.is_dir()
        finally:
            process.kill()
    assert prune(kept, capsys) == [f"removed {made.parents[1]}, 0 MiB"]
    assert list(kept.iterdir()) == []


def test_images_of_other_inputs_are_removed_unless_a_container_runs_them(kept, catalogue, file_of, capsys):
    present = {image.tag for name in PURPOSES for image in catalogue.with_bases(name)}
    for tag in (*present, "carico.local/node:old", "carico.local/node:old-bare", "carico.local/node:used"):
        file_of(tag).touch()
    told = prune(kept, capsys)
    assert told[:2] == ["removed carico.local/node:old", "removed carico.local/node:old-bare"]
    assert told[2].startswith("carico.local/node:used is not removed: ")
    assert told[-1] == "a container runs it"
    assert all(file_of(tag).exists() for tag in present)


def test_without_go_nothing_is_removed(kept, catalogue, file_of, capsys, monkeypatch):
    file_of("carico.local/node:old").touch()
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["images", "prune", "--kept", str(kept)]) != 0
    assert "Go is needed" in capsys.readouterr().err
    assert file_of("carico.local/node:old").exists()


def test_without_docker_programs_are_pruned_all_the_same(kept, catalogue, capsys, tmp_path, monkeypatch):
    old = kept / "kwok-0123456789abcdef"
    old.mkdir(parents=True)
    monkeypatch.setattr(command, "Docker", lambda: type(catalogue.docker)(str(tmp_path / "no-docker")))
    assert main(["images", "prune", "--kept", str(kept)]) == 4
    assert not old.exists()
    assert "install Docker" in capsys.readouterr().err


def test_without_builds_nothing_is_out_of_date(kept, catalogue, capsys):
    shutil.rmtree(kept, ignore_errors=True)
    assert prune(kept, capsys) == ["nothing is out of date"]
