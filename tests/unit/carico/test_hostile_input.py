"""Hostile content of files, messages and answers: it is either valid, or raises one of CARICO's errors.

Similar tests of other gRPC messages, requests to the extender, configuration files, recordings, journals and
checkpoints are in the test modules of these.
"""

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.errors import InvalidInput, InvalidState, KubeError, PodEventsError, TelemetryError
from carico.kube.client import KubeClient, Selection
from carico.model.node_model import NodeModel
from carico.podevents import containerd_pb2 as pb
from carico.podevents.containerd import ContainerdEvents
from carico.podevents.kube_watch import KubeWatch
from carico.podevents.pod_changes import RunningPods
from carico.podevents.pod_logs import PodLogs
from carico.rpc import capacity_pb2
from carico.rpc.messages import read_report, read_report_reply, write_report, write_report_reply
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.metrics_server import allocatable, checked
from carico.telemetry.procfs import ProcfsSource
from carico.testing import FakeProc, ManualClock

from .telemetry.cgroup_trees import TREES

PROC_FILES = ("stat", "meminfo", "pressure/cpu", "pressure/memory", "pressure/io")
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, 1, -1, 1e308, 2**63]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PER_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def damaged(data, content):
    """Return the content with bytes removed, inserted or replaced."""
    first = data.draw(st.integers(0, len(content)))
    last = data.draw(st.integers(first, min(first + 40, len(content))))
    return content[:first] + data.draw(st.binary(max_size=40)) + content[last:]


def paths(document):
    """Yield the paths of all values in a JSON document."""
    entries = {}
    if isinstance(document, dict):
        entries = document
    elif isinstance(document, list):
        entries = dict(enumerate(document))
    for key, value in entries.items():
        yield (key,)
        yield from ((key, *rest) for rest in paths(value))


def replaced(document, path, value):
    """Return a copy of the document with another value at this path."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = replaced(document[path[0]], path[1:], value)
    return changed


def with_random_value(data, document):
    return replaced(document, data.draw(st.sampled_from(sorted(paths(document), key=str))), data.draw(JSON))


@PER_EXAMPLE
@given(data=st.data())
def test_procfs(tmp_path, data):
    machine = FakeProc(tmp_path)
    name = data.draw(st.sampled_from(PROC_FILES))
    content = damaged(data, (tmp_path / name).read_bytes())
    with ProcfsSource(machine.root, ManualClock()) as source:
        with (tmp_path / name).open("r+b") as file:  # in place, as the kernel changes its files
            file.truncate()
            file.write(content)
        try:
            counters = source.read()
        except TelemetryError:
            return
    values = [value for field, value in vars(counters).items() if field != "at_s"]
    assert all(isinstance(value, int) and value >= 0 for value in values)


@pytest.mark.parametrize("hierarchy", TREES)
@PER_EXAMPLE
@given(data=st.data())
def test_control_groups(tmp_path, hierarchy, data):
    FakeProc(tmp_path / "proc")
    group = tmp_path / "cgroup"
    name = data.draw(st.sampled_from(sorted(TREES[hierarchy])))
    for file, text in TREES[hierarchy].items():
        (group / file).parent.mkdir(parents=True, exist_ok=True)
        (group / file).write_bytes(damaged(data, text.encode()) if file == name else text.encode())
    try:
        with CgroupSource(group, proc=tmp_path / "proc", clock=ManualClock()) as source:
            counters = source.read()
            assert source.hierarchy == hierarchy
    except TelemetryError:
        return
    assert all(np.isfinite(float(value)) and value >= 0 for value in vars(counters).values())


@given(data=st.data())
def test_the_metrics_server(data):
    metrics = {
        "metadata": {"name": "node-1"},
        "timestamp": "2026-11-20T10:15:30Z",
        "window": "15.032s",
        "usage": {"cpu": "123456789n", "memory": "1234Ki"},
    }
    answer = with_random_value(data, metrics)
    try:
        assert checked(answer, "node-1") is answer
    except TelemetryError:
        assert answer != metrics


@given(data=st.data())
def test_allocatable_resources_of_a_node(data):
    node = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    try:
        offered = allocatable(with_random_value(data, node))
    except TelemetryError:
        return
    assert all(np.isfinite(amount) and amount >= 0 for amount in offered)


@given(data=st.data())
def test_a_list_of_pods(data):
    listed = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"uid": "u", "resourceVersion": "5"}}]}

    class Client(KubeClient):
        def __init__(self):
            pass

        def get(self, call, **options):
            return with_random_value(data, listed)

    try:
        pods, version = Selection(Client(), None, "").list()
    except KubeError:
        return
    assert isinstance(version, str)
    assert all(isinstance(pod["metadata"]["uid"], str) for pod in pods)


POD = {
    "metadata": {
        "uid": "u",
        "resourceVersion": "5",
        "namespace": "default",
        "name": "pi-1",
        "annotations": {"a": "b"},
        "ownerReferences": [{"kind": "Job"}],
    },
    "spec": {"nodeName": "node-1"},
    "status": {"phase": "Running"},
}


@given(data=st.data(), kind=st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]))
def test_a_watch_on_pods(data, kind):
    line = json.dumps(with_random_value(data, {"type": kind, "object": POD})).encode() + b"\n"
    if data.draw(st.booleans()):
        line = damaged(data, line)

    class Answer:
        def stream(self, size, decode_content):
            yield line

        def close(self):
            pass

    class Client:
        def call(self, call, **options):
            return Answer()

    pods = Selection(Client(), None, "")
    source = KubeWatch(pods, "node-1")
    try:
        for event, pod in pods.watch("1"):
            assert isinstance(pod["metadata"]["resourceVersion"], str)
            if event != "BOOKMARK":
                assert isinstance(pod["metadata"]["uid"], str)
                assert source._counts(pod) in (True, False)
    except KubeError:
        return


class Events(ContainerdEvents):
    """A source whose events and answers come from the test instead of containerd."""

    def _reach(self):
        pass

    def _subscribed(self):
        return [self.sent]

    def _call(self, path, request, answer):
        one = {"id": "c1", "labels": {"io.kubernetes.pod.uid": "pod-1"}}
        other = {"id": "c2", "labels": {"io.kubernetes.pod.uid": "pod-2"}}
        return {
            "containers.v1.Containers/List": pb.ListContainersResponse(containers=[one]),
            "containers.v1.Containers/Get": pb.GetContainerResponse(container=other),
            "tasks.v1.Tasks/List": pb.ListTasksResponse(tasks=[{"container_id": "c1", "id": "c1", "status": 2}]),
        }[path]


@given(data=st.data())
def test_events_of_containerd(data):
    sound = {
        "/containers/create": pb.ContainerChanged(id="c2"),
        "/containers/delete": pb.ContainerChanged(id="c1"),
        "/tasks/create": pb.TaskCreated(container_id="c1"),
        "/tasks/exit": pb.TaskExited(container_id="c1", id="c1"),
    }
    topic = data.draw(st.sampled_from(sorted(sound)))
    content = damaged(data, sound[topic].SerializeToString())
    sent_topic = data.draw(st.just(topic) | st.text(max_size=20))
    source, changes = Events(clock=ManualClock()), []
    source.sent = pb.Envelope(topic=sent_topic, event={"value": content})
    source._pods = RunningPods(lambda told: changes.append(told.change), ManualClock())
    try:
        for _ in source._session():
            assert sum(changes) in (0, 1, 2)
    except PodEventsError:
        assert sent_topic in sound
    finally:
        source.close()


@PER_EXAMPLE
@given(
    names=st.lists(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60))
)
def test_folders_of_logs(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("pods")
    for name in names:
        if name not in (".", "..") and len(name.encode()) <= 255:
            folder.joinpath(name).mkdir(exist_ok=True)
    uids = [name.rpartition("_")[2] for name in names]
    logs = PodLogs(folder, ManualClock())
    for counted in (logs.counted_from_group(uids), logs.counted_from_container(uids)):
        assert all(uid in uids and (not pod or pod.count("/") == 1) for uid, pod in counted.items())


COSTS = {"stops_per_s": 0.5, "cores": 0.5, "cores_variance": 0.1, "gib": 0.2, "gib_variance": 0.01}
COSTS |= {"reads": 0.8, "reads_variance": 0.01}
REPORT = {
    "node": "a",
    "pod_capacity": 2.5,
    "version": "0.1.0",
    "demand": {
        "cores": 4.0,
        "gib": 16.0,
        "demand_cores": 1.5,
        "demand_cores_variance": 0.1,
        "held_gib": 3.0,
        "baseline_gib": 1.0,
        "disk": {"reads": 1.7, "level": 1.25},
        "workloads": [COSTS | {"name": "jobs/pi", "pods": 2}, COSTS | {"name": "jobs/web", "pods": 1}],
        "unknown_workloads": ["jobs/new"],
        "counted": [{"uid": f"uid-{number}", "workload": number} for number in range(4)],
    },
}


@settings(max_examples=200)
@given(data=st.data())
def test_a_scheduler_decides_after_any_accepted_report_of_demand(data):
    path = data.draw(st.sampled_from(sorted(paths(REPORT), key=str)))
    value = data.draw(st.floats(0, 1e6) | st.integers(0, 5) | JSON)
    try:
        content = capacity_pb2.CapacityReport(**replaced(REPORT, path, value)).SerializeToString()
    except (TypeError, ValueError):  # nobody can send this
        return
    if data.draw(st.booleans()):
        content = damaged(data, content)
    try:
        report, silent = read_report(content)
    except InvalidInput:
        return
    assert read_report(write_report(report, silent)) == (report, silent)
    if report.demand is None:
        return
    scheduler = DemandScheduler(DEMAND)
    scheduler.report(report.demand, 0.0)
    rows = scheduler.loads.rows([report.node])
    assert np.isfinite([scheduler.loads.cpu_load(rows), scheduler.loads.memory_load(rows)]).all()
    assert not np.isnan(scheduler.loads.reads_room(rows)).any()
    assert np.isfinite(scheduler.cost("jobs/pi")).all()
    assert scheduler.filter("uid", Kind("jobs/pi"), [report.node], 0.0).node in (None, report.node)


@given(data=st.data())
def test_answers_to_reports(data):
    sound = capacity_pb2.ReportReply(workloads={"u1": "jobs/pi", "u2": "jobs/web"}, version="0.1.0")
    try:
        reply = read_report_reply(damaged(data, sound.SerializeToString()))
    except InvalidInput:
        return
    assert read_report_reply(write_report_reply(reply)) == reply


def learned():
    model = NodeModel()
    for second in range(3):
        model.observe_series(np.full((10, 2), 0.3), second + np.arange(1, 11) / 10)
        model.step(second + 1.0)
    return json.loads(json.dumps({name: np.asarray(array).tolist() for name, array in model.save().items()}))


STATE = learned()


@settings(deadline=None)
@given(data=st.data())
def test_a_model_works_after_restoring_any_accepted_state(data):
    name = data.draw(st.sampled_from(sorted(STATE)))
    state = STATE | {name: with_random_value(data, STATE[name])}
    model = NodeModel()
    before = {name: array.tobytes() for name, array in model.save().items()}
    try:
        model.restore(state, now=100.0)
    except InvalidState:
        assert {name: array.tobytes() for name, array in model.save().items()} == before
        return
    for second in (100, 101):
        model.observe_series(np.full((10, 2), 0.6), second + np.arange(1, 11) / 10)
        report = model.step(second + 1.0)
    assert 0 <= float(report.pod_capacity) <= 110
    assert float(report.capacity_signal) == pytest.approx(float(report.capacity_signal), nan_ok=False)
