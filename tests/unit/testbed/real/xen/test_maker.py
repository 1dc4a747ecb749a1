"""Clusters of Xen guests, made through real SSH servers: what is made, what is replaced, and that nothing is left."""

import base64
import os
import random
import re
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import asyncssh
import msgspec
import pytest
import yaml

from carico.errors import KubeUnreachable
from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError, WaitTimedOut
from testbed.real.lifecycle import MadeCluster, connected, sweep
from testbed.real.registry import Registry
from testbed.real.xen.maker import XenMaker
from testbed.real.xen.provisioner import Guest
from tests.kits.fake_dom0 import ADMIN, JOIN, TOKEN, TOKEN_SECRET
from tests.kits.fake_machine import FakeMachine, Fault

NAME = "carico-xen-run-1"
FIRST, SECOND = f"{NAME}-0", f"{NAME}-1"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cluster" / "files"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def given(tmp_path, server):
    """A control plane of the user's own, as a field of a description."""
    server.put(TOKEN_SECRET, data={})
    (tmp_path / "kubeconfig").write_text(ADMIN)
    (tmp_path / "join").write_text(JOIN)
    return {"kubeconfig": str(tmp_path / "kubeconfig"), "join": str(tmp_path / "join")}


@pytest.fixture
def life(tmp_path, connect):
    """A function that returns a life cycle of a maker's cluster, and its registry."""

    def new(made, **options):
        registry = Registry(tmp_path / "clusters")
        wanted = ClusterOptions("Run-1", say=made.said.append, **options)
        return MadeCluster(made.maker, wanted, registry, connect), registry

    return new


def names(server):
    return {node["metadata"]["name"] for node in server.within("/api/v1/nodes")}


def test_the_first_guest_becomes_the_control_plane_and_the_others_join(made, dom0, folder, server):
    one = made(3)
    one.maker.create(NAME, folder, 60)
    assert {guest.name for guest in dom0.guests} == names(server) == {f"{NAME}-{number}" for number in range(3)}
    assert one.maker.workers(NAME) == [f"{NAME}-1", f"{NAME}-2"]
    kubeconfig = one.maker.kubeconfig(NAME, folder)
    assert (kubeconfig.read_text(), kubeconfig.stat().st_mode & 0o777) == (ADMIN, 0o600)
    assert one.said[0] == f"guest {FIRST} is ready: 1 of 3"
    assert one.said[-1].endswith("is ready: 3 of 3")
    one.maker.delete(NAME, folder)
    assert dom0.left == []
    one.maker.delete(NAME, folder)


def test_guests_join_a_control_plane_that_is_there_and_leave_it(made, dom0, folder, server, given):
    one = made(1, control_plane=given)
    server.put("/api/v1/nodes/others", metadata={"name": "others"}, status={})
    one.maker.create(NAME, folder, 60)
    assert one.maker.workers(NAME) == [FIRST]
    assert names(server) == {"others", FIRST}
    one.maker.delete(NAME, folder)
    assert names(server) == {"others"}
    assert dom0.left == []


def test_a_kubeconfig_is_copied_with_the_paths_that_it_means(made, folder, tmp_path, given):
    user = {"client-key": "admin.key", "client-certificate": "/etc/admin.crt", "token": "t"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"users": [{"name": "u", "user": user}]}))
    one = made(1, control_plane=given)
    one.maker.create(NAME, folder, 60)
    copied = yaml.safe_load(one.maker.kubeconfig(NAME, folder).read_text())
    assert copied["users"][0]["user"] == user | {"client-key": str(tmp_path / "admin.key")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has not the form of a kubeconfig: Expected `object`, got `null`"),
        ("secret", "it has not the form of a kubeconfig: Expected `object`, got `str`"),
        ("users: [{user: secret}]", "kubeconfig: Expected `object | null`, got `str` - at `$.users[0].user`"),
        ("clusters: {}\nusers: {token: 'secret", "it is no YAML from line 2 on"),
    ],
)
def test_a_kubeconfig_that_has_become_invalid_ends_the_run_with_its_name(made, dom0, folder, given, text, problem):
    one = made(1, control_plane=given)
    Path(given["kubeconfig"]).write_text(text)
    with pytest.raises(ClusterError) as failed:
        one.maker.create(NAME, folder, 60)
    assert f"the kubeconfig {given['kubeconfig']} (control_plane) cannot be used: " in str(failed.value)
    assert str(failed.value).endswith(problem)
    assert "secret" not in str(failed.value)
    assert dom0.left == []


def test_nodes_that_a_silent_control_plane_still_has_are_swept_when_it_answers(made, dom0, life, server, given):
    one = made(1, control_plane=given)
    cluster, registry = life(one)
    cluster.open()
    answers = one.maker._connect

    def silent(kubeconfig):
        raise KubeUnreachable("no answer")

    one.maker._connect = silent
    with pytest.raises(ClusterError, match=rf"still has something of {NAME}: no answer; if that is gone for good"):
        cluster.close()
    assert (dom0.left, len(registry.all())) == ([], 1)
    one.maker._connect = answers
    with registry.locked():
        assert list(sweep(registry, {"xen": one.maker}, kept=False)) == [
            f"cluster {NAME} is removed: its run was killed"
        ]
    assert names(server) == set()


def test_the_thesis_has_twenty_guests(made, dom0, folder, server):
    one = made(20, guests={"preset": "thesis"})
    one.maker.create(NAME, folder, 60)
    assert len(names(server)) == 20
    config = next(given for asked, given in zip(dom0.asked, dom0.given, strict=True) if "guest.cfg" in asked[-2])
    assert "vcpus = 4\n" in config
    assert "memory = 8192\n" in config
    one.maker.delete(NAME, folder)
    assert dom0.left == []


def test_a_root_disk_that_is_a_file_is_shared_and_stays(made, dom0, folder):
    one = made(2, guests={"root": "/images/root.img"})
    one.maker.create(NAME, folder, 60)
    assert sorted(dom0.loops.values()) == [
        f"/var/lib/carico/{NAME}/{name}/{file}" for name in (FIRST, SECOND) for file in ("disk", "root")
    ]
    one.maker.delete(NAME, folder)
    assert dom0.left == []
    assert "/images/root.img" in dom0.files


def test_a_guest_that_fails_is_replaced_once(made, dom0, folder, server):
    one = made(2)
    dom0.faults += [Fault(("xl", "create"), "fail", message="no memory")]
    fault = Fault(("kubeadm", "join"), "fail")
    dom0.started = lambda guest: guest.faults.append(fault)
    one.maker.create(NAME, folder, 60)
    assert names(server) == {FIRST, SECOND}
    replaced = [said for said in one.said if "replaced" in said]
    assert len(replaced) == 2
    assert f"xl create /var/lib/carico/{NAME}/" in replaced[0]
    assert "ended with 1: flock: no memory" in replaced[0]
    assert len(dom0.domains) == 3


def test_containerd_that_needs_another_attempt_costs_no_guest(made, dom0, folder, given):
    one = made(1, control_plane=given)
    dom0.started = lambda guest: guest.faults.append(Fault(("systemctl",), "fail", times=2))
    one.maker.create(NAME, folder, 60)
    assert one.said == [f"guest {FIRST} is ready: 1 of 1"]


def test_a_guest_that_fails_twice_ends_the_run_and_its_consoles_are_kept(made, dom0, life, tmp_path):
    one = made(2)
    dom0.files[f"/var/log/xen/console/guest-{SECOND}.log"] = "kernel panic\n"
    dom0.started = lambda guest: guest.faults.append(Fault(("kubeadm", "join"), "fail", message="x509"))
    cluster, registry = life(one, diagnostics=tmp_path / "diagnostics")
    with pytest.raises(ClusterError, match=r"guest \S+-1 .*kubeadm join --config ended with 1: .*x509"):
        cluster.open()
    logs = tmp_path / "diagnostics" / NAME / "logs"
    assert {file.name for file in logs.iterdir()} >= {
        f"{SECOND}-first.log",
        f"{SECOND}-last.log",
        f"{FIRST}-journal.log",
    }
    assert (logs / f"{SECOND}-first.log").read_text() == "kernel panic\n"
    assert dom0.left == registry.all() == []


STEPS = [
    ("mkdir",),
    ("truncate",),
    ("losetup", "--find"),
    ("blockdev",),
    ("dmsetup", "create"),
    ("dd",),
    ("xl", "create"),
    ("xenstore-write",),
    ("xenstore-read",),
    ("guest", "true"),
    ("guest", "systemctl"),
    ("guest", "install"),
    ("guest", "dd"),
    ("guest", "kubeadm", "join"),
    ("guest", "rm"),
]
"""The commands that make a guest."""
LOOKS = ("xl vm-list", "dmsetup info", "losetup --list", "ls -A")


def at_step(dom0, step, how, then=lambda: None):
    """Let a step go wrong: in dom0, or in the first guest."""
    if step[0] == "guest":
        fault = Fault(step[1:], how, then=then)
        dom0.started = lambda guest: guest.faults.append(fault)
    else:
        dom0.faults.append(Fault(step, how, then=then))


def test_the_steps_are_all_that_is_done(made, dom0, folder, given):
    made(1, control_plane=given).maker.create(NAME, folder, 60)
    done = [command[8:] if command[0] == "flock" else command for command in dom0.asked]
    done += [("guest", *command) for guest in dom0.guests for command in guest.asked]
    steps = {next((step for step in STEPS if command[: len(step)] == step), command[:2]) for command in done}
    assert steps - {tuple(look.split()) for look in LOOKS} == set(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_ctrl_c_at_any_step_leaves_nothing(made, dom0, life, given, server, step):
    one = made(1, control_plane=given)
    cluster, registry = life(one)
    at_step(dom0, step, "slow", lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        cluster.open()
    assert dom0.left == registry.all() == []
    assert names(server) == set()


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_what_a_lost_host_has_left_is_swept_when_it_is_back(made, dom0, life, given, step):
    one = made(1, control_plane=given)
    cluster, registry = life(one)

    def lose_everything():
        for machine in (dom0, *dom0.guests):
            machine.is_dead = True
            machine.lose()

    at_step(dom0, step, "lose", lose_everything)
    with pytest.raises(ClusterError) as failed:
        cluster.open()
    assert "remove the folder" in failed.value.__notes__[-1]
    assert len(registry.all()) == 1
    dom0.is_dead = False
    with registry.locked():
        # Without a description: what is needed lies in the cluster's folder.
        said = list(sweep(registry, {"xen": XenMaker(None, environment={}, connect=one.connect)}, kept=False))
    assert said == [f"cluster {NAME} is removed: its run was killed"]
    assert dom0.left == registry.all() == []


@pytest.mark.parametrize("how", ["lose", "drop"])
@pytest.mark.parametrize("step", [("losetup", "--find"), ("xl", "create"), ("guest", "kubeadm", "join")], ids=" ".join)
def test_a_lost_connection_costs_one_guest(made, dom0, folder, given, server, step, how):
    one = made(1, control_plane=given)
    at_step(dom0, step, how)
    one.maker.create(NAME, folder, 60)
    assert names(server) == {FIRST}
    assert ["replaced" in said for said in one.said] == [True, False]
    assert len(dom0.domains) == 2


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_host_that_allows_few_commands_at_once_gets_few(made, dom0, folder, at_once):
    one = made(4)
    dom0.at_once = at_once
    assert one.maker.preflight() == []
    one.maker.create(NAME, folder, 60)
    assert not [said for said in one.said if "replaced" in said]
    one.maker.delete(NAME, folder)
    assert dom0.left == []


def test_a_connection_that_is_lost_for_the_join_command_costs_nothing(made, dom0, folder):
    one = made(2)
    dom0.started = lambda guest: guest.faults.append(Fault(("kubeadm", "token"), "lose"))
    one.maker.create(NAME, folder, 60)
    assert not [said for said in one.said if "replaced" in said]


def test_a_guest_that_ends_at_once_is_replaced_once_and_then_ends_the_run(made, dom0, folder, given):
    one = made(1, control_plane=given)
    dom0.short_lived.append(FIRST)
    with pytest.raises(ClusterError, match=f"guest {FIRST} has ended as soon as it was made"):
        one.maker.create(NAME, folder, 60)
    assert len(dom0.guests) == 2
    one.maker.delete(NAME, folder)
    assert dom0.left == []


def test_a_guest_that_is_half_made_is_undone(made, dom0, folder, given):
    one = made(1, control_plane=given)
    uuid = Guest(NAME, 0, "").uuid
    # xl has been killed before it has given the domain a name.
    half = Fault(("xl", "create"), "fail", times=2, then=lambda: dom0.add_domain(uuid, ""))
    dom0.faults.append(half)
    with pytest.raises(ClusterError, match="xl create"):
        one.maker.create(NAME, folder, 60)
    assert dom0.left == [f"folder /var/lib/carico/{NAME}"]
    one.maker.delete(NAME, folder)
    assert dom0.left == []


def test_guests_of_others_are_never_touched(made, dom0, folder, given):
    one = made(1, control_plane=given)
    label = {"vm-data/carico/cluster": NAME}
    theirs = [
        dom0.add_domain(str(uuid4()), "web"),
        dom0.add_domain(str(uuid4()), f"{NAME}-1"),  # a name like ours, but not our id
        dom0.add_domain(str(uuid4()), f"{NAME}-7", **label),
        dom0.add_domain(Guest(NAME, 8, "").uuid, "renamed"),
        dom0.add_domain(Guest(f"{NAME}1", 0, "").uuid, f"{NAME}1-0"),  # of another run
        dom0.add_domain(Guest(NAME, 9, "").uuid, f"{NAME}-9", **{"vm-data/carico/cluster": "carico-xen-run-2"}),
    ]
    dom0.mapped[f"{NAME}-1"] = ("LVM-abc", "")
    dom0.mapped["vg-root"] = ("LVM-def", "")
    dom0.loops["/dev/loop90"] = "/home/somebody/disk"
    dom0.files["/var/lib/carico/carico-xen-run-2/carico-xen-run-2-0/disk"] = ""
    dom0.files[f"/var/lib/carico/{NAME}/notes"] = ""
    one.maker.create(NAME, folder, 60)
    with pytest.raises(
        ClusterError, match=f"guests are left: {NAME}-9"
    ):  # it has our name and our id: somebody must look
        one.maker.delete(NAME, folder)
    assert [domain for domain in dom0.domains.values() if domain.number] == theirs
    assert set(dom0.mapped) == {f"{NAME}-1", "vg-root"}
    assert set(dom0.loops) == {"/dev/loop90"}
    assert {file for file in dom0.files if "/carico/" in file} == {
        "/var/lib/carico/carico-xen-run-2/carico-xen-run-2-0/disk",
        f"/var/lib/carico/{NAME}/notes",
    }


def test_a_guest_of_somebody_else_with_the_name_stops_the_run(made, dom0, folder, given):
    one = made(1, control_plane=given)
    theirs = dom0.add_domain(str(uuid4()), FIRST)
    with pytest.raises(ClusterError, match=f"has a guest {FIRST} already, and not from this run"):
        one.maker.create(NAME, folder, 60)
    one.maker.delete(NAME, folder)
    assert theirs in dom0.domains.values()


def test_a_full_disk_is_reported_and_leaves_nothing(made, dom0, folder, given):
    one = made(1, control_plane=given)
    dom0.faults.append(Fault(("dd",), "fail", times=2, message="No space left on device"))
    with pytest.raises(ClusterError, match=r"dom0 127.0.0.1: .*No space left on device"):
        one.maker.create(NAME, folder, 60)
    one.maker.delete(NAME, folder)
    assert dom0.left == []
    dom0.free_mib = 100
    assert [str(problem) for problem in one.maker.preflight()] == [
        "dom0 127.0.0.1 has 100 MiB of memory free, 1 guests of 1Gi need 1024 MiB: describe fewer or smaller ones, or "
        "stop others",
        "dom0 127.0.0.1 has 100 MiB free in /var/lib/carico, 1 guests need 256 MiB: make room, or name another folder "
        "(host: folder)",
    ]


def test_memory_of_guests_that_were_made_before_is_there_for_the_next(made, dom0, folder):
    one = made(2)
    dom0.free_mib = 3000
    one.maker.create(NAME, folder, 60)
    assert one.maker.preflight() == []
    dom0.add_domain(str(uuid4()), f"{NAME}-7").memory = 1000
    dom0.add_domain(str(uuid4()), "of somebody else").memory = 500
    (problem,) = one.maker.preflight()
    assert "has 1500 MiB of memory free, 2 guests of 1Gi need 2048 MiB" in str(problem)


def test_a_guest_that_says_nothing_is_waited_for_no_longer_than_allowed(made, dom0, folder, given):
    one = made(1, control_plane=given)
    dom0.silent.append(FIRST)
    one.maker._description = msgspec.structs.replace(one.maker.description, limit_s=1.0)
    with pytest.raises(
        WaitTimedOut, match=rf"within 1 s, 0 of 1 guests were ready; {FIRST} waits for its system, which"
    ):
        one.maker.create(NAME, folder, 60)
    one.maker.delete(NAME, folder)
    assert dom0.left == []


def test_a_control_plane_that_falls_silent_is_named_when_the_time_is_over(made, dom0, folder, given):
    one = made(1, control_plane=given)
    one.maker._description = msgspec.structs.replace(one.maker.description, limit_s=2.0)

    def nodes():
        raise KubeUnreachable("no answer")

    one.maker._connect = lambda kubeconfig: SimpleNamespace(nodes=nodes, close=lambda: None)
    with pytest.raises(WaitTimedOut, match=rf"{FIRST} waits for an answer of the API server \(no answer\): see the"):
        one.maker.create(NAME, folder, 60)


def test_a_host_with_another_key_is_not_trusted(made, dom0, tmp_path):
    one = made(1, guests={"count": 2, "addresses": ["127.0.0.2", "127.0.0.3"]})
    stranger = dom0.public_host_key.replace("AAAAI", "AAAAI")[:-8] + "AAAAAAAA"
    (tmp_path / "described" / "known_hosts").write_text(f"[127.0.0.1]:{dom0.port} {stranger}\n")
    (problem,) = one.maker.preflight()
    assert "dom0 127.0.0.1 shows a host key that is not the expected one: the file" in str(problem)
    assert dom0.asked == []


def test_a_host_without_a_key_of_the_known_type_is_not_asked_again(made, dom0, tmp_path):
    one = made(2)
    known = asyncssh.generate_private_key("ssh-rsa", key_size=2048).export_public_key().decode()
    (tmp_path / "described" / "known_hosts").write_text(f"[127.0.0.1]:{dom0.port} {known}")
    (problem,) = one.maker.preflight()
    assert "dom0 127.0.0.1 and this machine do not agree on keys and ciphers: " in str(problem)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        (b"garbage\n", "cannot be used .*entry: garbage"),
        (b"\xff", "cannot be used .*decode"),
    ],
)
def test_a_file_of_known_hosts_that_cannot_be_read_is_a_problem(made, tmp_path, content, said):
    one = made(2)
    file = tmp_path / "described" / "known_hosts"
    file.unlink() if content is None else file.write_bytes(content)
    (problem,) = one.maker.preflight()
    assert re.search(rf"{said}.*: put dom0's host key there, as ssh-keyscan prints it", str(problem))


def test_a_guest_whose_address_another_machine_has_is_not_trusted(made, dom0, folder, given):
    one = made(1, control_plane=given)

    def replace_key(guest):
        told = guest.public_host_key[:-8] + "AAAAAAAA"
        dom0.domains[Guest(NAME, 0, "").uuid].store["data/carico/host-key"] = told

    dom0.started = replace_key
    dom0.silent.append(FIRST)
    with pytest.raises(ClusterError, match="host key that is not the expected one: another machine has its address"):
        one.maker.create(NAME, folder, 60)
    assert not any(guest.asked for guest in dom0.guests)


def test_a_guest_does_not_get_an_address_that_another_machine_has(made, dom0, servers, key, folder, given):
    one = made(1, control_plane=given)
    other = FakeMachine(key.export_public_key().decode())
    servers.run(other.listen("127.0.0.2", dom0.port))
    with pytest.raises(ClusterError, match=rf"guest {FIRST} cannot have the address 127\.0\.0\.2, a machine answers"):
        one.maker.create(NAME, folder, 60)
    servers.loop.call_soon_threadsafe(other.end)
    assert dom0.left == []


def test_a_key_that_is_not_let_in_and_a_host_that_is_not_there_are_problems(made, dom0, tmp_path):
    one = made(2)
    from tests.kits.fake_dom0 import new_key

    (tmp_path / "described" / "key").write_text(new_key().export_private_key().decode())
    (problem,) = one.maker.preflight()
    assert "lets user root not in" in str(problem)
    dom0.is_dead = True
    (problem,) = one.maker.preflight()
    assert "does not answer" in str(problem)


def test_the_key_may_be_in_the_environment(described, dom0, connect, key):
    file = described(2)
    file.write_text(file.read_text().replace("  key: key\n", ""))
    maker = XenMaker(file, environment={"CARICO_XEN_KEY": key.export_private_key().decode()}, connect=connect)
    assert maker.preflight() == []
    (problem,) = XenMaker(file, environment={"CARICO_XEN_KEY": "no key"}, connect=connect).preflight()
    assert "the private key for dom0 (CARICO_XEN_KEY) cannot be used" in str(problem)
    assert "no key" not in str(problem)


def test_what_is_lacking_on_the_host_is_said_before_anything_is_made(made, dom0):
    one = made(2)
    del dom0.files["/boot/initrd"]
    dom0.programs.remove("dmsetup")
    assert [str(problem) for problem in one.maker.preflight()] == [
        "dom0 127.0.0.1 lacks dmsetup, /boot/initrd: install the programs, and copy the files there"
    ]


def test_a_host_where_guests_would_have_no_network_or_disk_is_refused(made, dom0):
    one = made(1, guests={"count": 2, "addresses": ["127.0.0.2", "127.0.0.3"], "root": "/images/root.img"})
    del dom0.files["/sys/class/net/xenbr0"]
    dom0.systems["/images/root.img"] = 2
    assert [str(problem) for problem in one.maker.preflight()] == [
        "dom0 127.0.0.1 has no bridge xenbr0: make it, or name another one (guests: bridge)",
        "the root disk /images/root.img is not in the file system of the folder for guests /var/lib/carico: copy it "
        "there, or name a folder beside it (host: folder)",
    ]


def test_a_folder_that_is_a_link_is_refused_because_loop_devices_tell_its_real_name(made, dom0):
    dom0.links["/var/lib/carico"] = "/data/carico"
    (problem,) = made(2).maker.preflight()
    assert "the folder for guests /var/lib/carico is /data/carico in truth: name that one" in str(problem)


def test_a_control_plane_that_guests_cannot_join_is_a_problem(made, given, tmp_path):
    one = made(1, control_plane=given)
    assert one.maker.preflight() == []
    one.maker._connect = connected
    cluster = {"server": "https://127.0.0.1:9"}
    user = {"token": "the-administrators-token"}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    (tmp_path / "join").write_text("kubeadm join --token the-token\n")
    problems = [str(problem) for problem in one.maker.preflight()]
    assert problems[0].startswith(f"{tmp_path / 'join'} has no command kubeadm join with an endpoint, a token and")
    assert problems[1].startswith(f"the control plane of {tmp_path / 'kubeconfig'} cannot be used (control_plane): ")
    assert "the-" not in "".join(problems)
    (tmp_path / "join").write_bytes(b"\xff")
    assert str(one.maker.preflight()[0]) == f"{tmp_path / 'join'} is no text in UTF-8"
    (tmp_path / "join").unlink()
    (problem,) = one.maker.preflight()
    assert str(problem) == f"there is no file {tmp_path / 'join'}, which the description names (control_plane)"


def test_a_crash_while_the_description_is_kept_leaves_nothing_that_cannot_be_removed(made, folder, monkeypatch):
    one = made(2)

    def killed(self, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            one.maker.create(NAME, folder, 60)
    one.maker.delete(NAME, folder)
    (folder / "description.json").write_text("{")
    with pytest.raises(ClusterError, match=rf"cannot be read.*remove the folder {folder.parent}"):
        one.maker.delete(NAME, folder)


@pytest.mark.parametrize(("hours", "accepted"), [(1, True), (-1, False), (None, False)])
def test_a_token_that_has_expired_is_a_problem(made, given, server, hours, accepted):
    if hours is None:
        del server.objects[TOKEN_SECRET]
    else:
        expires = (datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="seconds").replace("+00:00", "Z")
        server.put(TOKEN_SECRET, data={"expiration": base64.b64encode(expires.encode()).decode()})
    said = [str(problem) for problem in made(1, control_plane=given).maker.preflight()]
    wanted = f"the control plane does not know the token of {given['join']} any more: kubeadm token create"
    assert [text.startswith(wanted) for text in said] == ([] if accepted else [True])
    assert TOKEN not in "".join(said)


def test_no_secret_is_in_arguments_messages_or_the_records_of_a_run(made, dom0, folder, key, caplog):
    caplog.set_level("DEBUG")
    one = made(2)
    dom0.started = lambda guest: guest.faults.append(
        Fault(("kubeadm", "join"), "fail", message=f"token {TOKEN[:3]}...")
    )
    with pytest.raises(ClusterError) as failed:
        one.maker.create(NAME, folder, 60)
    guest_key = (folder / "guest-key").read_text()
    secrets = [
        TOKEN,
        "the-administrators-key",
        *(text.splitlines()[2] for text in (guest_key, key.export_private_key().decode())),
    ]
    machines = [dom0, *dom0.guests]
    public = [
        *(" ".join(command) for machine in machines for command in machine.asked),
        *one.said,
        str(failed.value),
        caplog.text,
        (folder / "description.json").read_text(),
        str(one.maker.fingerprint()),
    ]
    assert not [secret for secret in secrets for text in public if secret in text]
    assert any(TOKEN in given for machine in machines for given in machine.given)
    assert [file.stat().st_mode & 0o777 for file in (folder / "guest-key", folder / "kubeconfig")] == [0o600] * 2
    for guest in dom0.guests:
        assert ("install", "-D", "-m", "0600", "/dev/null", "/run/carico/kubeadm.yaml") in guest.asked


def test_a_kept_cluster_is_used_again_unless_its_description_has_changed(made, described, life, dom0, given, server):
    one = made(1, control_plane=given)
    first, registry = life(one, keep_cluster=True)
    first.open()
    first.close()
    assert len(dom0.domains) == 2
    again, _ = life(one, keep_cluster=True)
    again.open()
    again.close()
    assert len(dom0.guests) == 1
    server.objects.pop("/api/v1/namespaces/carico-testbed/configmaps/fingerprint", None)
    other, _ = life(one, recreate_cluster=True)
    other.open()
    other.close()
    assert len(dom0.guests) == 2
    assert dom0.left == registry.all() == []


def test_a_command_is_run_on_every_node(made, dom0, folder):
    one = made(2)
    one.maker.create(NAME, folder, 60)
    cluster = SimpleNamespace(name=NAME, folder=folder)
    one.maker.run_on_nodes(cluster, "rm", "-f", "/var/lib/carico/state.json")
    assert [guest.asked[-1] for guest in dom0.guests] == [("rm", "-f", "/var/lib/carico/state.json")] * 2
    dom0.guests[1].faults.append(Fault(("rm",), "fail"))
    with pytest.raises(ClusterError, match=f"guest {SECOND} .*rm -f /var/lib/carico/state.json ended with 1"):
        one.maker.run_on_nodes(cluster, "rm", "-f", "/var/lib/carico/state.json")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fails_nothing_is_left_that_the_next_start_does_not_sweep(made, dom0, life, given, server, seed):
    rng = random.Random(seed)
    dom0.started = lambda guest: setattr(guest, "chaos", chaos)

    def chaos():
        return rng.choice(["fail", "drop", "lose", "slow"]) if rng.random() < 0.02 else None

    dom0.chaos = chaos
    one = made(6, guests={"root": "/images/root.img"}, **({"control_plane": given} if seed % 2 else {}))
    cluster, registry = life(one)
    with suppress(ClusterError):
        cluster.open()
    with suppress(ClusterError):
        cluster.close()
    for machine in (dom0, *dom0.guests):
        machine.chaos = lambda: None
    with registry.locked():
        list(sweep(registry, {"xen": XenMaker(None, environment={}, connect=one.connect)}, kept=False))
    assert dom0.left == registry.all() == []
    assert seed % 2 == 0 or names(server) == set()
