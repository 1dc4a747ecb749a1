"""``carico-testbed clean`` removes the clusters that no process uses, and lists them."""

import pytest

import testbed.cli
from testbed import requirements
from testbed.errors import ClusterError
from testbed.real.registry import Registered, Registry
from tests.kits.fake_maker import FakeMaker


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("testbed.commands.clean.makers", lambda: {"fake": FakeMaker()})
    return Registry()


def test_it_removes_kept_clusters_and_those_of_killed_runs(registry, capsys):
    for name, kept in (("carico-fake-a", True), ("carico-fake-b", False), ("carico-fake-c", True)):
        registry.folder(name).write(Registered(name, "fake", "run", kept=kept))
    used = registry.folder("carico-fake-c")
    used.hold()
    assert testbed.cli.main(["clean"]) == 0
    used.release()
    assert capsys.readouterr().out == (
        "cluster carico-fake-a is removed: it was kept\ncluster carico-fake-b is removed: its run was killed\n"
    )
    assert [noted.name for _, noted in registry.all()] == ["carico-fake-c"]


def test_a_cluster_that_cannot_be_removed_is_no_success(registry, capsys, monkeypatch):
    def fail(self, name, folder):
        raise ClusterError("the host does not answer")

    monkeypatch.setattr(FakeMaker, "delete", fail)
    registry.folder("carico-fake-a").write(Registered("carico-fake-a", "fake", "run"))
    assert testbed.cli.main(["clean"]) == 1
    assert capsys.readouterr().out == "cluster carico-fake-a cannot be removed: the host does not answer\n"


def test_clusters_of_providers_that_are_not_there_are_named(registry, capsys, monkeypatch):
    monkeypatch.setitem(requirements.MODULES, "xen", {"no_such_module": "asyncssh"})
    for kind in ("new", "xen"):
        registry.folder(f"carico-{kind}-a").write(Registered(f"carico-{kind}-a", kind, "run", kept=True))
    assert testbed.cli.main(["clean"]) == 1
    new, xen = capsys.readouterr().out.splitlines()
    assert new == "cluster carico-new-a is left: this version has no provider new"
    assert xen.startswith("cluster carico-xen-a is left: a cluster of Xen guests needs asyncssh")


def test_it_says_so_if_no_cluster_is_left(registry, capsys):
    assert testbed.cli.main(["clean"]) == 0
    assert capsys.readouterr().out == "no cluster is left\n"
