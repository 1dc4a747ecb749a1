"""Container events against a containerd of the test's own, in this process: order, labels, failures.

That the messages are containerd's is shown by test_containerd_live.
"""

import os
import queue
import socket
import tempfile
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from carico.errors import PodEventsError
from carico.podevents import containerd_pb2 as pb
from carico.podevents.containerd import ContainerdEvents
from carico.podevents.source import PodChange
from carico.testing import ManualClock

RUNNING, STOPPED = 2, 3


class FakeContainerd:
    """Serves what ContainerdEvents asks; containers and tasks are the test's."""

    def __init__(self, path):
        self.path = path
        self.containers = {}
        self.tasks = {}
        self.before_listing = self.after_listing = lambda: None
        self.late_subscription = 0
        self.serve()

    def serve(self):
        self._subscribers = []
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        subscribe = grpc.unary_stream_rpc_method_handler(
            self._subscribe, pb.SubscribeRequest.FromString, pb.Envelope.SerializeToString
        )
        self._add("events.v1.Events/Subscribe", subscribe)
        for path, call, request in (
            ("events.v1.Events/Publish", self._publish, pb.PublishRequest),
            ("containers.v1.Containers/Get", self._get, pb.GetContainerRequest),
            ("containers.v1.Containers/List", self._list, pb.ListContainersRequest),
            ("tasks.v1.Tasks/List", self._list_tasks, pb.ListTasksRequest),
        ):
            answer = lambda message: message.SerializeToString()  # noqa: E731
            self._add(path, grpc.unary_unary_rpc_method_handler(call, request.FromString, answer))
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def _add(self, path, method):
        service, _, name = f"containerd.services.{path}".partition("/")
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {name: method})])

    def stop(self):
        self._server.stop(grace=None).wait()

    def publish(self, topic, message):
        event = {"value": message.SerializeToString()}
        for subscriber in self._subscribers:
            subscriber.put(pb.Envelope(topic=topic, event=event))

    def create(self, name, pod, namespace="default", sandbox=False):
        kind = "sandbox" if sandbox else "container"
        self.containers[name] = {"io.cri-containerd.kind": kind, "io.kubernetes.pod.namespace": namespace}
        if pod:
            self.containers[name] |= {"io.kubernetes.pod.uid": pod, "io.kubernetes.pod.name": f"name-of-{pod}"}
        self.publish("/containers/create", pb.ContainerChanged(id=name))

    def run(self, name):
        self.tasks[name] = RUNNING
        self.publish("/tasks/create", pb.TaskCreated(container_id=name))

    def exit(self, name):
        self.tasks[name] = STOPPED
        self.publish("/tasks/exit", pb.TaskExited(container_id=name, id=name))

    def delete(self, name):
        self.tasks.pop(name, None)
        del self.containers[name]
        self.publish("/containers/delete", pb.ContainerChanged(id=name))

    def _subscribe(self, request, context):
        news = queue.SimpleQueue()
        context.add_callback(lambda: news.put(None))
        self._subscribers.append(news)
        return iter(news.get, None)

    def _publish(self, request, context):
        if self.late_subscription > 0:  # as if nobody listened yet
            self.late_subscription -= 1
        else:
            self.publish(request.topic, pb.ContainerChanged())
        return Empty()

    def _get(self, request, context):
        if request.id not in self.containers:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        return pb.GetContainerResponse(container={"id": request.id, "labels": self.containers[request.id]})

    def _list(self, request, context):
        self.before_listing()
        found = [pb.Container(id=name, labels=labels) for name, labels in self.containers.items()]
        self.after_listing()
        return pb.ListContainersResponse(containers=found)

    def _list_tasks(self, request, context):
        tasks = [pb.Process(id=name, status=status) for name, status in self.tasks.items()]
        return pb.ListTasksResponse(tasks=tasks)


@pytest.fixture
def containerd():
    # Not tmp_path: the path of a unix socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="cd-") as folder:
        fake = FakeContainerd(f"{folder}/socket")
        yield fake
        fake.stop()


@pytest.fixture
def source(containerd):
    source = ContainerdEvents(containerd.path, clock=ManualClock(7.0))
    yield source
    source.close()


def test_a_pod_with_two_containers_is_one_pod_from_its_sandbox_to_its_last_container(containerd, source, told):
    source.start(told)
    containerd.create("sandbox", "pod-1", sandbox=True)
    assert told.wait_for(1) == [PodChange(+1, 7.0, "pod-1", "default/name-of-pod-1")]
    containerd.run("sandbox")
    for name in ("one", "two"):
        containerd.create(name, "pod-1")
        containerd.run(name)
    containerd.exit("one")
    containerd.exit("two")
    assert told.wait_for(0) == [PodChange(-1, 7.0, "pod-1", "default/name-of-pod-1")]
    containerd.exit("sandbox")
    for name in ("one", "two", "sandbox"):
        containerd.delete(name)
    containerd.create("sandbox-2", "pod-2", sandbox=True)
    told.wait_for(1)
    assert told.steps == [1, -1, 1]


def test_a_sandbox_that_never_gets_a_container_counts_until_it_ends(containerd, source, told):
    source.start(told)
    containerd.create("failing", "pod-1", sandbox=True)
    told.wait_for(1)
    containerd.delete("failing")
    told.wait_for(0)


def test_a_crashed_container_counts_again_when_it_is_restarted(containerd, source, told):
    source.start(told)
    containerd.create("sandbox", "pod-1", sandbox=True)
    containerd.run("sandbox")
    containerd.create("first", "pod-1")
    told.wait_for(1)
    containerd.exit("first")
    told.wait_for(0)
    containerd.create("second", "pod-1")
    told.wait_for(1)
    containerd.delete("first")
    containerd.exit("second")
    told.wait_for(0)
    assert told.steps == [1, -1, 1, -1]


def test_platform_pods_and_containers_of_no_pod_do_not_count(containerd, source, told):
    containerd.create("proxy", "pod-1", namespace="kube-system", sandbox=True)
    containerd.run("proxy")
    source.start(told)
    containerd.create("flannel", "pod-2", namespace="kube-flannel", sandbox=True)
    containerd.create("other", "")
    containerd.run("other")
    containerd.create("mine", "pod-3", sandbox=True)
    told.wait_for(1)
    containerd.exit("proxy")
    containerd.delete("mine")
    told.wait_for(0)
    assert told.steps == [1, -1]


def test_the_caller_chooses_the_excluded_namespaces(containerd, told):
    source = ContainerdEvents(containerd.path, excluded_namespaces=["batch"])
    containerd.create("a", "pod-1", namespace="batch", sandbox=True)
    containerd.create("b", "pod-2", namespace="kube-system", sandbox=True)
    containerd.run("a")
    containerd.run("b")
    source.start(told)
    assert told.so_far() == 1
    source.close()


def test_static_pods_are_the_kubelets_own(containerd, told):
    source = ContainerdEvents(containerd.path)
    containerd.create("etcd", "f1b2c3d4e5f60718293a4b5c6d7e8f90", sandbox=True)
    containerd.run("etcd")
    source.start(told)
    assert told.so_far() == 0
    source.close()


def test_a_probe_that_exits_ends_no_container(containerd, source, told):
    source.start(told)
    containerd.create("sandbox", "pod-1", sandbox=True)
    containerd.run("sandbox")
    told.wait_for(1)
    containerd.publish("/tasks/exit", pb.TaskExited(container_id="sandbox", id="probe"))
    containerd.create("next", "pod-2", sandbox=True)
    told.wait_for(2)
    assert told.steps == [1, 1]


def test_what_runs_already_is_told_when_start_returns_and_what_has_ended_is_not(containerd, source, told):
    for number in range(3):
        containerd.create(f"sandbox-{number}", f"pod-{number}", sandbox=True)
        containerd.run(f"sandbox-{number}")
    containerd.exit("sandbox-0")
    containerd.create("never-started", "pod-3")
    source.start(told)
    assert told.so_far() == 2
    assert told.running == {"pod-1": "default/name-of-pod-1", "pod-2": "default/name-of-pod-2"}


def test_a_pod_whose_labels_do_not_say_its_name_counts_without_one(containerd, source, told):
    containerd.create("sandbox", "pod-1", sandbox=True)
    containerd.run("sandbox")
    del containerd.containers["sandbox"]["io.kubernetes.pod.name"]
    source.start(told)
    assert told.so_far() == 1
    assert told.running == {"pod-1": ""}


def test_what_happens_between_subscription_and_listing_is_counted_once(containerd, source, told):
    containerd.create("ending", "pod-0", sandbox=True)
    containerd.run("ending")

    def meanwhile():
        containerd.before_listing = lambda: None
        containerd.create("new", "pod-1", sandbox=True)
        containerd.run("new")
        containerd.exit("ending")
        containerd.create("short", "pod-2", sandbox=True)
        containerd.run("short")
        containerd.delete("short")

    containerd.before_listing = meanwhile
    source.start(told)
    assert told.so_far() == 1
    containerd.create("last", "pod-3", sandbox=True)
    told.wait_for(2)
    assert told.steps == [1, 1]


def test_what_happens_after_the_listing_was_made_is_not_lost(containerd, source, told):
    containerd.create("ending", "pod-0", sandbox=True)
    containerd.run("ending")

    def meanwhile():
        containerd.after_listing = lambda: None
        containerd.create("new", "pod-1", sandbox=True)
        containerd.create("newer", "pod-2", sandbox=True)
        containerd.delete("ending")

    containerd.after_listing = meanwhile
    source.start(told)
    told.wait_for(2)


def test_the_listing_waits_until_the_subscription_stands(containerd, source, told):
    containerd.late_subscription = 2
    source.start(told)
    containerd.create("sandbox", "pod-1", sandbox=True)
    told.wait_for(1)


def test_after_a_restart_of_containerd_the_count_is_right(containerd, source, told, quick_reconnects):
    for number in range(3):
        containerd.create(f"sandbox-{number}", f"pod-{number}", sandbox=True)
        containerd.run(f"sandbox-{number}")
    source.start(told)
    told.wait_for(3)
    containerd.stop()
    containerd.tasks = {"sandbox-2": RUNNING}
    containerd.serve()
    told.wait_for(1)
    containerd.create("later", "pod-9", sandbox=True)
    told.wait_for(2)


def test_a_closed_source_tells_no_more_and_a_second_close_does_nothing(containerd, source, told, caplog):
    source.start(told)
    source.close()
    containerd.create("sandbox", "pod-1", sandbox=True)
    source.close()
    assert told.so_far() == 0
    assert not caplog.records
    with pytest.raises(PodEventsError, match="started before"):
        source.start(told)


def test_a_missing_or_unserved_socket_is_an_error_with_its_remedy(tmp_path, told):
    missing = ContainerdEvents(str(tmp_path / "none"))
    with pytest.raises(PodEventsError, match=r"/none: no such socket; give the path"):
        missing.start(told)
    missing.close()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/dead"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        refused = ContainerdEvents(path)
        with pytest.raises(PodEventsError, match="nobody listens; start containerd"):
            refused.start(told)
        refused.close()


def test_a_forbidden_socket_is_an_error_with_its_remedy(monkeypatch, containerd, source, told):
    def forbidden(self, address):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    with pytest.raises(PodEventsError, match="no permission; it belongs to root"):
        source.start(told)


def test_a_server_other_than_containerd_is_an_error_and_no_hang(told):
    with tempfile.TemporaryDirectory() as folder:
        server = grpc.server(futures.ThreadPoolExecutor(1))
        server.add_insecure_port(f"unix:{folder}/socket")
        server.start()
        source = ContainerdEvents(f"{folder}/socket")
        with pytest.raises(PodEventsError, match="UNIMPLEMENTED"):
            source.start(told)
        source.close()
        server.stop(grace=None).wait()


def test_no_descriptor_is_left_open(containerd, told):
    def once():
        source = ContainerdEvents(containerd.path)
        source.start(told)
        source.close()

    once()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        once()
    assert len(list(Path(f"/proc/{os.getpid()}/fd").iterdir())) <= before + 2
