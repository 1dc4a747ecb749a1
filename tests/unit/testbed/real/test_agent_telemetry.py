"""Telemetry from agents during a repetition: a silent agent leaves a gap, and one that was replaced is found again."""

import threading

import pytest

from carico.errors import KubeUnreachable
from testbed.real.agent_telemetry import AgentTelemetry
from testbed.results.schema import NodeSeries

PATIENCE_S = 10.0


class HurriedClock:
    """A clock that advances a second each time it is read."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        self.at += 1.0
        return self.at

    def sleep_until(self, at):
        raise AssertionError("nobody sleeps")


class Agents:
    """The agent of one node; a new pod replaces it after two answers, and the old one does not answer any more."""

    def __init__(self):
        self.pod = "old"
        self.asked = []
        self.enough = threading.Event()

    def list(self, api_version, kind, namespace, labels):
        ended = [{"metadata": {"name": "old", "deletionTimestamp": "now"}, "spec": {"nodeName": "worker"}}]
        return [
            {"metadata": {"name": self.pod}, "spec": {"nodeName": "worker"}},
            *(ended if self.pod != "old" else []),
            {"metadata": {"name": "other"}, "spec": {"nodeName": "control-plane"}},
        ]

    def text_of_pod(self, namespace, pod, port, path, within_s):
        self.asked.append(pod)
        if len(self.asked) == 2:
            self.pod = "new"
        if len(self.asked) > 4:
            self.enough.set()
        if pod != self.pod:
            raise KubeUnreachable("no such pod")
        return f"carico_agent_pod_capacity {len(self.asked)}.0\n"


@pytest.fixture
def told():
    """The node's series after its agent was replaced."""
    kube, clock = Agents(), HurriedClock()
    telemetry = AgentTelemetry(kube, "carico", {"worker": "node-0"}, clock)
    with telemetry.collected(clock.now()):
        assert kube.enough.wait(PATIENCE_S)
    seconds = [float(second) for second in range(1, int(clock.at) + 2)]
    nothing = [None] * len(seconds)
    series = telemetry.complete(NodeSeries("node-0", seconds, [0] * len(seconds), *[nothing] * 7))
    return kube, [value for value in series.pod_capacity if value is not None]


def test_an_agent_that_was_replaced_is_read_by_its_new_name(told):
    kube, answers = told
    assert kube.asked[:4] == ["old", "old", "new", "new"]
    assert answers[:3] == [1.0, 3.0, 4.0]


def test_agents_of_other_nodes_are_not_read(told):
    kube, _ = told
    assert "other" not in kube.asked


@pytest.mark.parametrize(("guests", "recorded"), [(True, 0.25), (False, None)])
def test_stolen_time_is_recorded_of_guests_only(guests, recorded):
    kube, clock = Agents(), HurriedClock()
    kube.text_of_pod = lambda *asked, **within: kube.enough.set() or 'carico_agent_usage_ratio{of="cpu_stolen"} 0.25\n'
    telemetry = AgentTelemetry(kube, "carico", {"worker": "node-0"}, clock, guests)
    with telemetry.collected(clock.now()):
        assert kube.enough.wait(PATIENCE_S)
    series = telemetry.complete(NodeSeries("node-0", [1.0], [0], *[[None]] * 7))
    assert series.values("cpu_stolen") == [recorded]


class OneHangs:
    """Two agents; the first does not answer until the test is over."""

    def __init__(self):
        self.over, self.enough = threading.Event(), threading.Event()
        self.answered = 0

    def list(self, api_version, kind, namespace, labels):
        return [{"metadata": {"name": name}, "spec": {"nodeName": name}} for name in ("worker-0", "worker-1")]

    def text_of_pod(self, namespace, pod, port, path, within_s):
        if pod == "worker-0":
            assert self.over.wait(PATIENCE_S)
            raise KubeUnreachable("it hangs")
        self.answered += 1
        if self.answered > 2:
            self.enough.set()
        return "carico_agent_pod_capacity 1.0\n"


def test_an_agent_that_does_not_answer_does_not_delay_the_others():
    kube, clock = OneHangs(), HurriedClock()
    telemetry = AgentTelemetry(kube, "carico", {"worker-0": "node-0", "worker-1": "node-1"}, clock)
    with telemetry.collected(clock.now()):
        heard = kube.enough.wait(PATIENCE_S)
        kube.over.set()
    assert heard
