"""Calls of kwokctl, and the search for programs; tests/cluster/kwok makes real clusters."""

import json

import pytest
import yaml

from testbed.errors import ClusterError
from testbed.programs.find import PROGRAMS_VARIABLE, found_programs
from testbed.real.kwok.maker import KWOKCTL, OPTIONS, KwokMaker

SAYS = {"kube-apiserver": "Kubernetes v1.34.4", "kube-scheduler": "Kubernetes v1.34.4", "etcd": "etcd Version: 3.6.5"}
CONTROLLER = """#!/bin/sh
echo "$KWOK_WORKDIR $@" >> "$(dirname "$0")/called"
logs="$KWOK_WORKDIR/clusters/$4/logs"
if [ "$1" = create ]; then mkdir -p "$logs"; echo started > "$logs/etcd.log"; fi
if [ -e "$(dirname "$0")/broken" ]; then echo "port is taken"; exit 3; fi
"""


@pytest.fixture
def programs(tmp_path):
    """A folder of programs that only print their versions."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in (*OPTIONS, KWOKCTL):
        said = SAYS.get(name, f"{name} version v0.7.0 go1.26 (linux/amd64)")
        content = CONTROLLER if name == KWOKCTL else f"#!/bin/sh\necho '{said}'\n"
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def maker(programs):
    return KwokMaker({PROGRAMS_VARIABLE: str(programs), "PATH": "/usr/bin:/bin"})


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "clusters" / "carico-kwok-x" / "files"
    folder.mkdir(parents=True)
    return folder


def test_versions_come_from_the_programs(maker):
    assert not [problem for problem in maker.preflight() if "memory" not in problem.what]
    assert maker.kubernetes_version == "v1.34.4"
    fingerprint = dict(maker.fingerprint())
    assert len(fingerprint.pop("stages")) == 16
    assert fingerprint == {"kubernetes": "v1.34.4", "scheduler": "v1.34.4", "etcd": "3.6.5", "kwok": "v0.7.0"}


def test_a_cluster_runs_the_found_programs_and_listens_on_this_machine_only(maker, programs, folder):
    maker.create("carico-kwok-x", folder, 60.0)
    called = (programs / "called").read_text()
    assert called.startswith(f"{folder}/kwok create cluster --name carico-kwok-x --config {folder}/kwokctl.yaml")
    assert f"--kubeconfig {folder}/kubeconfig --wait 60s" in called
    configuration, *stages = yaml.safe_load_all((folder / "kwokctl.yaml").read_text())
    options = configuration["options"]
    assert {options[option] for option in OPTIONS.values()} == {str(programs / name) for name in OPTIONS}
    assert options["bindAddress"] == "127.0.0.1"
    assert [stage["kind"] for stage in stages] == ["Stage"] * 3


def test_logs_are_copied_and_the_cluster_is_removed(maker, programs, folder, tmp_path):
    maker.create("carico-kwok-x", folder, 60.0)
    into = tmp_path / "diagnostics"
    into.mkdir()
    maker.collect_logs("carico-kwok-x", folder, into)
    assert (into / "logs" / "etcd.log").read_text() == "started\n"
    maker.delete("carico-kwok-x", folder)
    assert "delete cluster --name carico-kwok-x" in (programs / "called").read_text().splitlines()[-1]
    with pytest.raises(ClusterError, match="the logs of another cannot be copied"):
        maker.collect_logs("another", folder, into)


def test_a_cluster_that_was_never_begun_needs_no_removal(maker, programs, folder):
    maker.delete("carico-kwok-x", folder)
    assert not (programs / "called").exists()


def test_an_error_includes_kwokctls_output(maker, programs, folder):
    (programs / "broken").touch()
    with pytest.raises(ClusterError, match="kwokctl create cluster ended with 3:\nport is taken"):
        maker.create("carico-kwok-x", folder, 60.0)


def test_missing_programs_are_one_problem_with_its_remedy(programs, monkeypatch):
    monkeypatch.setattr("testbed.programs.find._built", lambda kept: [])
    for name in ("kwok", "etcd"):
        (programs / name).unlink()
    maker = KwokMaker({PROGRAMS_VARIABLE: str(programs), "PATH": "/nowhere"})
    problem = next(one for one in maker.preflight() if "needs" in one.what)
    assert problem.what == "the provider kwok needs etcd, kwok"
    assert PROGRAMS_VARIABLE in problem.remedy
    with pytest.raises(ClusterError, match="there is no etcd, kwok"):
        _ = maker.kubernetes_version


def test_a_program_that_prints_no_version_is_named(programs):
    (programs / "etcd").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(ClusterError, match="etcd does not print its version but 'hello'"):
        KwokMaker({PROGRAMS_VARIABLE: str(programs), "PATH": "/bin"}).preflight()


def test_the_users_folder_precedes_built_programs_and_these_the_path(tmp_path, monkeypatch):
    places = {name: tmp_path / name for name in ("named", "built", "path")}
    for place, names in zip(places.values(), (["a"], ["a", "b"], ["a", "b", "c"]), strict=True):
        place.mkdir()
        for name in names:
            (place / name).touch(mode=0o755)
    monkeypatch.setattr("testbed.programs.find._built", lambda kept: [kept] if kept == places["built"] else [])
    monkeypatch.setattr("testbed.programs.find.user_cache", lambda: places["built"])
    variables = {PROGRAMS_VARIABLE: str(places["named"]), "PATH": str(places["path"])}
    assert found_programs("abcd", variables) == {
        "a": places["named"] / "a",
        "b": places["built"] / "b",
        "c": places["path"] / "c",
    }
    with pytest.raises(ClusterError, match=r"CARICO_PROGRAMS is '/no/such', which is not a folder"):
        found_programs("a", {PROGRAMS_VARIABLE: "/no/such"})


def test_stages_read_the_annotation_that_pods_carry():
    from testbed.real.kwok.maker import _stages
    from testbed.real.kwok.platform import DURATIONS

    assert json.dumps(list(yaml.safe_load_all(_stages()))).count(DURATIONS) == 2
