"""The lab's pure parts: command lines, documents, and what is swept of a lab that was killed."""

import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest
import yaml

from testbed.errors import ClusterError, Unprepared
from testbed.real.xen.description import read_description
from tests.kits.xen_lab import control_plane, lab, network, processes
from tests.kits.xen_lab.lab import Lab
from tests.kits.xen_lab.qemu import qemu_command

FOLDER = Path("/cache/xen-lab")


class FakeProcess:
    def __init__(self, *command):
        self.command = command

    def cmdline(self):
        if not self.command:
            raise psutil.NoSuchProcess(1)
        return list(self.command)


def machine(guest_type="pv"):
    settings, console = Path("/lab/settings.img"), Path("/lab/log")
    return qemu_command(Path("/host"), Path("/guest/root.img"), settings, "tap7", console, guest_type)


def test_the_machine_boots_into_the_hypervisor_with_three_disks():
    command = machine()
    assert command[command.index("-kernel") + 1] == "/host/xen"
    kernel, initrd = command[command.index("-initrd") + 1].split(",")
    assert kernel.startswith("/host/vmlinux root=/dev/vda ")
    assert initrd == "/host/initrd"
    drives = [command[at + 1] for at, word in enumerate(command) if word == "-drive"]
    assert [drive.partition(",")[0] for drive in drives] == [
        "file=/host/disk",
        "file=/guest/root.img",
        "file=/lab/settings.img",
    ]
    assert "snapshot=on" in drives[0]
    assert all(drive.endswith("readonly=on") for drive in drives[1:])
    assert "tap,id=net,ifname=tap7,script=no,downscript=no" in command


def test_guests_with_virtual_hardware_run_on_an_emulated_cpu_without_nested_page_tables():
    command = machine("pvh")
    features = command[command.index("-cpu") + 1].split(",")
    assert "+svm" in features
    assert "-npt" in features


def test_only_the_labs_own_programs_are_its_processes():
    ours = [
        FakeProcess("/usr/bin/qemu-system-x86_64", "-serial", f"file:{FOLDER}/console.log"),
        FakeProcess("/kept/etcd", f"--data-dir={FOLDER}/control-plane/etcd"),
    ]
    others = [
        FakeProcess("tail", "-f", f"{FOLDER}/console.log"),
        FakeProcess("/usr/bin/qemu-system-x86_64", "-serial", "file:/elsewhere/console.log"),
        FakeProcess("etcd", "--data-dir=/cache/xen-lab-of-another/etcd"),
        FakeProcess(),
    ]
    assert processes.of_lab(FOLDER, [*others, *ours]) == ours


def test_processes_are_ended_even_if_they_do_not_want_to(monkeypatch):
    monkeypatch.setattr(processes, "_END_S", 0.2)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with psutil.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE) as started:
        started.stdout.readline()
        processes.end([started])
        assert started.wait(10) == -9


def test_a_program_that_has_ended_is_reported_with_the_end_of_its_log(tmp_path):
    log = tmp_path / "etcd.log"
    process = processes.start(["sh", "-c", "echo no disk; exit 3"], log)
    process.wait(10)
    with pytest.raises(ClusterError, match=r"etcd has ended; the end of .*etcd.log:\nno disk"):
        processes.require_running(process, log)


def test_the_tap_device_says_whose_it_is(tmp_path):
    assert network.owner(tmp_path) is None
    (tmp_path / network.TAP).mkdir()
    (tmp_path / network.TAP / "ifalias").write_text("/cache/xen-lab\n")
    assert network.owner(tmp_path) == FOLDER


def test_a_lab_beside_another_is_refused_but_what_a_killed_one_left_is_swept(tmp_path, monkeypatch):
    running = [FakeProcess("etcd")]
    monkeypatch.setattr(Lab, "missing", lambda self: [])
    monkeypatch.setattr(network, "owner", lambda: FOLDER)
    monkeypatch.setattr(processes, "of_lab", lambda folder: running if folder == FOLDER else [])
    ours = Lab(tmp_path / "lab", tmp_path)
    with pytest.raises(Unprepared, match="another lab is up in /cache/xen-lab: scripts/xen-lab down --folder /cache/"):
        ours.up(print, "pv")

    done = []
    running.clear()
    ours.folder.mkdir()
    (ours.folder / "left").touch()
    monkeypatch.setattr(Lab, "build", lambda self, on_progress: (Path("/guest"), Path("/host")))
    monkeypatch.setattr(Lab, "_start", lambda *_: done.append(ours.folder.exists()))
    ours.up(print, "pv")
    assert done == [False]


def test_a_lab_that_is_up_is_left_as_it_is(tmp_path, monkeypatch):
    ours = Lab(tmp_path / "lab", tmp_path)
    ours.folder.mkdir()
    facts = ours._facts(Path("/kept/guest-1"), "pv")
    (ours.folder / "lab.json").write_bytes(msgspec.json.encode(facts))
    monkeypatch.setattr(Lab, "missing", lambda self: [])
    monkeypatch.setattr(Lab, "build", lambda self, on_progress: (Path("/guest"), Path("/host")))
    monkeypatch.setattr(network, "owner", lambda: ours.folder)
    running = [FakeProcess(f"/usr/bin/{name}") for name in processes.PROGRAMS]
    monkeypatch.setattr(processes, "of_lab", lambda folder: running)
    assert ours.up(print, "pv") == facts
    with pytest.raises(Unprepared, match="is for guests of type pv, not pvh: end it with scripts/xen-lab down"):
        ours.up(print, "pvh")
    assert ours.is_whole
    running.pop()
    assert not ours.is_whole


def test_nothing_stays_of_a_lab_that_does_not_start_but_its_logs(tmp_path, monkeypatch):
    ended, removed = [], []
    ours = Lab(tmp_path / "lab", tmp_path)
    monkeypatch.setattr(Lab, "missing", lambda self: [])
    monkeypatch.setattr(Lab, "build", lambda self, on_progress: (Path("/guest"), Path("/host")))
    monkeypatch.setattr(network, "owner", lambda: ours.folder)
    monkeypatch.setattr(network, "disconnect", lambda: removed.append(network.TAP))
    monkeypatch.setattr(processes, "of_lab", lambda folder: [folder])
    monkeypatch.setattr(processes, "end", ended.extend)

    def start(self, *_):
        self.folder.mkdir()
        (self.folder / "console.log").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        ours.up(print, "pv")
    assert ended[-1] == ours.folder
    assert removed[-1] == network.TAP
    assert (ours.folder / "console.log").exists()
    ours.down()
    assert not ours.folder.exists()


def test_kubeadm_is_told_where_nodes_have_their_certificates_and_a_new_token_each_time():
    texts = [control_plane._kubeadm_config(FOLDER / "pki", "10.93.7.1", "v1.34.4") for _ in range(2)]
    init, cluster, kubelet, proxy = yaml.safe_load_all(texts[0])
    assert cluster["certificatesDir"] == "/cache/xen-lab/pki"
    assert cluster["controlPlaneEndpoint"] == "10.93.7.1:6443"
    assert kubelet["authentication"]["x509"]["clientCAFile"] == "/etc/kubernetes/pki/ca.crt"
    assert kubelet["cgroupDriver"] == "systemd"
    assert proxy["kind"] == "KubeProxyConfiguration"
    other = next(yaml.safe_load_all(texts[1]))
    assert init["bootstrapTokens"][0]["token"] != other["bootstrapTokens"][0]["token"]


def test_the_description_names_what_dom0_has(tmp_path):
    facts = Lab(FOLDER, tmp_path)._facts(Path("/kept/guest-1"), "pvh")
    description = yaml.safe_load(lab._description(facts))
    assert description["host"]["address"] == facts.address
    assert description["guests"]["root"] == "/dev/vdb"
    assert set(description["guests"]["addresses"]) == set(facts.guest_addresses)
    assert facts.address not in facts.guest_addresses
    assert description["emulated"] is True
    assert msgspec.json.decode(msgspec.json.encode(facts), type=lab.LabFacts) == facts
    (tmp_path / "guests.yaml").write_text(lab._description(facts))
    described = read_description(tmp_path / "guests.yaml")
    assert described.workers == 2
    assert described.guests.type == "pvh"
