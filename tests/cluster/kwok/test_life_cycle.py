"""The life cycle of a real cluster: kept and reused, recreated, and removed after Ctrl-C and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cluster_options import ClusterOptions
from testbed.real.kwok.maker import KwokMaker
from testbed.real.lifecycle import MadeCluster, connected
from testbed.real.registry import Registry
from testbed.real.waiting import wait_until
from testbed.results.store import read_results
from testbed.user_cache import user_cache

pytestmark = pytest.mark.cluster

START_TIMEOUT_S = 60.0
ENDED_S = 30.0
SESSION_TIMEOUT_S = 180.0
TEST = """
import pytest

@pytest.mark.cluster
def test_it(carico_experiment):
    carico_experiment.run("pi-two-nodes", "kube-scheduler:cpu=10m")
"""
CUT_OFF = """
import pytest

@pytest.mark.cluster
def test_it(carico_experiment):
    (run,) = carico_experiment.run("slow.yaml", "kube-scheduler:cpu=10m")
    assert run.job_completion_time_s == {"slow": 30}
"""
SLOW = """
name: slow
description: one pod that takes longer than it may
cluster: {nodes: 1, cores: 2, memory: 4Gi}
limit_s: 10
jobs:
  - {name: slow, workload: pi, parameters: {digits: 20000}, pods: 1}
"""
STEADY = """
name: steady
description: two pods of five seconds
cluster: {nodes: 1, cores: 2, memory: 4Gi}
limit_s: 60
jobs:
  - {name: steady, workload: stress, parameters: {cpu: 1, duration_s: 5}, pods: 2}
"""
OTHER = """
import sys, time
from pathlib import Path
from testbed.real.kwok.maker import KwokMaker
from testbed.real.lifecycle import MadeCluster
from testbed.real.registry import Registry
from testbed.cluster_options import ClusterOptions

options = ClusterOptions("other", keep_cluster=sys.argv[2] == "keep")
life = MadeCluster(KwokMaker(), options, Registry(Path(sys.argv[1])))
try:
    print(life.open().name, flush=True)
    time.sleep(3600)
finally:
    life.close()
"""


@pytest.fixture
def place(tmp_path):
    """A folder for this test's own clusters, which are removed at the end."""
    yield tmp_path / "clusters"
    registry = Registry(tmp_path / "clusters")
    for folder, noted in registry.all():
        KwokMaker().delete(noted.name, folder.files)


def life(place, run="mine", **options):
    return MadeCluster(KwokMaker(), ClusterOptions(run, **options), Registry(place))


def processes(place):
    """Return the number of processes whose command line contains this folder."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += str(place).encode() in (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
    return found


def wait_until_ended(place):
    """Wait until killed processes are gone, which takes a moment."""
    wait_until("its processes have ended", lambda: f"{left} are left" if (left := processes(place)) else "", ENDED_S)


@pytest.fixture
def other(place):
    """A function that starts a process with a cluster of its own."""
    started = []

    def start(keep=""):
        process = subprocess.Popen([sys.executable, "-c", OTHER, str(place), keep], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_kept_cluster_is_reused_and_recreated_on_request(place):
    first = life(place, keep_cluster=True)
    name = first.open().name
    first.close()
    assert processes(place)
    again = life(place, "again", keep_cluster=True)
    assert again.open().name == name
    again.close()
    said = []
    recreated = life(place, "recreated", recreate_cluster=True, say=said.append)
    assert recreated.open().name != name
    recreated.close()
    assert said == [f"kept cluster {name} is not used again: a new one is asked for"]
    wait_until_ended(place)


@pytest.fixture
def cache(tmp_path):
    """A cache for this test's sessions, with all built programs; clusters that sessions leave are removed."""
    cache = tmp_path / "cache" / "carico"
    cache.mkdir(parents=True)
    for kept in user_cache().glob("*"):
        if kept.name != "clusters":
            (cache / kept.name).symlink_to(kept)
    yield cache
    registry = Registry(cache / "clusters")
    for folder, noted in registry.all():
        KwokMaker().delete(noted.name, folder.files)


@pytest.fixture
def project(tmp_path):
    """A folder with a test. Caches lie elsewhere, because pytest would look for tests in them."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text(TEST)
    (project / "pytest.ini").write_text("[pytest]\n")
    return project


@pytest.fixture
def session(cache, project):
    """A function that starts a session of pytest; its output is in the project's file `said`."""

    def start(repetitions):
        command = [sys.executable, "-m", "pytest", "-m", "cluster", "--carico-provider=kwok"]
        with (project / "said").open("w") as said:
            return subprocess.Popen(
                [*command, f"--carico-repetitions={repetitions}"],
                cwd=project,
                env=os.environ | {"XDG_CACHE_HOME": str(cache.parent)},
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    return start


def finished(project):
    """Return the number of finished repetitions."""
    files = (project / ".carico" / "runs").glob("*/repetitions.jsonl")
    return sum(file.read_text().count("\n") for file in files)


def test_the_next_session_removes_the_cluster_of_a_killed_one(cache, project, session):
    """The session is killed within a repetition: earlier ones are kept, and the next session makes a new cluster."""
    clusters = cache / "clusters"

    def said():
        return (project / "said").read_text()

    def lacking():
        assert killed.poll() is None, said()
        return "" if finished(project) else f"no repetition is done; the session said: {said()}"

    with session(repetitions=50) as killed:
        try:
            wait_until("a repetition is done", lacking, SESSION_TIMEOUT_S)
        finally:
            killed.kill()
    ((_, noted),) = Registry(clusters).all()
    assert processes(clusters)
    with session(repetitions=1) as after:
        try:
            after.wait(SESSION_TIMEOUT_S)
        finally:
            after.kill()
    assert after.returncode == 0, said()
    assert f"cluster {noted.name} is removed: its run was killed" in said()
    wait_until_ended(clusters)
    assert Registry(clusters).all() == []
    assert finished(project) >= 1, "the finished repetitions of the killed session are lost"


def test_ctrl_c_within_a_repetition_keeps_only_finished_repetitions(cache, project):
    """Ctrl-C reaches all processes of the group, as from a terminal, while pods, CARICO and the control plane run."""
    (project / "steady.yaml").write_text(STEADY)
    clusters, testbed = cache / "clusters", [sys.executable, "-m", "testbed"]
    options = {
        "cwd": project,
        "env": os.environ | {"XDG_CACHE_HOME": str(cache.parent)},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }

    def lacking():
        assert interrupted.poll() is None, interrupted.communicate()
        if not finished(project):
            return "no repetition is done"
        ((folder, noted),) = Registry(clusters).all()
        api = connected(KwokMaker().kubeconfig(noted.name, folder.files))
        try:
            pods = [pod for one in api.namespaces() for pod in api.pods_in(one["metadata"]["name"]).list()[0]]
        finally:
            api.close()
        return "" if any(pod["status"]["phase"] == "Running" for pod in pods) else f"{len(pods)} pods, none runs"

    command = [*testbed, "run", "steady.yaml", "--provider", "kwok", "--scheduler", "carico", "--quiet"]
    with subprocess.Popen([*command, "--repetitions", "50"], start_new_session=True, **options) as interrupted:
        try:
            wait_until("pods of another repetition run", lacking, SESSION_TIMEOUT_S)
            assert processes(clusters)
            os.killpg(interrupted.pid, signal.SIGINT)
            said, _ = interrupted.communicate(timeout=SESSION_TIMEOUT_S)
        finally:
            interrupted.kill()
    assert interrupted.returncode == 130, said
    wait_until_ended(clusters)
    assert Registry(clusters).all() == []
    repetitions = read_results(project / ".carico" / "latest" / "result.json").repetitions
    assert f"interrupted after {len(repetitions)} of 50 runs; they are in" in said
    assert repetitions
    assert all(one.job_completion_time_s["steady"] for one in repetitions)


def test_a_repetition_that_does_not_complete_leaves_diagnostics(project, session):
    (project / "test_it.py").write_text(CUT_OFF)
    (project / "slow.yaml").write_text(SLOW)
    with session(repetitions=1) as failing:
        try:
            failing.wait(SESSION_TIMEOUT_S)
        finally:
            failing.kill()
    said = (project / "said").read_text()
    assert failing.returncode == 1, said
    (folder,) = (project / ".carico" / "runs").glob("*/diagnostics/slow-*")
    assert f"diagnostics: {folder}" in said
    assert {file.stem for file in folder.glob("*.json")} >= {"events", "jobs", "nodes", "pods"}
    (pod,) = json.loads((folder / "pods.json").read_text())
    assert pod["status"]["phase"] == "Running"
    assert "kube-apiserver" in {file.stem for file in folder.rglob("*.log")}
    assert not (folder / "lacking.txt").exists()


def test_a_cluster_in_use_is_left_alone(place, other):
    user = other()
    name = user.stdout.readline().strip()
    said = []
    mine = life(place, say=said.append)
    mine.open()
    mine.close()
    assert said == []
    assert [noted.name for _, noted in Registry(place).all()] == [name]
    assert processes(place)


@pytest.mark.parametrize("keep", ["", "keep"])
def test_ctrl_c_during_the_set_up_leaves_nothing(place, other, keep):
    interrupted = other(keep)
    wait_until("its set-up has begun", lambda: "" if processes(place) > 1 else "only itself", START_TIMEOUT_S, 0.01)
    os.kill(interrupted.pid, signal.SIGINT)
    interrupted.wait(START_TIMEOUT_S)
    wait_until_ended(place)
    assert Registry(place).all() == []
