"""``carico-testbed images``, with a script in place of Go."""

import shutil
from collections import namedtuple

import pytest

from testbed.cli import main
from testbed.programs.find import PROGRAMS_VARIABLE, found_programs


@pytest.fixture
def kept(go, tmp_path):
    return tmp_path / "kept"


def test_programs_are_built_once(kept, capsys):
    assert main(["images", "programs", "pause", "kwok", "--kept", str(kept)]) == 0
    first = capsys.readouterr().out
    assert main(["images", "programs", "pause", "kwok", "--kept", str(kept), "--quiet"]) == 0
    again = capsys.readouterr().out
    assert [line.split()[0] for line in first.splitlines()] == ["pause", "kwok"]
    assert first.count("built in 0 s") == 2
    assert again.count("was there") == 2
    assert sorted(file.name for file in kept.glob("kwok-*/*")) == ["kwok", "kwokctl"]


def test_programs_in_another_folder_are_found_through_the_variable(kept):
    assert main(["images", "programs", "pause", "kwok", "--kept", str(kept), "--quiet"]) == 0
    found = found_programs(["pause", "kwokctl"], {PROGRAMS_VARIABLE: str(kept), "PATH": "/nowhere"})
    assert sorted(found) == ["kwokctl", "pause"]
    assert found["pause"].is_relative_to(kept)


def test_an_unknown_set_is_refused_with_the_known_ones(kept, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["images", "programs", "k3s", "--kept", str(kept)])
    assert ended.value.code == 2
    assert "there is no set k3s; known: kubernetes, etcd, coredns, pause, kind, kwok" in capsys.readouterr().err


def test_a_full_disk_is_reported_before_anything_is_built(kept, capsys, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(2**30))
    assert main(["images", "programs", "--kept", str(kept)]) == 4
    assert "1.0 GiB are free" in capsys.readouterr().err
    assert not kept.exists()
