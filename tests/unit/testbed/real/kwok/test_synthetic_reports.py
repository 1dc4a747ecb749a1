"""Reports for nodes that have no agents: running pods take room, and each node reports with its own certificate."""

import asyncio
from datetime import UTC, datetime

import pytest

from carico.clock import SystemClock
from carico.config import TlsFiles
from carico.deployment.authority import Authority
from carico.extender.report_server import CapacityServer
from testbed.real.kwok.synthetic_demand import NodeSize
from testbed.real.kwok.synthetic_reports import SyntheticReports, node_files

SLOTS = {"node-0": 2.0, "node-1": 1.5}


def pod(uid, node=None, phase="Pending"):
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, datetime.now(UTC), valid_days=1)
    authority.make_ca()
    authority.make_server("extender", ["localhost"])
    for node in SLOTS:
        authority.make_node(node)
    return folder


@pytest.fixture
def heard():
    return []


@pytest.fixture
def told():
    """The demand that was reported."""
    return []


@pytest.fixture
def server(folder, heard, told):
    tls = TlsFiles(*(str(folder / name) for name in ("server-extender.crt", "server-extender.key", "ca.crt")))

    def take(report):
        heard.append((report.node, report.pod_capacity, report.pods))
        if report.demand is not None:
            told.append(report.demand)
        return {}

    server = CapacityServer(take, tls, "127.0.0.1", 0)
    yield server
    server.close()


@pytest.fixture
def reports(folder, server):
    target = f"localhost:{server.port}"
    return SyntheticReports(target, lambda node: node_files(folder, node), SLOTS, SystemClock(), lambda: 1.7e9)


def test_a_pod_takes_room_while_it_runs(reports):
    rooms = []
    for phase in ("Pending", "Running", "Running", "Succeeded", "Succeeded"):
        reports.pod_changed(pod("one", "node-0", phase))
        rooms.append(reports.capacity("node-0"))
    assert rooms == [2, 1, 1, 2, 2]


def test_a_deleted_or_unbound_pod_takes_no_room(reports):
    reports.pod_changed(pod("waiting"))
    reports.pod_changed(pod("one", "node-1", "Running"))
    assert reports.capacity("node-1") == 0.5
    reports.pod_deleted("one")
    reports.pod_deleted("one")
    assert (reports.capacity("node-0"), reports.capacity("node-1")) == (2, 1.5)


def test_room_is_never_negative(reports):
    for uid in ("one", "two"):
        reports.pod_changed(pod(uid, "node-1", "Running"))
    assert reports.capacity("node-1") == 0


def test_every_node_reports_repeatedly_with_its_own_certificate(reports, server, heard):
    reports.pod_changed(pod("one", "node-0", "Running"))

    async def until_heard():
        task = asyncio.create_task(reports.run(0.02))
        async with asyncio.timeout(10):
            while len(heard) < 6:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(until_heard())
    assert set(heard) == {("node-0", 1.0, 1), ("node-1", 1.5, 0)}
    assert min(heard.count(one) for one in set(heard)) > 1


def test_an_unreachable_server_is_logged_once_and_tried_again(reports, server, caplog):
    server.close()

    async def for_a_while():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reports.run(0.02)

    asyncio.run(for_a_while())
    assert [record.message.partition(":")[0] for record in caplog.records] == ["a report was not accepted"]
    assert reports._sequence > len(SLOTS)


def test_a_node_whose_size_is_known_tells_its_demand_at_once_when_a_pod_starts_or_stops(folder, server, told):
    never_s = 3600.0
    reports = SyntheticReports(
        f"localhost:{server.port}",
        lambda node: node_files(folder, node),
        {"node-0": 2.0},
        SystemClock(),
        lambda: 1.7e9,
        {"node-0": NodeSize(4.0, 16.0)},
    )

    async def until_told(number):
        async with asyncio.timeout(10):
            while len(told) < number:
                await asyncio.sleep(0.01)

    async def watch():
        reporting = asyncio.create_task(reports.run(never_s))
        await until_told(1)
        await asyncio.to_thread(reports.pod_changed, pod("one", "node-0", "Running"))
        await until_told(2)
        await asyncio.to_thread(reports.pod_changed, pod("one", "node-0", "Succeeded"))
        await until_told(3)
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)

    asyncio.run(watch())
    assert [(demand.node, demand.cores) for demand in told] == [("node-0", 4.0)] * 3
    assert [list(demand.counted) for demand in told] == [[], ["one"], []]
    reports.pod_changed(pod("two", "node-0", "Running"))  # nobody listens any more


def test_a_pod_on_a_node_that_does_not_report_is_ignored(reports):
    reports.pod_changed(pod("one", "control-plane", "Running"))
    reports.pod_deleted("one")
    assert reports.capacity("node-0") == 2
