"""`carico explain` on any machine: the decisions on a pod from the journals of all schedulers, over HTTP."""

import json

import pytest

from carico.cli import main
from carico.commands import journal as command
from carico.deployment.decisions import read_decisions
from carico.deployment.manifests import COMPONENT, LABELS
from carico.errors import NotReady

REPLICAS = ["carico-scheduler-0", "carico-scheduler-1"]


def asked(replica):
    return f"/api/v1/namespaces/carico/pods/https:{replica}:9443/proxy/decisions/jobs/pi-x2k4p"


def decision(at, choice):
    candidate = {"node": "node-3", "pod_capacity": 1.5, "age_s": 0.4, "score": 1.5}
    return {
        "schema_version": 1,
        "at": at,
        "pod": {"name": "pi-x2k4p", "uid": "u1", "namespace": "jobs"},
        "choice": choice,
        "stale_after_s": 5.0,
        "candidates": [candidate],
    }


@pytest.fixture
def deployed(cluster):
    for replica in REPLICAS:
        labels = LABELS | {COMPONENT: "scheduler"}
        cluster.put(f"/api/v1/namespaces/carico/pods/{replica}", metadata={"name": replica, "labels": labels})
    cluster.objects[asked(REPLICAS[0])] = {"decisions": [decision(1.9e9 + 5, "node-3")]}
    cluster.objects[asked(REPLICAS[1])] = {"decisions": [decision(1.9e9, None)]}
    return cluster


@pytest.fixture
def explain(cluster, tmp_path, monkeypatch, capsys):
    """Run the command on a machine without a journal, and return its exit code and what it prints."""
    monkeypatch.setattr(command, "JOURNAL", str(tmp_path / "none.jsonl"))
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))

    def run(*arguments):
        return main(["explain", "jobs/pi-x2k4p", *arguments]), *capsys.readouterr()

    return run


def test_the_decisions_of_all_replicas_are_shown_in_order(deployed, explain):
    code, out, err = explain()
    assert (code, err) == (0, "")
    first, second = out.split("\n\n")
    assert "→ no node" in first
    assert first.endswith("\n  by carico-scheduler-1")
    assert "→ node-3" in second
    assert second.endswith("\n  by carico-scheduler-0\n")


def test_a_replica_that_does_not_answer_is_named_and_the_others_are_shown(deployed, explain):
    deployed.objects[asked(REPLICAS[0])] = {"decisions": [{"at": "never"}]}
    code, out, err = explain()
    assert (code, out.count("uid u1")) == (0, 1)
    assert err.startswith("carico: carico-scheduler-0 does not say what it decided: ")


def test_so_they_are_as_json(deployed, explain):
    code, out, _ = explain("-o", "json")
    decisions = json.loads(out)["decisions"]
    assert code == 0
    assert [(one["by"], one["choice"]) for one in decisions] == [(REPLICAS[1], None), (REPLICAS[0], "node-3")]


def test_a_pod_that_nobody_decided_on_is_said(deployed, explain):
    for replica in REPLICAS:
        deployed.objects[asked(replica)] = {"decisions": []}
    code, _, err = explain()
    assert code == 1
    assert "no scheduler of CARICO has decided about a pod 'jobs/pi-x2k4p' lately" in err


def test_where_nobody_answers_is_an_error(kube, deployed):
    for replica in REPLICAS:
        del deployed.objects[asked(replica)]
    told = []
    with pytest.raises(NotReady, match="asked: carico-scheduler-0, carico-scheduler-1"):
        read_decisions(kube, "carico", "jobs/pi-x2k4p", told.append)
    assert len(told) == 2


def test_no_deployment_is_an_error(kube, cluster):
    with pytest.raises(NotReady, match="no scheduler of CARICO runs in the namespace carico"):
        read_decisions(kube, "carico", "pi", print)


def test_beside_an_extender_its_own_journal_is_read(deployed, explain, tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    code, _, err = explain()
    assert (code, "holds nothing" in err) == (1, True)
    assert deployed.asked == []
    assert explain("--kubeconfig", str(tmp_path / "kubeconfig"))[0] == 0
