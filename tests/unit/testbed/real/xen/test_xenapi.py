"""Guests in a pool, made through a real XML-RPC server: its master, its refusals, and that nothing is left of them."""

import http.server
import os
import signal
import socket
import threading
import xmlrpc.client
from types import SimpleNamespace

import msgspec
import pytest
import yaml

from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError
from testbed.real.lifecycle import MadeCluster, sweep
from testbed.real.registry import Registry
from testbed.real.xen import xenapi
from testbed.real.xen.maker import XenMaker
from tests.kits.fake_dom0 import ADMIN, JOIN, TOKEN_SECRET
from tests.kits.fake_machine import Fault
from tests.kits.fake_pool import NETWORK, PASSWORD, TEMPLATE, FakePool, Trouble

NAME = "carico-xen-run-1"
FIRST = f"{NAME}-0"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(xenapi, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(xenapi, "POLL_S", 0.01)


@pytest.fixture
def pool(servers, server):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pool = FakePool(servers, server, port)
    yield pool
    pool.close()


@pytest.fixture
def made(tmp_path, described, pool, connect, server):
    """A function that returns a maker of guests in the pool that join a given control plane, and its messages."""
    document = yaml.safe_load(described(1).read_text())
    (tmp_path / "described" / "kubeconfig").write_text(ADMIN)
    (tmp_path / "described" / "join").write_text(JOIN)
    server.put(TOKEN_SECRET, data={})
    for field in ("kernel", "ramdisk"):
        del document["guests"][field]
    document["control_plane"] = {"kubeconfig": "kubeconfig", "join": "join"}

    def make(count=1, password=PASSWORD, url=None, **guests):
        document["host"] = {"driver": "xenapi", "url": url or pool.url}
        addresses = [f"127.0.0.{number}" for number in range(2, 2 + count)]
        own = {"root": TEMPLATE, "bridge": NETWORK, "count": count, "addresses": addresses}
        document["guests"] |= own | guests
        (tmp_path / "described" / "pool.yaml").write_text(yaml.safe_dump(document))
        said = []
        environment = {} if password is None else {"CARICO_XEN_PASSWORD": password}
        maker = XenMaker(tmp_path / "described" / "pool.yaml", said.append, environment, connect, guest_port=pool.port)
        return SimpleNamespace(maker=maker, said=said, connect=connect, environment=environment)

    return make


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cluster" / "files"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def life(tmp_path):
    def new(made):
        registry = Registry(tmp_path / "clusters")
        return MadeCluster(made.maker, ClusterOptions("Run-1", say=made.said.append), registry, made.connect), registry

    return new


def left(pool):
    """What the pool has besides the template, with one disk, and sessions."""
    return [*pool.names, *list(pool.vdis)[1:], *list(pool.vbds)[1:], *pool.vifs, *pool.tasks]


def names(server):
    return {node["metadata"]["name"] for node in server.within("/api/v1/nodes")}


def test_guests_are_clones_of_the_template_with_the_described_size(made, pool, folder, server):
    one = made(3, cores=4, memory="8Gi", weight=512, cap=150)
    one.maker.create(NAME, folder, 60)
    assert pool.names == sorted(names(server)) == [f"{NAME}-{number}" for number in range(3)]
    assert pool.tasks == {}
    vm = next(vm for vm in pool.vms.values() if vm["name_label"] == FIRST)
    assert (vm["VCPUs_max"], vm["VCPUs_at_startup"], vm["memory_limits"]) == ("4", "4", [str(8 << 30)] * 4)
    assert vm["VCPUs_params"] == {"weight": "512", "cap": "150"}
    assert (vm["tags"], vm["is_a_template"]) == (["carico", NAME], False)
    assert vm["other_config"] == {"carico-template": "true", "carico-cluster": NAME}
    assert set(vm["xenstore_data"]) == {f"vm-data/carico/{key}" for key in ("name", "address", "gateway", "key")}
    one.maker.delete(NAME, folder)
    assert left(pool) == []
    one.maker.delete(NAME, folder)


def test_twenty_guests(made, pool, folder, server):
    one = made(20)
    one.maker.create(NAME, folder, 60)
    assert len(names(server)) == 20
    one.maker.delete(NAME, folder)
    assert left(pool) == []


def test_a_member_names_the_master(made, pool, servers, server, folder):
    member = FakePool(servers, server, pool.port, ("127.0.0.99", pool.own_port))
    try:
        member.master = pool.address
        one = made(url=member.url)
        one.maker.create(NAME, folder, 60)
        assert pool.names == [FIRST]
        assert set(member.called) == {"session.login_with_password"}
        one.maker.delete(NAME, folder)
        pool.master = member.address
        (problem,) = one.maker.preflight()
        assert "do not agree which of them is the master" in str(problem)
    finally:
        member.close()


def test_the_password_is_not_sent_in_clear_text_to_the_master(made, pool):
    pool.master = "10.0.0.9"
    (problem,) = made().maker.preflight()
    assert f"names its master http://10.0.0.9:{pool.own_port}: ask that one, by https://" in str(problem)


STEPS = [
    "VM.get_by_name_label",
    "VM.clone",
    "VM.set_other_config",
    "VM.set_is_a_template",
    "VM.set_tags",
    "VM.set_memory_limits",
    "VM.set_VCPUs_at_startup",
    "VM.set_VCPUs_max",
    "VM.set_VCPUs_params",
    "VM.set_xenstore_data",
    "VM.get_VIFs",
    "VIF.create",
    "VM.start",
    "VM.get_record",
    "VM_guest_metrics.get_other",
]


@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_at_any_step_leaves_nothing(made, pool, life, step):
    cluster, registry = life(made())
    pool.troubles.append(Trouble(step, "slow", then=interrupt))
    with pytest.raises(KeyboardInterrupt):
        cluster.open()
    assert left(pool) == registry.all() == []


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("how", ["long", "late"])
@pytest.mark.parametrize("method", ["VM.clone", "VM.start"])
def test_what_a_pool_still_does_after_ctrl_c_leaves_nothing(made, pool, life, method, how, cancels):
    cluster, registry = life(made())
    pool.cancels = cancels
    trouble = Trouble(method, how, then=interrupt)
    pool.troubles.append(trouble)
    end = threading.Timer(0.5, trouble.until.set)
    end.start()
    with pytest.raises(KeyboardInterrupt):
        cluster.open()
    end.join()
    threading.Event().wait(0.1)  # the pool finishes what it does
    assert left(pool) == registry.all() == []


def test_what_a_pool_does_for_longer_than_a_removal_waits_is_swept_by_the_next_run(made, pool, life, monkeypatch):
    monkeypatch.setattr(xenapi, "SETTLE_S", 0.1)
    one = made()
    cluster, registry = life(one)
    pool.cancels = False
    trouble = Trouble("VM.clone", "late")
    pool.troubles.append(trouble)
    with pytest.raises(ClusterError, match=f"has ended its tasks for guest {FIRST}; last seen: Async.VM.clone"):
        cluster.open()
    assert len(registry.all()) == 1
    trouble.until.set()
    maker = XenMaker(None, environment=one.environment, connect=one.connect)
    with registry.locked():
        said = list(sweep(registry, {"xen": maker}, kept=False))
    assert said == [f"cluster {NAME} is removed: its run was killed"]
    assert left(pool) == registry.all() == []


def test_a_pool_that_hangs_is_not_asked_again_and_again_after_ctrl_c(made, pool, life, monkeypatch):
    assert xenapi.CALL_S <= 30
    monkeypatch.setattr(xenapi, "CALL_S", 0.3)
    cluster, registry = life(made())

    def hang():
        pool.called.clear()
        pool.answers.clear()
        threading.Timer(0.1, interrupt).start()

    pool.troubles.append(Trouble("VM.set_tags", "slow", then=hang))
    with pytest.raises(KeyboardInterrupt) as interrupted:
        cluster.open()
    # The call that hangs, the undoing of the guest, a log-out, and the removal of the cluster.
    assert len(pool.called) <= 4
    assert "has not answered task.get_all_records within 0.3 s" in "".join(interrupted.value.__notes__)
    assert len(registry.all()) == 1


def test_all_sessions_log_out_at_the_same_time(made, pool, folder):
    all_at_once = threading.Barrier(4)  # a session for each guest, and one for what concerns none
    pool.troubles.append(Trouble("session.logout", "slow", times=4, then=lambda: all_at_once.wait(3)))
    made(3).maker.create(NAME, folder, 60)
    assert not all_at_once.broken
    assert pool.sessions == set()


def test_tasks_of_others_are_never_touched(made, pool, folder):
    pool.tasks["theirs"] = {"name_label": "Async.VM.clone", "status": "pending", "other_config": {}}
    pool.tasks["another"] = pool.tasks["theirs"] | {"other_config": {"carico-guest": f"{NAME}1-0"}}
    before = dict(pool.tasks)
    one = made()
    one.maker.create(NAME, folder, 60)
    one.maker.delete(NAME, folder)
    assert pool.tasks == before


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ("VM.get_by_name_label", "VM.get_VIFs")])
def test_what_a_pool_has_left_that_was_lost_is_swept_when_it_is_back(made, pool, life, step):
    one = made()
    cluster, registry = life(one)
    lost = [Trouble("session.login_with_password", "fail", times=0, code=("HOST_STILL_BOOTING",))]

    def lose():
        pool.sessions.clear()
        lost[0].times = 1000
        for guest in pool.guests.values():
            pool.servers.loop.call_soon_threadsafe(guest.end)

    pool.troubles += [*lost, Trouble(step, "lose", then=lose)]
    with pytest.raises(ClusterError, match="pool http://127"):
        cluster.open()
    assert len(registry.all()) == 1
    lost[0].times = 0
    maker = XenMaker(None, environment=one.environment, connect=one.connect)
    with registry.locked():
        said = list(sweep(registry, {"xen": maker}, kept=False))
    assert said == [f"cluster {NAME} is removed: its run was killed"]
    assert left(pool) == registry.all() == []


@pytest.mark.parametrize("method", ["VM.clone", "VIF.create", "VM.start"])
@pytest.mark.parametrize("how", ["lose", "fail"])
def test_a_failed_call_costs_one_guest_and_is_not_repeated(made, pool, folder, method, how):
    one = made()
    pool.troubles.append(Trouble(method, how, code=("SR_FULL", "no space")))
    one.maker.create(NAME, folder, 60)
    assert ["replaced" in said for said in one.said] == [True, False]
    assert pool.names == [FIRST]
    assert pool.called.count(method) == 2
    assert len(pool.vdis) == 2
    if how == "fail":
        assert f"{method} was refused: SR_FULL no space" in one.said[0]


def test_a_refusal_that_stays_ends_the_run_and_leaves_nothing(made, pool, folder):
    one = made()
    pool.troubles.append(Trouble("VM.start", "fail", times=2, code=("HOST_NOT_ENOUGH_FREE_MEMORY", "1", "2")))
    with pytest.raises(ClusterError, match=r"VM\.start was refused: HOST_NOT_ENOUGH_FREE_MEMORY 1 2"):
        one.maker.create(NAME, folder, 60)
    assert left(pool) == []


def test_a_call_that_does_no_harm_is_repeated(made, pool, folder):
    pool.troubles += [Trouble("VM.set_tags", "lose"), Trouble("VM_guest_metrics.get_other", "lose", times=2)]
    one = made()
    one.maker.create(NAME, folder, 60)
    assert [said for said in one.said if "replaced" in said] == []


def test_guests_of_others_are_never_touched(made, pool, folder):
    marked = {"carico-template": "true"}
    theirs = [
        pool.add_vm("web"),
        pool.add_vm(f"{NAME}-1"),
        pool.add_vm(f"{NAME}-2", other_config=marked | {"carico-cluster": "carico-xen-run-2"}),
        pool.add_vm(f"{NAME}1-0", other_config=marked | {"carico-cluster": f"{NAME}1"}),
    ]
    one = made()
    one.maker.create(NAME, folder, 60)
    ours = next(ref for ref, vm in pool.vms.items() if vm["name_label"] == FIRST)
    shared = next(vbd["VDI"] for vbd in pool.vbds.values() if vbd["VM"] == theirs[0])
    pool.attach(ours, shared)
    one.maker.delete(NAME, folder)
    assert set(pool.vms) == {pool.template, *theirs}
    assert len(pool.vdis) == 5
    assert shared in pool.vdis


def test_a_second_clone_of_a_guest_is_removed_with_it(made, pool, folder):
    one = made()
    one.maker.create(NAME, folder, 60)
    pool.add_vm(FIRST, other_config={"carico-template": "true"})
    one.maker.delete(NAME, folder)
    assert left(pool) == []


def test_a_name_that_somebody_has_stops_the_run(made, pool, folder):
    theirs = pool.add_vm(FIRST)
    with pytest.raises(ClusterError, match=f"has a guest {FIRST} already"):
        made().maker.create(NAME, folder, 60)
    assert theirs in pool.vms


def test_what_the_pool_lacks_is_said_before_anything_is_made(made, pool):
    assert made().maker.preflight() == []
    pool.vms[pool.template]["other_config"] = {}
    assert [str(problem)[:60] for problem in made(bridge="none").maker.preflight()] == [
        "the template 'carico-guest' is not marked as one for guests:",
        f"pool {pool.url} has 0 networks 'none' (guests: bridg"[:60],
    ]
    (problem,) = made(password="guessed").maker.preflight()
    assert "does not accept the password of user root" in str(problem)
    (problem,) = made(password=None).maker.preflight()
    assert "there is no password for the pool" in str(problem)
    assert pool.names == []


def test_memory_that_does_not_suffice_is_a_problem(made, pool):
    pool.hosts["OpaqueRef:host"]["free"] = (5 << 30) - 1
    pool.hosts |= {"second": {"enabled": True, "free": 3 << 30}, "third": {"enabled": False, "free": 64 << 30}}
    assert made(3, memory="2Gi").maker.preflight() == []
    (problem,) = made(4, memory="2Gi").maker.preflight()
    assert str(problem) == (
        f"pool {pool.url} has 8191 MiB of memory free on enabled hosts, where 3 guests of 2Gi fit; 4 guests need "
        "8192 MiB: describe fewer or smaller ones, or stop others"
    )


@pytest.mark.parametrize(("kind", "needed"), [("ext", 512), ("lvmoiscsi", 16384)])
def test_space_that_does_not_suffice_is_a_problem(made, pool, kind, needed):
    size = (needed << 20) + (1 << 30)
    pool.storage |= {"type": kind, "physical_size": size, "physical_utilisation": 1 << 30}
    one = made(2)
    assert one.maker.preflight() == []
    pool.storage["physical_utilisation"] += 1
    (problem,) = one.maker.preflight()
    assert str(problem) == (
        f"pool {pool.url} has {needed - 1} MiB free in the storage 'local' of the template's disk, 2 guests need "
        f"{needed} MiB: make room, or copy the template to another storage"
    )
    pool.storage["physical_size"] = -1
    assert one.maker.preflight() == []


def test_what_guests_take_that_were_made_before_is_there_for_the_next(made, pool, folder):
    one = made(memory="1Gi")
    one.maker.create(NAME, folder, 60)
    pool.add_vm("web", resident_on="OpaqueRef:host")
    pool.hosts["OpaqueRef:host"]["free"] = 0
    pool.storage |= {"physical_size": 300 << 20, "physical_utilisation": 300 << 20}
    pool.disk["physical_utilisation"] = 256 << 20
    assert one.maker.preflight() == []
    assert ["fit; 2 guests need 2048 MiB" in str(problem) for problem in made(2).maker.preflight()] == [True, False]
    one.maker.delete(NAME, folder)


@pytest.mark.parametrize(
    "body", [b"<html><p>Log in</html>", b"", xmlrpc.client.dumps((4,), methodresponse=True).encode()]
)
def test_what_is_no_pool_is_a_problem(made, body):
    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        threading.Thread(target=page.serve_forever, args=(0.02,), daemon=True).start()
        problems = made(url=f"http://127.0.0.1:{page.server_address[1]}").maker.preflight()
        page.shutdown()
    (problem,) = problems
    assert "does not answer VM.get_all_records as a pool does" in str(problem)
    assert "name the pool's own address (host: url)" in str(problem)


def test_a_password_that_is_no_text_is_a_problem_and_not_shown(made, tmp_path):
    file = tmp_path / "password"
    file.write_bytes(b"secret\xff")
    one = made()
    host = msgspec.structs.replace(one.maker.description.host, password=str(file))
    one.maker._description = msgspec.structs.replace(one.maker.description, host=host)
    (problem,) = one.maker.preflight()
    assert str(problem).endswith("password is no text in UTF-8")


def test_the_password_is_nowhere(made, pool, folder, caplog):
    caplog.set_level("DEBUG")
    one = made()
    pool.started = lambda guest: guest.faults.append(Fault(("kubeadm",), "fail"))
    with pytest.raises(ClusterError) as failed:
        one.maker.create(NAME, folder, 60)
    files = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert PASSWORD not in str(failed.value) + str(one.said) + caplog.text + files + str(one.maker.fingerprint())
    assert PASSWORD not in repr(xenapi.PoolLogin("u", "root", PASSWORD))
