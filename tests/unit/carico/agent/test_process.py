"""The agent as a process joins it, in this one: real connections, a real clock, a node made of files."""

import errno
import os
import threading
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from carico import __version__
from carico.agent.process import name_of, run_agent
from carico.aggregation.metrics import AggregatorMetrics
from carico.aggregation.server import AggregationServer
from carico.checkpoint import read_checkpoint, write_checkpoint
from carico.clock import SystemClock
from carico.config import AgentConfig, AggregatorConfig, PodEventsConfig, StatusConfig
from carico.errors import InvalidConfig, InvalidInput, PodEventsError
from carico.extender.report_server import CapacityServer
from carico.testing import FakeProc

PATIENCE_S = 10.0


@pytest.fixture
def node(tmp_path):
    """Configuration of an agent on a node that runs two pods and stands still."""
    FakeProc(tmp_path / "proc")
    for digit in "ab":
        uid = f"{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}"
        tmp_path.joinpath("cgroup", "kubepods", f"pod{uid}").mkdir(parents=True)
    return {
        "node": "node-a",
        "proc": str(tmp_path / "proc"),
        "pod_events": PodEventsConfig(cgroup_root=str(tmp_path / "cgroup"), pod_logs=None),
        "insecure_loopback": True,
    }


@pytest.fixture
def reported():
    """What a scheduler was told, and how to wait for it."""
    return threading.Event(), []


@pytest.fixture
def servers(reported):
    came, reports = reported

    def take(report):
        reports.append(report)
        came.set()
        return {}

    scheduler = CapacityServer(take, None, "127.0.0.1", 0, insecure_loopback=True)
    aggregator = AggregationServer(
        AggregatorConfig(port=0, insecure_loopback=True), SystemClock(), AggregatorMetrics(CollectorRegistry())
    )
    yield {"schedulers": (f"127.0.0.1:{scheduler.port}",), "aggregator": f"127.0.0.1:{aggregator.port}"}
    scheduler.close()
    aggregator.close()


def test_it_reports_from_the_first_second_and_leaves_a_checkpoint(node, servers, reported, tmp_path):
    came, reports = reported
    stop, file = threading.Event(), tmp_path / "state.json"
    running = threading.Thread(target=run_agent, args=(AgentConfig(**node, **servers, checkpoint=str(file)), stop))
    running.start()
    assert came.wait(PATIENCE_S)
    stop.set()
    running.join(PATIENCE_S)
    assert not running.is_alive()
    assert (reports[0].node, reports[0].pods, reports[0].version) == ("node-a", 2, __version__)
    assert 0 <= reports[0].pod_capacity <= 110
    assert reports[0].at_unix_s == pytest.approx(time.time(), abs=PATIENCE_S)
    assert reports[-1].pod_capacity == 0, "it takes back what it offered"
    assert read_checkpoint(file, "thesis-rebased", owner="node-a")["pods"] == [2]


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({}, id="of another version"),
        pytest.param({"smoothed": [[10**400, 0]]}, id="with a number that is none"),
    ],
)
def test_a_state_that_does_not_fit_is_told_and_not_taken(node, tmp_path, caplog, state):
    file, stop = tmp_path / "state.json", threading.Event()
    write_checkpoint(file, "thesis-rebased", state, owner="node-a")
    stop.set()
    run_agent(AgentConfig(**node, checkpoint=str(file)), stop)
    assert "starting without the checkpoint" in caplog.text
    assert read_checkpoint(file, "thesis-rebased", owner="node-a")["pods"] == [2]


def test_what_another_node_has_learned_is_not_taken(node, tmp_path, caplog):
    file, stop = tmp_path / "state.json", threading.Event()
    stop.set()
    run_agent(AgentConfig(**node, checkpoint=str(file)), stop)
    run_agent(AgentConfig(**node | {"node": "node-b"}, checkpoint=str(file)), stop)
    assert "is of the owner 'node-a', not 'node-b'; delete it" in caplog.text
    assert read_checkpoint(file, "thesis-rebased", owner="node-b")["pods"] == [2]


def test_files_that_are_no_checkpoints_are_all_kept(node, tmp_path, caplog):
    file, stop = tmp_path / "state.json", threading.Event()
    stop.set()
    for number in range(3):
        file.write_text(f"port: {number}\n")
        run_agent(AgentConfig(**node, checkpoint=str(file)), stop)
    assert "state.json.unusable now: " in caplog.text
    assert "state.json.unusable.2 now: " in caplog.text
    for number, aside in enumerate(["unusable", "unusable.1", "unusable.2"]):
        assert tmp_path.joinpath(f"state.json.{aside}").read_text() == f"port: {number}\n"
    assert read_checkpoint(file, "thesis-rebased", owner="node-a")["pods"] == [2]


def test_on_a_full_disk_it_says_what_it_does_without_and_what_to_do(node, tmp_path, caplog, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(os, "fsync", full)
    run_agent(AgentConfig(**node, checkpoint=str(tmp_path / "state.json")), stop)
    (said,) = [one.getMessage() for one in caplog.records if "No space left" in one.getMessage()]
    assert said == (
        f"checkpoint: a restart would forget what this node has learned: cannot write {tmp_path}/state.json: No space "
        f"left on device; make room on its disk, or mend the disk"
    )


def test_a_checkpoint_needs_a_folder(node, tmp_path):
    with pytest.raises(InvalidConfig, match=r"checkpoint needs a folder that exists"):
        run_agent(AgentConfig(**node, checkpoint=str(tmp_path / "no" / "state.json")), threading.Event())


def test_status_and_metrics_are_served(node, servers, reported, caplog):
    caplog.set_level("INFO", "carico")
    stop = threading.Event()
    running = threading.Thread(target=run_agent, args=(AgentConfig(**node, **servers), stop))
    running.start()
    assert reported[0].wait(PATIENCE_S)
    port = next(record.status_port for record in caplog.records if record.message == "running")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        metrics = answer.read().decode()
    stop.set()
    running.join(PATIENCE_S)
    assert "carico_agent_pods 2.0" in metrics
    assert f'carico_agent_calls_total{{result="failed",to="scheduler {servers["schedulers"][0]}"}} 0.0' in metrics


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"insecure_loopback": False, "aggregator": "localhost:1"}, InvalidConfig, "nothing is encrypted"),
        ({"aggregator": "example.com:1"}, InvalidConfig, "is for 127.0.0.1, ::1 or localhost"),
        ({"node": "Node A"}, InvalidInput, "DNS-1123"),
        ({"status": StatusConfig(host="203.0.113.1")}, InvalidConfig, "status: nothing can be served on 203.0.113.1"),
        ({"pod_events": PodEventsConfig(cgroup_root="nowhere")}, PodEventsError, "no control group kubepods"),
    ],
)
def test_what_cannot_work_is_told_before_anything_runs(node, changes, error, message):
    with pytest.raises(error, match=message):
        run_agent(AgentConfig(**(node | changes)), threading.Event())


def test_the_name_is_the_configured_one_the_downward_apis_or_the_hosts():
    assert name_of(AgentConfig(node="a"), {"NODE_NAME": "b"}) == "a"
    assert name_of(AgentConfig(), {"NODE_NAME": "b"}) == "b"
    assert name_of(AgentConfig(), {})
