"""What a run was made with, where some of it cannot be known."""

import subprocess

import pytest

from testbed.results.provenance import commit_of, machine, meminfo_bytes, packages
from testbed.simulation.provider import SimulatedProvider


def git(folder, *arguments):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def test_the_commit_and_whether_files_have_changed_since(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None
    git(tmp_path, "init")
    assert commit_of(tmp_path) is None
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    assert len(commit_of(tmp_path).id) == 40
    assert not commit_of(tmp_path).dirty
    (tmp_path / "file").write_text("two")
    assert commit_of(tmp_path).dirty


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) is None


def test_memory_is_read_in_bytes_where_it_can_be(tmp_path):
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       2048 kB\nMemFree: \n")
    assert [meminfo_bytes(name, file) for name in ("MemTotal", "MemFree", "Other")] == [2048 * 1024, None, None]
    assert meminfo_bytes("MemTotal", tmp_path / "gone") is None


def test_the_machine_and_the_packages_are_those_of_this_process():
    import numpy

    assert machine().cpus >= 1
    assert packages()["numpy"] == numpy.__version__


@pytest.mark.parametrize(("available", "problems"), [(None, 0), (2**40, 0), (100 * 2**20, 1)])
def test_a_simulated_cluster_needs_memory(monkeypatch, available, problems):
    monkeypatch.setattr("testbed.experiment.free_resources.meminfo_bytes", lambda name: available)
    found = SimulatedProvider().preflight()
    assert len(found) == problems
    assert all("100 MiB are available" in problem.what and problem.remedy for problem in found)
