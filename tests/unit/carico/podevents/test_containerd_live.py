"""Container events of a real containerd, private to the tests: starts, ends, kills, restarts. Asked for by -m live."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from carico.errors import PodEventsError
from carico.podevents.containerd import ContainerdEvents
from tests.kits.private_containerd import PrivateContainerd, finished

pytestmark = pytest.mark.live


@pytest.fixture
def containerd():
    with tempfile.TemporaryDirectory(prefix="ctd-") as folder:
        try:
            private = PrivateContainerd(Path(folder))
        except PodEventsError as error:
            pytest.fail(str(error))
        with private:
            yield private


@pytest.fixture
def source(containerd):
    source = ContainerdEvents(containerd.socket)
    yield source
    source.close()


def test_a_sandbox_with_two_containers_is_one_pod_from_start_to_end(containerd, source, told):
    source.start(told)
    containerd.start_pod("pod", containers=2)
    told.wait_for(1)
    assert told.running == {"pod": "default/pod"}
    containerd.end("pod-0", "pod-1")
    told.wait_for(0)
    containerd.remove("pod-0", "pod-1", "pod")
    containerd.start_pod("next")
    told.wait_for(1)
    assert told.steps == [1, -1, 1]


def test_a_container_that_ends_by_itself_or_is_killed_is_told(containerd, source, told):
    source.start(told)
    containerd.start_pod("killed")
    finished(containerd.run("short", "short", command=("sleep", "0.2")))
    told.wait_for(2)
    told.wait_for(1)
    os.kill(containerd.pids()["killed-0"], signal.SIGKILL)
    told.wait_for(0)


def test_twenty_pods_at_once_are_all_told_and_all_that_end_too(containerd, source, told):
    source.start(told)
    pods = [f"pod-{number}" for number in range(20)]
    for starting in [containerd.run(pod, pod, sandbox=True) for pod in pods]:
        finished(starting)
    told.wait_for(20)
    containerd.remove(*pods)
    told.wait_for(0)
    assert told.steps == [1] * 20 + [-1] * 20


def test_platform_pods_and_containers_of_no_pod_do_not_count(containerd, source, told):
    containerd.start_pod("proxy", namespace="kube-system")
    source.start(told)
    assert told.so_far() == 0
    containerd.start_pod("flannel", namespace="kube-flannel")
    finished(containerd.run("no-pod"))
    containerd.start_pod("mine")
    told.wait_for(1)
    containerd.end("proxy-0", "proxy", "no-pod")
    containerd.end("mine-0")
    told.wait_for(0)
    assert told.steps == [1, -1]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_after_a_restart_of_containerd_the_count_is_right(kill, containerd, source, told, caplog):
    for pod in ("stays", "ends"):
        containerd.start_pod(pod)
    source.start(told)
    assert told.so_far() == 2
    pid = containerd.pids()["ends-0"]
    containerd.stop(kill)
    os.kill(pid, signal.SIGKILL)
    containerd.start()
    told.wait_for(1)
    containerd.start_pod("new")
    told.wait_for(2)
    assert "trying again" in caplog.text
    containerd.end("stays-0")
    told.wait_for(1)


def test_a_source_started_on_a_busy_node_misses_nothing(containerd, told):
    """Pods start all the time while sources come and go: all of them are told in the end."""
    starting = [containerd.run(f"pod-{number}", f"pod-{number}", sandbox=True) for number in range(15)]
    source = ContainerdEvents(containerd.socket)
    source.start(told)
    for process in starting:
        finished(process)
    told.wait_for(15)
    source.close()
