"""What nodes report reaches the scheduler once, in order, and from nobody else."""

import re
from contextlib import ExitStack

import grpc
import pytest

from carico.errors import InvalidConfig, Refused, Unreachable
from carico.extender import report_server as capacity_server
from carico.extender.report_server import CapacityServer
from carico.rpc import capacity_pb2
from carico.rpc.clients import ReportClient
from carico.rpc.server import STREAMS_EACH
from carico.rpc.tls import ClientTls, PemFiles
from carico.scheduling.report import CapacityReport
from carico.testing import ManualClock
from tests.kits.blocking import Blocking

DEADLINE_S = 10.0


class Scheduler:
    def __init__(self, tls, port=0):
        self.reports, self.refused, self.error = [], [], None
        self.workloads = {}
        self.clock = ManualClock()
        self.server = CapacityServer(self.take, tls, "localhost", port, refused=self.refused.append, clock=self.clock)
        self.target = f"localhost:{self.server.port}"

    def take(self, report):
        if self.error is not None:
            raise self.error
        self.reports.append(report)
        return self.workloads


@pytest.fixture
def scheduler(pki):
    scheduler = Scheduler(pki.server("extender"))
    yield scheduler
    scheduler.server.close()


@pytest.fixture
def client(scheduler, pki):
    with Blocking(ReportClient(scheduler.target, ClientTls(pki.node("node-a")), DEADLINE_S)) as client:
        yield client


def report_all(client, pod_capacity, numbers):
    for number in numbers:
        client.report(CapacityReport("node-a", pod_capacity, 1, float(number), number))


def message(pod_capacity, at_unix_s, sequence, silent=False):
    return capacity_pb2.CapacityReport(
        node="node-a", pod_capacity=pod_capacity, at_unix_s=at_unix_s, sequence=sequence, silent=silent
    )


def test_a_report_is_passed_on(scheduler, client):
    report = CapacityReport("node-a", 2.5, 3, 1.7e9, 1)
    client.report(report)
    assert scheduler.reports == [report]


@pytest.mark.parametrize(
    ("sequence", "at_unix_s", "passed_on"),
    [
        pytest.param(6, 101.0, True, id="the next"),
        pytest.param(4, 99.0, False, id="late"),
        pytest.param(5, 100.0, False, id="twice"),
        pytest.param(0, 101.0, True, id="after a restart of the agent"),
        pytest.param(6, 50.0, True, id="after the clock was set back"),
    ],
)
def test_what_is_late_is_ignored(scheduler, stream, sequence, at_unix_s, passed_on):
    assert len(stream([message(1.0, 100.0, 5), message(2.0, at_unix_s, sequence)])) == 2
    assert [report.pod_capacity for report in scheduler.reports] == [1.0, 2.0][: 1 + passed_on]


def test_a_machine_that_starts_anew_with_a_wrong_clock_is_heard(scheduler, stream):
    stream([message(1.0, 4e9, 500)])
    scheduler.clock.sleep_until(4.0)
    stream([message(2.0, 100.0, 1)])
    scheduler.clock.sleep_until(11.0)
    stream([message(3.0, 107.0, 8)])
    assert [report.pod_capacity for report in scheduler.reports] == [1.0, 3.0]


def test_a_node_reports_for_itself_only(scheduler, pki):
    with (
        Blocking(ReportClient(scheduler.target, ClientTls(pki.node("node-b")), DEADLINE_S)) as liar,
        pytest.raises(Refused, match="URI carico:node:node-a is needed"),
    ):
        liar.report(CapacityReport("node-a", 1e6, 0, 1.0, 1))
    assert (scheduler.reports, scheduler.refused) == ([], ["not_allowed"])


def test_a_report_that_makes_no_sense_is_refused(scheduler, client):
    with pytest.raises(Refused, match="INVALID_ARGUMENT: pod_capacity must be finite"):
        client.report(CapacityReport("node-a", -1.0, 0, 1.0, 1))
    assert (scheduler.reports, scheduler.refused) == ([], ["invalid_input"])


@pytest.fixture
def stream(scheduler, pki):
    """The method as another program would call it, made from the .proto file alone."""
    pem = PemFiles(pki.node("node-a"))
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)
    with grpc.secure_channel(scheduler.target, credentials) as channel:
        method = channel.stream_stream(
            "/carico.v1.Capacity/ReportStream",
            capacity_pb2.CapacityReport.SerializeToString,
            capacity_pb2.ReportReply.FromString,
        )
        yield lambda messages: list(method(iter(messages), timeout=DEADLINE_S))


def test_an_empty_stream_reports_nothing(scheduler, stream):
    assert stream([]) == []
    assert scheduler.reports == []


def test_reports_that_are_silent_are_not_answered(scheduler, stream):
    # One of them is late.
    assert len(stream([message(1.0, 1.0, number, silent=number != 5) for number in (1, 2, 5, 4, 7)])) == 1
    assert len(scheduler.reports) == 4


def test_one_report_of_five_is_answered_and_all_arrive(scheduler, client, until, monkeypatch):
    silent = []
    read = capacity_server.read_report
    monkeypatch.setattr(capacity_server, "read_report", lambda data: silent.append(read(data)[1]) or read(data))
    for number in range(12):
        client.report(CapacityReport("node-a", float(number), 1, 1.0 + number, 1 + number))
    until(lambda: len(scheduler.reports) == 12)
    assert [report.pod_capacity for report in scheduler.reports] == [float(number) for number in range(12)]
    assert silent == [False, True, True, True, True] * 2 + [False, True]


def test_who_was_told_and_has_gone_is_missed_and_heard_again(pki):
    credentials = ClientTls(pki.node("node-a"))
    first = Scheduler(pki.server("extender"))
    with Blocking(ReportClient(first.target, credentials, DEADLINE_S)) as client:
        client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
        client.report(CapacityReport("node-a", 2.0, 1, 2.0, 2))
        first.server.close()
        with pytest.raises(Unreachable):  # not later than with the next that is answered
            report_all(client, 1.0, range(3, 9))
        second = Scheduler(pki.server("extender"), first.server.port)
        report_all(client, 3.0, range(9, 12))
        assert second.reports[0] == CapacityReport("node-a", 3.0, 1, 9.0, 9)
        second.server.close()


def test_a_refusal_of_what_was_told_is_heard_of_with_the_next(scheduler, client):
    client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
    with pytest.raises(Refused, match="INVALID_ARGUMENT: pod_capacity must be finite"):
        report_all(client, -1.0, range(2, 8))
    client.report(CapacityReport("node-a", 1.0, 1, 9.0, 9))
    assert [report.at_unix_s for report in scheduler.reports] == [1.0, 9.0]


def test_a_certificate_is_good_for_a_few_streams_at_a_time(scheduler, pki):
    def reporter(name):
        return Blocking(ReportClient(scheduler.target, ClientTls(pki.node(name)), DEADLINE_S))

    with ExitStack() as opened:
        clients = [opened.enter_context(reporter("node-a")) for _ in range(STREAMS_EACH)]
        for number, client in enumerate(clients):
            client.report(CapacityReport("node-a", 1.0, 1, 1.0 + number, 1 + number))
        said = []
        # Where the refusal overtakes the message, gRPC knows of the message alone that it could not be sent.
        while not any("RESOURCE_EXHAUSTED" in text for text in said) and len(said) < 20:
            with reporter("node-a") as one_more, pytest.raises(Unreachable) as refused:
                one_more.report(CapacityReport("node-a", 1.0, 1, 9.0, 9))
            said.append(str(refused.value))
        assert re.search(r"RESOURCE_EXHAUSTED: .* end one", said[-1])
        assert scheduler.refused == ["too_many_streams"] * len(said)
        with reporter("node-b") as another:
            another.report(CapacityReport("node-b", 1.0, 1, 1.0, 1))
    with reporter("node-a") as later:
        later.report(CapacityReport("node-a", 2.0, 1, 10.0, 10))
    assert scheduler.reports[-1] == CapacityReport("node-a", 2.0, 1, 10.0, 10)


def test_where_the_scheduler_fails_the_node_is_told_and_the_server_goes_on(scheduler, client, caplog):
    scheduler.error = RuntimeError("no such node")
    with pytest.raises(Unreachable, match="INTERNAL: the server failed"):
        client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
    assert "no such node" in caplog.text
    scheduler.error = None
    client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
    assert len(scheduler.reports) == 1


def test_what_fails_again_and_again_does_not_fill_the_log(scheduler, client, caplog):
    scheduler.error = RuntimeError("no such node")
    for number in range(30):
        with pytest.raises(Unreachable, match="INTERNAL: the server failed"):
            client.report(CapacityReport("node-a", 1.0, 1, 1.0 + number, 1 + number))
    assert caplog.text.count("Traceback") == 10


def test_plain_text_needs_to_be_asked_for():
    with pytest.raises(InvalidConfig, match="nothing is encrypted"):
        CapacityServer(lambda report: {}, None, "127.0.0.1", 0)
    reports = []
    server = CapacityServer(lambda report: reports.append(report) or {}, None, "127.0.0.1", 0, insecure_loopback=True)
    with Blocking(ReportClient(f"127.0.0.1:{server.port}", None, DEADLINE_S)) as client:
        client.report(CapacityReport("node-a", 1.0, 1, 1.0, 1))
    server.close()
    assert len(reports) == 1
