"""Sources of pod events: folders of logs, control groups, and containerd's events."""

import tempfile
from pathlib import Path

from carico.errors import PodEventsError
from carico.podevents import containerd_pb2 as pb
from carico.podevents.containerd import ContainerdEvents
from carico.podevents.pod_changes import RunningPods
from carico.podevents.pod_logs import PodLogs
from carico.telemetry.kubepods import class_folders, find_kubepods, pods_in
from carico.testing import ManualClock
from tests.fuzz.target import Target

FOLDER = Path(tempfile.mkdtemp())
UID = "0f3f1f6e-2c5c-4a43-9d5e-0a2b6f8e7c11"


def make_folders(root, data):
    """Make a folder for every line; return the names that were made."""
    made = []
    for line in data.split(b"\n")[:12]:
        name = line.decode("utf-8", "surrogateescape")
        if name and len(line) <= 255 and "\0" not in name and not {".", ".."} & set(name.split("/")):
            root.joinpath(name.strip("/")).mkdir(parents=True, exist_ok=True)
            made.append(name.strip("/"))
    return made


def read_logs(data):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        names = make_folders(Path(folder), data)
        uids = [name.partition("/")[0].rpartition("_")[2] for name in names]
        logs = PodLogs(folder, ManualClock())
        return uids, logs.counted_from_group(uids), logs.counted_from_container(uids)


def names_are_sound(read):
    uids, *both = read
    for counted in both:
        assert all(uid in uids and (not pod or pod.count("/") == 1) for uid, pod in counted.items())


def read_groups(data):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        make_folders(Path(folder), data)
        return pods_in(class_folders(find_kubepods(Path(folder))))


def uids_are_sound(pods):
    assert all(32 <= len(uid) <= 36 and "_" not in uid for uid in pods.values())


class Events(ContainerdEvents):
    """A source whose events and answers come from an input instead of containerd."""

    def _reach(self):
        pass

    def _subscribed(self):
        return self.sent

    def _call(self, path, request, answer):
        one = {"id": "c1", "labels": {"io.kubernetes.pod.uid": "pod-1"}}
        other = {"id": "c2", "labels": {"io.kubernetes.pod.uid": "pod-2", "io.cri-containerd.kind": "sandbox"}}
        return {
            "containers.v1.Containers/List": pb.ListContainersResponse(containers=[one]),
            "containers.v1.Containers/Get": pb.GetContainerResponse(container=other),
            "tasks.v1.Tasks/List": pb.ListTasksResponse(tasks=[{"container_id": "c1", "id": "c1", "status": 2}]),
        }[path]


TOPICS = ("/containers/create", "/containers/delete", "/tasks/create", "/tasks/exit", "/other")
SOURCE = Events(clock=ManualClock())


def read_events(data):
    """Events, each a byte for its topic, a byte for its length, and its content."""
    SOURCE.sent, changes = [], []
    while len(data) >= 2:
        topic, length = TOPICS[data[0] % len(TOPICS)], data[1]
        SOURCE.sent.append(pb.Envelope(topic=topic, event={"value": data[2 : 2 + length]}))
        data = data[2 + length :]
    SOURCE._pods = RunningPods(lambda told: changes.append(told.change), ManualClock())
    sums = []
    for _ in SOURCE._session():
        sums.append(sum(changes))
    return sums


def sums_are_sound(sums):
    assert all(total in (0, 1, 2) for total in sums)


def _event(topic, message):
    content = message.SerializeToString()
    return bytes([topic, len(content)]) + content


TARGETS = [
    Target(
        "containers.logs",
        "folders of the logs of pods",
        read_logs,
        (PodEventsError, OSError),
        names_are_sound,
        (f"jobs_pi-1_{UID}/pi\nkube-system_dns-1_uid-2/dns\nother\na_b_c_d\n__".encode(),),
        longest=800,
    ),
    Target(
        "containers.groups",
        "control groups of pods",
        read_groups,
        (PodEventsError, OSError),
        uids_are_sound,
        (
            f"kubepods/burstable/pod{UID}/c1\nkubepods/besteffort/pod{UID.replace('-', '')}".encode(),
            f"a/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice".encode(),
        ),
        longest=800,
    ),
    Target(
        "containers.events",
        "events of containerd",
        read_events,
        (PodEventsError,),
        sums_are_sound,
        (
            _event(0, pb.ContainerChanged(id="c2"))
            + _event(2, pb.TaskCreated(container_id="c2"))
            + _event(3, pb.TaskExited(container_id="c1", id="c1"))
            + _event(1, pb.ContainerChanged(id="c1")),
            _event(3, pb.TaskExited(container_id="c1", id="exec-1")),
        ),
        longest=1024,
    ),
]
