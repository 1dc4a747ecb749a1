"""CARICO's processes beside a cluster: started as shipped, reported when they end early, and gone after `close`."""

from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from testbed.errors import ClusterError
from testbed.programs.find import PROGRAMS_VARIABLE
from testbed.real.kwok.carico import LocalCarico, kube_scheduler_command
from testbed.real.kwok.synthetic_demand import NodeSize


@pytest.fixture
def kubeconfig(server, tmp_path):
    return server.kubeconfig(tmp_path)


@pytest.fixture
def kube_scheduler(tmp_path, monkeypatch):
    """A function that puts a script named kube-scheduler into the folder that is searched first."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv(PROGRAMS_VARIABLE, str(folder))

    def put(script):
        (folder / "kube-scheduler").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "kube-scheduler").chmod(0o755)

    return put


@pytest.fixture
def carico(kubeconfig, kube_scheduler, tmp_path):
    kube_scheduler("exec sleep 600")
    slots = {"node-0": 2.0, "node-1": 3.0}
    carico = LocalCarico(kubeconfig, tmp_path / "carico", slots, stale_after_s=60)
    yield carico
    carico.close()


def pids(carico):
    return [carico.process(name).pid for name in ("extender", "reports", "kube-scheduler")]


@pytest.mark.machine
def test_the_extender_hears_from_every_node_and_ends_on_close(carico):
    carico.open()
    assert carico.known() == {"node-0": 2.0, "node-1": 3.0}
    there = pids(carico)
    assert all(Path(f"/proc/{pid}").exists() for pid in there)
    carico.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in there)
    assert carico.known() == {}


@pytest.mark.machine
def test_nodes_of_the_variant_demand_report_their_demand(kubeconfig, kube_scheduler, tmp_path):
    kube_scheduler("exec sleep 600")
    sizes = {"node-0": NodeSize(4.0, 16.0)}
    with closing(LocalCarico(kubeconfig, tmp_path, {"node-0": 4.0}, sizes=sizes, variant="demand")) as carico:
        carico.open()
        told = carico.nodes()["node-0"]
        assert (told["cores"], told["gib"], told["pod_capacity"]) == (4.0, 16.0, None)
        assert carico.metric("carico_extender_nodes") == 1
        assert carico.metric("carico_extender_decisions_total", result="scheduled") == 0


def test_an_error_about_an_ended_process_includes_its_log(carico, kube_scheduler):
    kube_scheduler("echo no such flag; exit 1")
    with pytest.raises(ClusterError, match=r"has ended with 1; the end of kube-scheduler.log:\nno such flag"):
        carico.open()


def test_kube_scheduler_gets_the_shipped_configuration(kubeconfig, kube_scheduler, tmp_path):
    kube_scheduler("exit 0")
    file = tmp_path / "kube-scheduler.yaml"
    command = kube_scheduler_command(kubeconfig, file, {"urlPrefix": "https://localhost:1"})
    assert command == [str(tmp_path / "programs" / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
    shipped = yaml.safe_load((files("carico") / "manifests" / "kube-scheduler.yaml").read_text())
    written = yaml.safe_load(file.read_text())
    assert written.pop("clientConnection") == {"kubeconfig": str(kubeconfig), "qps": 50, "burst": 100}
    assert written.pop("leaderElection") == {"leaderElect": False}
    shipped["extenders"][0]["urlPrefix"] = "https://localhost:1"
    del shipped["leaderElection"]
    assert written == shipped


def test_kube_scheduler_alone_has_no_extender(kubeconfig, kube_scheduler, tmp_path):
    kube_scheduler("exit 0")
    kube_scheduler_command(kubeconfig, tmp_path / "alone.yaml", qps=1000)
    written = yaml.safe_load((tmp_path / "alone.yaml").read_text())
    assert "extenders" not in written
    assert written["clientConnection"]["qps"] == 1000


def test_a_missing_kube_scheduler_is_reported_with_a_remedy(kubeconfig, tmp_path, monkeypatch):
    monkeypatch.setattr("testbed.real.kwok.carico.found_programs", lambda names: {})
    with pytest.raises(ClusterError, match="build it with carico-testbed images programs"):
        LocalCarico(kubeconfig, tmp_path / "carico", {"node-0": 1.0})
