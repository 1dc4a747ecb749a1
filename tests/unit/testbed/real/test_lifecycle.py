"""The life of a cluster: used again only if it is the same, removed with its process, never while it is in use."""

import subprocess
import sys

import pytest

from carico.errors import KubeRefused
from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError
from testbed.real.lifecycle import MadeCluster, sweep
from testbed.real.registry import Registered, Registry
from tests.kits.fake_maker import FakeMaker


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "clusters")


@pytest.fixture
def life(registry, api):
    """A function that returns a cluster's lifecycle in a new run, its maker, and its messages."""
    runs = iter(range(100))

    def new(maker=None, **options):
        said = []
        maker = maker or FakeMaker()
        wanted = ClusterOptions(f"Run-{next(runs)}", say=said.append, **options)
        return MadeCluster(maker, wanted, registry, lambda kubeconfig: api), maker, said

    return new


def names(registry):
    return [noted.name for _, noted in registry.all()]


def test_a_cluster_is_made_once_and_removed(life, registry):
    one, maker, said = life()
    assert one.open() is one.open()
    assert one.open().kubeconfig.read_text() == "carico-fake-run-0"
    assert names(registry) == ["carico-fake-run-0"]
    one.close()
    one.close()
    assert maker.calls == ["create carico-fake-run-0", "delete carico-fake-run-0"]
    assert names(registry) == said == []


def test_a_cluster_that_nobody_opens_is_not_made(life):
    one, maker, _ = life()
    one.close()
    assert maker.calls == []


def test_the_name_distinguishes_toxs_environments(life):
    one, _, _ = life(session="py3.11-Full")
    assert one.open().name == "carico-fake-run-0-py3-11-full"
    one.close()
    accented, _, _ = life(session="prüfung")
    assert accented.open().name == "carico-fake-run-1-pr-fung"  # nodes have names of ASCII letters
    accented.close()


def test_names_of_nodes_are_short_enough_for_hosts(registry, api):
    options = ClusterOptions("20261121T062756Z-759f23", session="py311-kubernetes-1.34-nightly")
    life = MadeCluster(FakeMaker(), options, registry, lambda kubeconfig: api)
    assert len(f"{life.open().name}-control-plane") <= 63
    life.close()


def kept(life, **options):
    one, *_ = life(keep_cluster=True, **options)
    name = one.open().name
    one.close()
    return name


def test_a_kept_cluster_is_used_again_and_stays(life, registry):
    name = kept(life)
    again, maker, said = life(keep_cluster=True)
    assert again.open().name == name
    again.close()
    assert maker.calls == []
    assert said == [f"cluster {name} is kept; to remove it: carico-testbed clean"]
    assert names(registry) == [name]


def test_a_session_that_keeps_no_cluster_leaves_a_kept_one_alone(life, registry):
    name = kept(life)
    one, _, _ = life()
    assert one.open().name != name
    one.close()
    assert names(registry) == [name]


def test_a_kept_cluster_that_differs_is_made_anew_and_the_message_says_why(life, registry, server):
    name = kept(life)
    server.within("/api/v1/namespaces/carico-testbed/configmaps")[0]["data"]["kubernetes"] = "v1.33.0"
    again, maker, said = life(keep_cluster=True)
    server.objects.pop("/api/v1/namespaces/carico-testbed")  # a real one would go with its cluster
    assert again.open().name == "carico-fake-run-1"
    again.close()
    assert said[0] == f"kept cluster {name} is not used again: its kubernetes is v1.33.0, wanted is v1.34.4"
    assert maker.calls == [f"delete {name}", "create carico-fake-run-1"]
    assert names(registry) == ["carico-fake-run-1"]


@pytest.mark.parametrize(("ready", "again"), [("True", True), ("Unknown", False)])
def test_a_kept_cluster_that_has_lost_a_machine_is_made_anew(life, server, ready, again):
    name = kept(life)
    server.put("/api/v1/nodes/of-others", metadata={"name": "of-others"}, status={})
    conditions = [{"type": "Ready", "status": ready}]
    server.put(f"/api/v1/nodes/{name}-1", metadata={"name": f"{name}-1"}, status={"conditions": conditions})
    one, _, said = life(keep_cluster=True)
    if not again:
        server.objects.pop("/api/v1/namespaces/carico-testbed")  # a real one would go with its cluster
    assert (one.open().name == name) is again
    one.close()
    assert (said[0] == f"kept cluster {name} is not used again: its node {name}-1 is not ready") is not again


def test_a_kept_cluster_without_fingerprint_is_made_anew(life, server):
    name = kept(life)
    server.objects.clear()
    again, _, said = life(keep_cluster=True)
    assert again.open().name != name
    again.close()
    assert said[0] == f"kept cluster {name} is not used again: it has no fingerprint"


def test_a_kept_cluster_can_be_made_anew_on_demand(life, registry, server):
    name = kept(life)
    server.objects.clear()
    anew, _, said = life(recreate_cluster=True)
    anew.open()
    anew.close()
    assert said == [f"kept cluster {name} is not used again: a new one is asked for"]
    assert names(registry) == []


def test_a_kept_cluster_in_use_is_not_shared(life, server):
    name = kept(life)
    first, *_ = life(keep_cluster=True)
    assert first.open().name == name
    server.objects.clear()
    second, *_ = life(keep_cluster=True)
    assert second.open().name != name
    first.close()
    second.close()


def test_environments_of_tox_do_not_share_a_kept_cluster(life, server):
    name = kept(life, session="py311")
    server.objects.clear()
    other, *_ = life(keep_cluster=True, session="py312")
    assert other.open().name != name
    other.close()


@pytest.mark.parametrize("keep", [False, True])
def test_a_set_up_that_fails_leaves_nothing(life, registry, keep):
    one, maker, _ = life(FakeMaker(fails=True), keep_cluster=keep)
    with pytest.raises(ClusterError, match="carico-fake-run-0 cannot be made"):
        one.open()
    assert maker.calls == ["create carico-fake-run-0", "delete carico-fake-run-0"]
    assert names(registry) == []


def test_a_set_up_that_fails_leaves_its_logs(life, registry, tmp_path):
    one, maker, said = life(FakeMaker(fails=True), diagnostics=tmp_path / "diagnostics")
    with pytest.raises(ClusterError, match="carico-fake-run-0 cannot be made"):
        one.open()
    into = tmp_path / "diagnostics" / "carico-fake-run-0"
    assert said == [f"diagnostics: {into}"]
    assert (into / "scheduler.log").exists()
    assert maker.calls[-1] == "delete carico-fake-run-0"


def test_an_api_server_that_refuses_leaves_its_logs(life, tmp_path, api, monkeypatch):
    def refuse():
        raise KubeRefused("403", 403)

    monkeypatch.setattr(api, "nodes", refuse)
    one, maker, said = life(diagnostics=tmp_path)
    with pytest.raises(ClusterError, match="cannot be used: 403"):
        one.open()
    assert said == [f"diagnostics: {tmp_path / 'carico-fake-run-0'}"]
    assert maker.calls[-1] == "delete carico-fake-run-0"


def test_logs_that_cannot_be_read_hide_no_error_and_are_not_announced(life, tmp_path, monkeypatch):
    one, maker, said = life(FakeMaker(fails=True), diagnostics=tmp_path)
    monkeypatch.setattr(maker, "collect_logs", lambda *asked: (_ for _ in ()).throw(ClusterError("no Docker")))
    with pytest.raises(ClusterError, match="carico-fake-run-0 cannot be made"):
        one.open()
    assert said == []
    assert maker.calls[-1] == "delete carico-fake-run-0"


@pytest.mark.parametrize("collecting", [False, True])
def test_ctrl_c_during_the_set_up_leaves_nothing(life, registry, monkeypatch, collecting, tmp_path):
    one, maker, said = life(FakeMaker(fails=collecting), keep_cluster=True, diagnostics=tmp_path)

    def press(name, folder, timeout_s):
        raise KeyboardInterrupt

    monkeypatch.setattr(maker, "collect_logs" if collecting else "create", press)
    with pytest.raises(KeyboardInterrupt):
        one.open()
    assert maker.calls[-1] == "delete carico-fake-run-0"
    assert names(registry) == said == []


def test_a_failed_removal_hides_no_error_and_the_next_session_tries_again(life, registry, monkeypatch):
    maker = FakeMaker(fails=True)
    one, *_ = life(maker)
    monkeypatch.setattr(maker, "delete", lambda name, folder: (_ for _ in ()).throw(ClusterError("it hangs")))
    with pytest.raises(ClusterError, match="cannot be made") as caught:
        one.open()
    assert caught.value.__notes__ == ["and then: it hangs"]
    assert names(registry) == ["carico-fake-run-0"]
    following, maker, said = life()
    following.open()
    following.close()
    assert said == ["cluster carico-fake-run-0 is removed: its run was killed"]


def test_the_next_process_sweeps_the_cluster_of_a_killed_one(registry):
    """A real process is killed, because the kernel must release its hold."""
    program = (
        "import os, signal, sys; from pathlib import Path; from testbed.real.registry import *\n"
        "folder = Registry(Path(sys.argv[1])).folder('carico-fake-dead'); folder.hold\n"
        "folder.write(Registered('carico-fake-dead', 'fake', 'dead')); folder.hold()\n"
        "print(folder.is_used, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    place = str(registry.folder("x").path.parent)
    done = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", -9)
    maker = FakeMaker()
    with registry.locked():
        assert list(sweep(registry, {}, kept=False)) == []  # no maker of its kind
        said = list(sweep(registry, {"fake": maker}, kept=False))
    assert said == ["cluster carico-fake-dead is removed: its run was killed"]
    assert maker.calls == ["delete carico-fake-dead"]


def test_a_sweep_removes_kept_clusters_only_if_asked_and_none_in_use(registry):
    for name, kept_one in (("carico-fake-a", True), ("carico-fake-b", False)):
        registry.folder(name).write(Registered(name, "fake", "run", kept=kept_one))
    used = registry.folder("carico-fake-b")
    used.hold()
    with registry.locked():
        assert list(sweep(registry, {"fake": FakeMaker()}, kept=False)) == []
        assert list(sweep(registry, {"fake": FakeMaker()}, kept=True)) == [
            "cluster carico-fake-a is removed: it was kept"
        ]
    used.release()
    assert names(registry) == ["carico-fake-b"]


def test_records_of_a_newer_version_are_left_alone(registry):
    folder = registry.folder("carico-fake-new")
    folder.write(Registered("carico-fake-new", "fake", "run"))
    (folder.path / "cluster.json").write_text('{"schema_version": 99}')
    assert registry.all() == []


def test_a_folder_that_cannot_be_written_is_reported_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match="Not a directory; set XDG_CACHE_HOME to use another folder"):
        Registry(tmp_path / "file").folder("x").write(Registered("x", "fake", "run"))
    with pytest.raises(ClusterError, match="XDG_CACHE_HOME"), Registry(tmp_path / "file").locked():
        pass
