"""Agents and schedulers of different versions understand each other, and say once that they differ."""

import dataclasses

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from carico import __version__
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, DiskReport, WorkloadReport
from carico.extender.report_server import CapacityServer
from carico.rpc import capacity_pb2
from carico.rpc.clients import ReportClient
from carico.rpc.messages import MAX_MESSAGE_BYTES, read_report, write_report
from carico.rpc.server import RpcServer
from carico.scheduling.report import MOST_PODS_NAMED, CapacityReport, ReportReply
from tests.kits.blocking import Blocking

DEADLINE_S = 10.0
METHOD = "/carico.v1.Capacity/ReportStream"
DEMAND = DemandReport(
    "node-a",
    4.0,
    16.0,
    Estimate(1.5, 0.1),
    3.0,
    1.0,
    {"jobs/pi": WorkloadReport(1, 0.5, Estimate(0.5, 0.1), Estimate(0.2, 0.1))},
    {"uid-1": "jobs/pi", "uid-2": None},
)


NAMES = ("CapacityReport", "ReportReply")


def older_messages():
    """The messages as they were before the variant `demand`."""
    file = descriptor_pb2.FileDescriptorProto()
    capacity_pb2.DESCRIPTOR.CopyToProto(file)
    report, reply = (next(each for each in file.message_type if each.name == name) for name in NAMES)
    fields = [field for field in report.field if field.number <= 6]
    del report.field[:], reply.field[:], reply.nested_type[:]
    report.field.extend(fields)
    messages = [descriptor_pb2.DescriptorProto.FromString(each.SerializeToString()) for each in (report, reply)]
    del file.message_type[:]
    file.message_type.extend(messages)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"carico.v1.{name}")) for name in NAMES]


OlderReport, OlderReply = older_messages()


def report_before_disks():
    """The class of reports as they were when nodes reported demand, but nothing about disks."""
    file = descriptor_pb2.FileDescriptorProto()
    capacity_pb2.DESCRIPTOR.CopyToProto(file)
    messages = {each.name: each for each in file.message_type}
    for name, most in (("Demand", 9), ("Workload", 7)):
        fields = [field for field in messages[name].field if field.number <= most]
        del messages[name].field[:], messages[name].oneof_decl[:]
        messages[name].field.extend(fields)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("carico.v1.CapacityReport"))


def reported(number, demand=None, version=__version__, node="node-a", counted=None):
    return CapacityReport(node, 2.5, 2, 100.0 + number, number, demand, version, counted)


class Scheduler:
    def __init__(self):
        self.reports, self.workloads = [], {}
        self.server = CapacityServer(self.take, None, "127.0.0.1", 0, insecure_loopback=True)
        self.target = f"127.0.0.1:{self.server.port}"

    def take(self, report):
        self.reports.append(report)
        return self.workloads


@pytest.fixture
def scheduler():
    scheduler = Scheduler()
    yield scheduler
    scheduler.server.close()


@pytest.fixture
def client(scheduler):
    with Blocking(ReportClient(scheduler.target, None, DEADLINE_S)) as client:
        yield client


@pytest.fixture
def older_scheduler():
    """The address of a scheduler of before the variant `demand`, and what it was told."""
    reports = []

    def take(data, caller):
        reports.append(OlderReport.FromString(data))
        return None if reports[-1].silent else OlderReply().SerializeToString()

    server = RpcServer(
        "carico.v1.Capacity", {}, {"ReportStream": take}, tls=None, insecure_loopback=True, host="127.0.0.1", port=0
    )
    yield f"127.0.0.1:{server.port}", reports
    server.close()


NEW = dataclasses.replace(DEMAND, counted={**DEMAND.counted, "uid-3": "jobs/pi"})


def test_a_report_that_counts_new_pods_is_answered_and_others_now_and_then(scheduler, client):
    told = {}
    scheduler.workloads = told
    reports = [reported(number, NEW if number >= 4 else DEMAND) for number in range(1, 10)]
    answered = []
    for number, report in enumerate(reports, start=1):
        told["uid-1"] = f"jobs/pi-{number}"
        reply = client.report(report)
        answered.append(int(reply.workloads["uid-1"].removeprefix("jobs/pi-")))
    assert answered == [1, 1, 1, 4, 4, 4, 4, 4, 9], "the latest answer is returned until there is another"
    assert scheduler.reports == reports


def test_a_late_report_is_answered_but_tells_nothing(scheduler, client):
    scheduler.workloads = {"uid-1": "jobs/pi-1f2e3d4c"}
    client.report(reported(5, DEMAND))
    assert client.report(reported(4, NEW)) == ReportReply({}, __version__)


def test_what_does_not_fit_into_an_answer_is_told_later(scheduler, client):
    scheduler.workloads = {f"uid-{number:032}": f"jobs/{'w' * 60}-{number}" for number in range(2 * MOST_PODS_NAMED)}
    told = client.report(reported(1, DEMAND)).workloads
    assert told.items() < scheduler.workloads.items()
    assert len(told) == MOST_PODS_NAMED // 2
    written = capacity_pb2.ReportReply(workloads=told).ByteSize()
    assert MAX_MESSAGE_BYTES / 2 < written < MAX_MESSAGE_BYTES


def test_an_older_agent_is_understood_and_understands(scheduler, caplog):
    sent = [OlderReport(node="node-a", pod_capacity=2.5, pods=2, at_unix_s=101.0, sequence=1)] * 2
    with grpc.insecure_channel(scheduler.target) as channel:
        method = channel.stream_stream(METHOD, OlderReport.SerializeToString, OlderReply.FromString)
        assert len(list(method(iter(sent), timeout=DEADLINE_S))) == 2
    assert scheduler.reports == [reported(1, version="")]
    assert caplog.messages == [
        f"node-a's agent has an older version, this scheduler has {__version__}: they keep working together; "
        "bring both up to date with carico deploy"
    ]


def test_an_older_scheduler_is_told_as_before(older_scheduler, caplog):
    target, reports = older_scheduler
    with Blocking(ReportClient(target, None, DEADLINE_S)) as client:
        counted = frozenset({"uid-1"})
        replies = [
            client.report(reported(number, demand, counted=counted)) for number, demand in ((1, DEMAND), (2, NEW))
        ]
    assert replies == [ReportReply({}, "")] * 2
    assert [(report.pod_capacity, report.pods, report.sequence) for report in reports] == [(2.5, 2, 1), (2.5, 2, 2)]
    assert caplog.messages == [
        f"the scheduler {target} has an older version, this agent has {__version__}: they keep working together; "
        "bring both up to date with carico deploy"
    ]


def test_a_scheduler_speaks_once_of_every_other_version(scheduler, client, caplog):
    for number, version in enumerate([__version__, "0.0.9", "0.0.9", "0.0.8", "0.0.9"]):
        node = f"node-{number}"
        demand = dataclasses.replace(DEMAND, node=node, counted={f"uid-{number}": "jobs/pi"})
        client.report(reported(1, demand, version, node))  # answered, for it counts a new pod
    spoken = [message.partition(", ")[0] for message in caplog.messages]
    assert spoken == ["node-1's agent has version 0.0.9", "node-3's agent has version 0.0.8"]


def test_versions_without_and_with_disks_understand_each_other():
    """Each takes what it knows: an older scheduler ignores disks, an older agent reports none."""
    read = {"jobs/pi": dataclasses.replace(DEMAND.workloads["jobs/pi"], reads=Estimate(0.9, 0.01))}
    present = dataclasses.replace(DEMAND, workloads=read, disk=DiskReport(1.7, 1.25))
    older = report_before_disks()
    taken = older.FromString(write_report(reported(1, present)))
    assert taken.demand.workloads[0].cores == 0.5
    taken.DiscardUnknownFields()
    without, _ = read_report(taken.SerializeToString())
    assert without == reported(1, DEMAND)
