"""The commands `carico deploy`, `undeploy` and `status`: arguments, exit codes and what is printed."""

import json

import pytest
import yaml

from carico.cli import main


@pytest.fixture
def kubeconfig(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    cluster.put("/api/v1/namespaces/kube-system", metadata={"uid": "1-2-3"})
    return str(cluster.kubeconfig(tmp_path))


SECRETS = "/api/v1/namespaces/carico/secrets"


def test_the_cas_key_is_kept_in_the_users_folder_for_the_cluster(cluster, kubeconfig, tmp_path, capsys):
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, "--wait", "0"]) == 0
    folder = tmp_path / "config" / "carico" / "1-2-3"
    assert (folder / "ca.key").stat().st_mode & 0o777 == 0o600
    assert f"the CA and its key are kept in {folder}" in capsys.readouterr().out
    assert f"{SECRETS}/carico-ca" not in cluster.objects
    first = cluster.objects[f"{SECRETS}/carico-extender-tls"]["data"]
    assert main(["renew", "--kubeconfig", kubeconfig, "--wait", "0"]) == 0
    assert cluster.objects[f"{SECRETS}/carico-extender-tls"]["data"] == first
    assert main(["renew", "--kubeconfig", kubeconfig, "--wait", "0", "--all"]) == 0
    assert cluster.objects[f"{SECRETS}/carico-extender-tls"]["data"] != first
    (folder / "ca.key").unlink()
    (folder / "ca.crt").unlink()
    for command in (["deploy", "--by-tag"], ["renew"]):
        assert main([*command, "--kubeconfig", kubeconfig, "--wait", "0"]) == 1
        assert f"the CA's key is not in {folder} or on the cluster" in capsys.readouterr().err
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, "--wait", "0", "--new-ca"]) == 0


def test_the_cas_key_is_on_the_cluster_only_on_request(cluster, kubeconfig, tmp_path):
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, "--wait", "0", "--ca-key-on-cluster"]) == 0
    assert f"{SECRETS}/carico-ca" in cluster.objects
    assert not (tmp_path / "config").exists()


def test_a_cluster_that_cannot_be_named_needs_a_folder(cluster, kubeconfig, tmp_path, capsys):
    del cluster.objects["/api/v1/namespaces/kube-system"]
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, "--wait", "0"]) == 1
    assert "give --certificates FOLDER" in capsys.readouterr().err
    mine = ["--certificates", str(tmp_path / "mine")]
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, "--wait", "0", *mine]) == 0
    assert (tmp_path / "mine" / "ca.key").exists()


def test_deploy_status_and_undeploy(cluster, kubeconfig, monkeypatch, capsys):
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert main(["deploy", "--by-tag", "--image", "registry.example/carico:7", "--wait", "0"]) == 0
    agents = cluster.objects["/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"]
    assert agents["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/carico:7"
    assert capsys.readouterr().out.splitlines()[-1].startswith("next: give pods `schedulerName: carico`")
    with pytest.raises(SystemExit, match="1"):
        main(["status"])
    assert "0 of 2 pods ready" in capsys.readouterr().out
    assert main(["undeploy", "--wait", "0"]) == 0
    assert "namespace/carico deleted" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--json"], ["-o", "json"]], ids=" ".join)
def test_status_as_json(cluster, kubeconfig, capsys, option):
    with pytest.raises(SystemExit, match="1"):
        main(["status", *option, "--kubeconfig", kubeconfig])
    assert json.loads(capsys.readouterr().out)["components"] == []


def test_a_dry_run_prints_yaml_without_a_cluster(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert main(["deploy", "--dry-run", "--namespace", "batch"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    assert objects[0]["metadata"]["name"] == "batch"
    assert not [thing for thing in objects if thing["kind"] == "Secret"]


def test_a_small_cluster_gets_one_replica(capsys):
    assert main(["deploy", "--dry-run", "--replicas", "1"]) == 0
    sets = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "StatefulSet"]
    assert [each["spec"]["replicas"] for each in sets] == [1]
    assert main(["deploy", "--dry-run", "--replicas", "0"]) == 1
    assert "replicas must be at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["deploy", "undeploy", "status", "costs"])
def test_without_a_cluster_the_error_is_one_line(command, tmp_path, capsys):
    assert main([command, "--kubeconfig", str(tmp_path / "nothing")]) == 4
    error = capsys.readouterr().err
    assert error.startswith("carico: the Kubernetes API cannot be reached with the kubeconfig")
    assert "there is no such file; name the cluster's with --kubeconfig FILE" in error
    assert "kubernetes:" not in error  # a field of a process's configuration, which is no remedy here
    assert error.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--namespace", "No"], ["--image", ""]])
def test_what_makes_no_sense_is_refused_before_anything_is_done(cluster, kubeconfig, wrong, capsys):
    assert main(["deploy", "--by-tag", "--kubeconfig", kubeconfig, *wrong]) == 1
    assert "got " in capsys.readouterr().err
    assert cluster.changes == []
