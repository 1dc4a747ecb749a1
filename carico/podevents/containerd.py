"""Pods by containerd's own events, over its unix socket (thesis §4.2.4, Fig. 4.8); needs the extra `agent`.

A pod counts from the creation of its sandbox: containerd's first event of the pod, before the shim, the sandbox and
the pod's containers start and cost CPU time. It counts until its last container exits, even if the sandbox is still
there, or until a sandbox without any container ends. So a pod counts once however many containers it has; between two
init containers, or while a crashed container waits for its restart, the pod runs nothing and does not count.

Containers are known by the labels that the kubelet and containerd's CRI give them; a container without a pod's UID
belongs to no pod. Static pods and pods of platform namespaces do not count; DaemonSet pods elsewhere do, since no
label marks them.

A process that may use the socket is as good as root on the node. Everything here only reads, with one exception: the
source publishes an event, the mark, to learn that its subscription is active. containerd does not confirm a
subscription, and a listing made before it is active could miss what happens in between.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from carico.clock import Clock
from carico.errors import PodEventsError
from carico.podevents import containerd_pb2 as pb
from carico.podevents.reconnecting import SessionSource
from carico.podevents.source import PLATFORM_NAMESPACES, full_name, is_static

_POD_UID = "io.kubernetes.pod.uid"
_POD_NAMESPACE = "io.kubernetes.pod.namespace"
_POD_NAME = "io.kubernetes.pod.name"
_KIND = "io.cri-containerd.kind"
_ALIVE = (1, 2, 4, 5)  # created, running, paused, pausing; see containerd.proto
_TOPICS = ("/containers/create", "/containers/delete", "/tasks/create", "/tasks/exit")
_MARK = "/carico/subscribed"
_MARK_EVERY_S = 0.05
_ANSWER_S = 10.0
_CHANNEL = (
    ("grpc.max_receive_message_length", 16 * 2**20),  # as containerd's own clients; a listing holds every spec
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # despite its name, how long one attempt may take: nodes are busy
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_REMEDIES: dict[type[Exception], str] = {
    FileNotFoundError: "no such socket; give the path of containerd's, in a pod a hostPath",
    PermissionError: "no permission; it belongs to root: run as root or choose another source",
    ConnectionRefusedError: "nobody listens; start containerd",
}


@dataclass(frozen=True)
class _Container:
    uid: str
    """The pod's."""
    pod: str
    """Its name."""
    sandbox: bool
    alive: bool


class ContainerdEvents(SessionSource):
    """The pods of one containerd.

    Parameters
    ----------
    socket : str
        Path of containerd's socket.
    namespace : str
        Containerd's namespace, not Kubernetes's; the CRI's is `k8s.io`.
    excluded_namespaces : collection of str
        Kubernetes namespaces whose pods do not count.
    clock : Clock, optional
        Dates the changes; the machine's by default.
    """

    def __init__(
        self,
        socket: str = "/run/containerd/containerd.sock",
        namespace: str = "k8s.io",
        excluded_namespaces: Collection[str] = PLATFORM_NAMESPACES,
        clock: Clock | None = None,
    ) -> None:
        self._socket = socket
        self._namespace = namespace
        self._excluded = frozenset(excluded_namespaces)
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_CHANNEL)
        # A stream that waits for events ends when its channel is closed.
        super().__init__(f"containerd at {socket}", clock, interrupt=self._channel.close)

    def _session(self) -> Iterator[None]:
        self._reach()
        try:
            stream = self._subscribed()
            containers = self._listed()
            self._pods.replace(_running(containers.values()))
            yield
            for envelope in stream:
                if self._apply(envelope, containers):
                    self._pods.replace(_running(containers.values()))
                yield
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except DecodeError as error:
            raise PodEventsError(f"containerd at {self._socket} sent a malformed event: {error}") from error

    def _subscribed(self) -> Iterator[pb.Envelope]:
        """Return a stream of events that is known to hold everything that happens from now on."""
        filters = [f'namespace=="{self._namespace}",topic=="{topic}"' for topic in (*_TOPICS, _MARK)]
        stream = self._channel.unary_stream(
            "/containerd.services.events.v1.Events/Subscribe",
            request_serializer=pb.SubscribeRequest.SerializeToString,
            response_deserializer=pb.Envelope.FromString,
        )(pb.SubscribeRequest(filters=filters), metadata=self._metadata())
        seen = threading.Event()
        refused: list[grpc.RpcError] = []

        def mark() -> None:
            try:
                while not seen.is_set():
                    self._call("events.v1.Events/Publish", pb.PublishRequest(topic=_MARK, event={}), None)
                    seen.wait(_MARK_EVERY_S)
            except grpc.RpcError as error:
                refused.append(error)
                stream.cancel()
            except ValueError:
                pass  # the channel was closed, which ends the stream, too

        marking = threading.Thread(target=mark, name="containerd-mark", daemon=True)
        marking.start()
        try:
            # What comes before the mark happened before the listing, which shows it.
            for envelope in stream:
                if envelope.topic == _MARK:
                    break
        except grpc.RpcError:
            if refused:
                raise refused[0] from None
            raise
        finally:
            seen.set()
            marking.join()
        return stream

    def _apply(self, envelope: pb.Envelope, containers: dict[str, _Container]) -> bool:
        """Follow an event; return whether it concerns a container of a pod that counts."""
        topic, content = envelope.topic, envelope.event.value
        if topic == "/containers/create":
            name = pb.ContainerChanged.FromString(content).id
            found = self._container(name)
            if found is not None:
                containers[name] = found
            return found is not None
        if topic == "/containers/delete":
            return containers.pop(pb.ContainerChanged.FromString(content).id, None) is not None
        if topic == "/tasks/create":
            name, alive = pb.TaskCreated.FromString(content).container_id, True
        elif topic == "/tasks/exit":
            exited = pb.TaskExited.FromString(content)
            if exited.id != exited.container_id:
                return False  # a probe or an exec
            name, alive = exited.container_id, False
        else:
            return False  # a mark
        if name in containers:
            containers[name] = replace(containers[name], alive=alive)
        return name in containers

    def _listed(self) -> dict[str, _Container]:
        containers = self._call(
            "containers.v1.Containers/List",
            pb.ListContainersRequest(filters=[f'labels."{_POD_UID}"']),
            pb.ListContainersResponse,
        ).containers
        # Tasks last: one that has exited by now is gone, one that exits later is in the stream.
        tasks = self._call("tasks.v1.Tasks/List", pb.ListTasksRequest(), pb.ListTasksResponse).tasks
        alive = {task.id for task in tasks if task.status in _ALIVE}
        found = ((listed.id, self._of_a_pod(listed, listed.id in alive)) for listed in containers)
        return {name: container for name, container in found if container is not None}

    def _container(self, name: str) -> _Container | None:
        try:
            answer = self._call(
                "containers.v1.Containers/Get", pb.GetContainerRequest(id=name), pb.GetContainerResponse
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None  # removed since
            raise
        return self._of_a_pod(answer.container, alive=True)

    def _of_a_pod(self, container: pb.Container, alive: bool) -> _Container | None:
        labels = container.labels
        uid = labels.get(_POD_UID)
        if not uid or is_static(uid) or labels.get(_POD_NAMESPACE) in self._excluded:
            return None
        pod = full_name(labels.get(_POD_NAMESPACE), labels.get(_POD_NAME))
        return _Container(uid, pod, sandbox=labels.get(_KIND) == "sandbox", alive=alive)

    def _call(self, path: str, request: Any, answer: Any) -> Any:
        return self._channel.unary_unary(
            f"/containerd.services.{path}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer and answer.FromString,
        )(request, timeout=_ANSWER_S, metadata=self._metadata())

    def _metadata(self) -> tuple[tuple[str, str]]:
        return (("containerd-namespace", self._namespace),)

    def _reach(self) -> None:
        """Raise an error that says precisely what is wrong with the socket; gRPC's errors do not."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_ANSWER_S)
                probe.connect(self._socket)
        except (OSError, ValueError) as error:
            remedy = next((text for kind, text in _REMEDIES.items() if isinstance(error, kind)), str(error))
            raise PodEventsError(f"cannot connect to containerd at {self._socket}: {remedy}") from error

    def _failed(self, error: grpc.RpcError) -> PodEventsError:
        return PodEventsError(f"containerd at {self._socket} failed: {error.code().name}, {error.details()}")


def _running(containers: Iterable[_Container]) -> dict[str, str]:
    """The UIDs and names of the pods that count, see the module's docstring."""
    names: dict[str, str] = {}
    working: set[str] = set()
    worked: set[str] = set()
    prepared: set[str] = set()
    for container in containers:
        names[container.uid] = container.pod or names.get(container.uid, "")
        if not container.sandbox:
            worked.add(container.uid)
        if container.alive:
            (prepared if container.sandbox else working).add(container.uid)
    return {uid: names[uid] for uid in working | (prepared - worked)}
