"""What kube-scheduler asks, and the journal of decisions."""

import json
import tempfile
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.workload import is_latency_critical, placement_of, workload_named, workload_of
from carico.errors import InvalidJournal, InvalidRequest
from carico.extender.api import read_args, write_result
from carico.extender.demand_extender import DemandExtender
from carico.extender.extender import Extender
from carico.extender.journal import Amount, Candidate, Cost, Entry, Room
from carico.extender.journal_reader import concerns, decide_again, entries_of, explain, read_entries
from carico.extender.metrics import ExtenderMetrics
from carico.rpc.messages import read_report_reply, write_report_reply
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.report import CapacityReport, ReportReply
from carico.scheduling.scheduler import Scheduler
from carico.scheduling.wake_up import WakeUp
from carico.testing import ManualClock
from tests.fuzz.target import Target
from tests.fuzz.targets.messages import DEMANDS

POD = {
    "metadata": {
        "name": "pi-1",
        "namespace": "jobs",
        "uid": "uid-9",
        "labels": {"carico.dev/latency-critical": "true"},
        "ownerReferences": [{"kind": "Job", "name": "pi", "controller": True}],
    },
    "spec": {
        "containers": [
            {
                "name": "pi",
                "image": "pi:1",
                "args": ["2000"],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "a"}],
        "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}],
    },
}
NODES = {"items": [{"metadata": {"name": "node-1", "labels": {}}}, {"metadata": {"name": "node-2"}}]}
REQUESTS = (
    json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["node-1", "node-2", "node-3"]}).encode(),
    json.dumps({"Pod": POD, "Nodes": NODES, "NodeNames": None}).encode(),
    json.dumps({"Pod": {"metadata": {"name": "a", "uid": "u"}}, "NodeNames": []}).encode(),
)


def thesis_extender():
    """Return an extender to which three nodes have reported."""
    scheduler = Scheduler(CaricoPlugin(5.0), 60.0, WakeUp(5.0, 0.5), wake=lambda node, available: None)
    extender = Extender(scheduler, None, ManualClock(100.0), ExtenderMetrics(CollectorRegistry()))
    extender.pods_listed(True)
    for node, capacity in (("node-1", 2.0), ("node-2", 0.5), ("node-3", 3.0)):
        extender.report(CapacityReport(node, capacity, 0, 0.0, 0))
    return extender


def demand_extender():
    """Return an extender of the variant `demand` to which a node has reported."""
    metrics = ExtenderMetrics(CollectorRegistry())
    extender = DemandExtender(DemandScheduler(DEMAND), None, ManualClock(100.0), metrics, "carico")
    extender.pods_listed(True)
    extender.report(CapacityReport("node-1", 2.0, 3, 0.0, 0, DEMANDS))
    extender.close()  # from now on, no answer is held until a node has room
    return extender


def decide(make, data):
    args = read_args(data)
    return args, make().filter(args)


def decision_is_sound(decided):
    args, result = decided
    answer = json.loads(write_result(result))
    refused = answer.get("FailedAndUnresolvableNodes") or {}
    if args.node_names is not None:
        names, chosen = args.node_names, answer.get("NodeNames") or []
    else:
        names = [json.loads(bytes(item))["metadata"]["name"] for item in args.nodes.items]
        chosen = [item["metadata"]["name"] for item in (answer.get("Nodes") or {"items": []})["items"]]
    assert len(chosen) <= 1
    assert set(chosen) <= set(names)
    assert set(refused) <= set(names)
    assert not (chosen and refused)


def read_pod(data):
    pod = json.loads(data.decode())
    if not isinstance(pod, dict):
        raise ValueError("the API's pods are objects")
    return pod


def names_are_sound(pod):
    """A scheduler's name of a workload can be sent, and an agent takes it."""
    workload = workload_of(pod)
    sent = ReportReply({"uid": workload}, "")
    assert read_report_reply(write_report_reply(sent)) == sent
    assert len(placement_of(pod)) in (0, 8)
    assert is_latency_critical(pod) in (True, False)


def derived_name_is_sound(name):
    workload = workload_named(name)
    assert len(workload) <= len(name) + 1
    assert workload.partition("/")[0] == name.partition("/")[0]
    if name.partition("/")[2]:
        assert workload.partition("/")[2]


ENTRIES = (
    Entry(
        schema_version=1,
        at=1.7e9,
        pod={"name": "pi-1", "uid": "uid-1", "namespace": "jobs"},
        choice="node-1",
        stale_after_s=5.0,
        candidates=[
            Candidate("node-1", 3.0, 1, 0.5, 2.0),
            Candidate("node-2", 0.5, 0, 0.5, 0.5, refused="capacity too small"),
            Candidate("node-3", refused="no capacity reported yet"),
        ],
        omitted={"has room": 2},
    ),
    Entry(
        schema_version=1,
        at=1.7e9,
        pod={"name": "pi-2", "uid": "uid-2", "namespace": "jobs"},
        choice=None,
        stale_after_s=None,
        candidates=[Candidate("node-1", age_s=0.5, room=Room(-1.0, 2.0, 0.5), refused="full")],
        cost=Cost("jobs/pi", Amount(1.0, 0.1), Amount(0.1, 0.01)),
    ),
)
JOURNAL = Path(tempfile.mkdtemp()) / "journal.jsonl"


def read_journal(data):
    JOURNAL.write_bytes(data)
    lines = [item for _, item in read_entries(JOURNAL)]
    said = []
    found = [entry for _, entry in entries_of(JOURNAL, said.append)]
    assert found == [item for item in lines if isinstance(item, Entry)]
    assert (len(found) < len(lines)) == bool(said)
    return found


def entries_are_shown(entries):
    for entry in entries:
        assert msgspec.json.decode(msgspec.json.encode(entry), type=Entry) == entry
        for show_all in (False, True):
            assert explain(entry, 80, show_all)
        assert isinstance(decide_again(entry), str)
        assert concerns(entry, entry.pod.uid)


TARGETS = [
    Target(
        "extender.request",
        "a request of kube-scheduler",
        lambda data: decide(thesis_extender, data),
        (InvalidRequest,),
        decision_is_sound,
        REQUESTS,
        form="json",
    ),
    Target(
        "extender.demand_request",
        "the same under the variant `demand`",
        lambda data: decide(demand_extender, data),
        (InvalidRequest,),
        decision_is_sound,
        REQUESTS,
        form="json",
    ),
    Target(
        "extender.workload",
        "a pod of the API, for its workload",
        read_pod,
        (ValueError, RecursionError),
        names_are_sound,
        (json.dumps(POD).encode(), b"{}"),
        form="json",
    ),
    Target(
        "extender.pod_name",
        "the name of a pod, for its workload",
        lambda data: data.decode(),
        (UnicodeDecodeError,),
        derived_name_is_sound,
        (b"shop/web-7c9d8b6f54-x2k4p", b"shop/db-0", b"ml/report-29012345-b7xq2"),
        longest=400,
    ),
    Target(
        "extender.journal",
        "a journal of decisions",
        read_journal,
        (InvalidJournal,),
        entries_are_shown,
        (b"\n".join(map(msgspec.json.encode, ENTRIES)) + b"\n", msgspec.json.encode(ENTRIES[0])[:100]),
        form="lines",
    ),
]
