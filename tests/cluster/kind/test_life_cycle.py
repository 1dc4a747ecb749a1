"""Life cycle of clusters on kind: the next session removes a killed session's nodes; and diagnostics of failures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from testbed.real.diagnostics import collect
from testbed.real.kind.maker import KindMaker
from testbed.real.lifecycle import sweep
from testbed.real.registry import Registry
from testbed.real.waiting import wait_until

pytestmark = pytest.mark.cluster

STARTED_S = 120.0
KILLED = """
import sys, time
from pathlib import Path
from testbed.real.kind.maker import KindMaker
from testbed.real.lifecycle import MadeCluster
from testbed.real.registry import Registry
from testbed.cluster_options import ClusterOptions

life = MadeCluster(KindMaker(workers=1), ClusterOptions(sys.argv[2]), Registry(Path(sys.argv[1])))
print(life.open().name, flush=True)
time.sleep(3600)
"""


def test_the_next_session_removes_the_cluster_of_a_killed_one(tmp_path, carico_provider):
    maker, registry = KindMaker(), Registry(tmp_path)
    # Named after this test's own folder, so that simultaneous tests use other names.
    command = [sys.executable, "-c", KILLED, str(tmp_path), f"killed-{tmp_path.parent.name.rpartition('-')[2]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        name = session.stdout.readline().strip()
        session.kill()
    try:
        assert len(maker.nodes(name)) == 2
        with registry.locked():
            said = list(sweep(registry, {maker.kind: maker}, kept=False))
        assert said == [f"cluster {name} is removed: its run was killed"]
        assert maker.nodes(name) == []
        assert registry.all() == []
    finally:
        maker.delete(name, tmp_path)


def test_diagnostics_show_why_a_pod_does_not_start_and_include_all_nodes_logs(kind_cluster, tmp_path):
    pod = kind_cluster.pi_pod("no-image", kind_cluster.workers[0], 10)
    pod["spec"]["containers"][0]["image"] = "carico.local/none:1"
    api, namespace = kind_cluster.api, kind_cluster.namespace
    api.create_pod(namespace, pod)

    def lacking():
        found = [pod["status"] for pod in api.pods_in(namespace).list()[0]], api.events(namespace)
        return "" if all("ErrImageNeverPull" in str(each) for each in found) else f"the pod and its events say {found}"

    wait_until("a pod cannot be started", lacking, STARTED_S)
    collect(
        api,
        namespace,
        tmp_path,
        lambda into: kind_cluster.maker.collect_logs(kind_cluster.cluster.name, into, into),
    )

    def collected(name):
        return json.loads((tmp_path / f"{name}.json").read_text())

    assert not (tmp_path / "lacking.txt").exists()
    (waiting,) = collected("pods")
    assert waiting["name"] == "no-image"
    assert "ErrImageNeverPull" in str(waiting["status"])
    assert any("ErrImageNeverPull" in str(event) for event in collected("events"))
    assert {each["name"] for each in collected("nodes")} == set(kind_cluster.nodes)
    for node in kind_cluster.nodes:
        logs = tmp_path / "logs" / node
        assert "kubelet" in (logs / "journal.log").read_text()
        assert list((logs / "pods").rglob("*.log"))
