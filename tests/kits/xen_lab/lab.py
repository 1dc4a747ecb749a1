"""The lab as a whole: up, down, and what others need to know of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import msgspec
import yaml

from testbed.errors import ClusterError, Unprepared
from testbed.images.catalogue import Catalogue
from testbed.images.debian import administrators_path
from testbed.images.disk import make_disk
from testbed.images.docker import Docker
from testbed.images.programs import OnProgress, Programs
from testbed.programs.find import found_programs
from testbed.requirements import Problem
from testbed.results.locks import locked
from tests.kits.xen_lab import network, processes
from tests.kits.xen_lab.control_plane import NAMES, PlainControlPlane
from tests.kits.xen_lab.qemu import PROGRAM, QUIET, qemu_command

_HOST_READY_S = 420.0
"""Alone on a machine the host takes half a minute; with much other load, minutes."""
_POLL_S = 1.0
_SETTINGS_BYTES = 128 << 20
_LAB = "/srv/lab"
"""Where dom0 has what the lab gives it."""


class LabFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What others need to know of a lab that is up, in `lab.json`.

    Parameters
    ----------
    address, port, user, known_hosts, key
        How to reach dom0 by SSH; the last two are files here.
    bridge : str
        The bridge in dom0 for guests.
    guest_addresses, prefix, gateway
        Free addresses on the lab's network.
    base, kernel, initrd
        The guests' root disk, read-only, and their kernel, as dom0 sees them.
    guest : str
        The folder of the guests' disk here.
    guest_type : str
        The type of guests that the lab is for.
    kubeconfig, join
        Files of the control plane: the administrator's kubeconfig, and the command that joins a node.
    guests : str
        The description of guests that `--xen` takes.
    emulated : bool
        Always true: times mean nothing.
    """

    address: str
    port: int
    user: str
    known_hosts: str
    key: str
    bridge: str
    guest_addresses: tuple[str, ...]
    prefix: int
    gateway: str
    base: str
    kernel: str
    initrd: str
    guest: str
    guest_type: str
    kubeconfig: str
    join: str
    guests: str
    emulated: bool = True


@dataclass(frozen=True)
class Lab:
    """A lab in a folder.

    Parameters
    ----------
    folder : Path
        Its files: lab.json, guests.yaml, logs, keys.
    kept : Path
        The folder that keeps programs and disks.
    """

    folder: Path
    kept: Path

    def missing(self) -> list[Problem]:
        """Return what is missing to start a lab, each with its remedy."""
        found = []
        if os.geteuid() != 0:
            found.append(Problem(f"the lab needs root, this is user {os.geteuid()}", "run this as root"))
        for program, package in {PROGRAM: "qemu-system-x86", "mke2fs": "e2fsprogs", "ip": "iproute2"}.items():
            if shutil.which(program, path=administrators_path()) is None:
                found.append(Problem(f"there is no command {program}", f"apt-get install {package}"))
        if not Path("/dev/net/tun").exists():
            found.append(Problem("there is no device /dev/net/tun", "load the kernel's module tun"))
        missing = sorted(set(NAMES) - set(found_programs(NAMES)))
        if missing:
            build = "carico-testbed images programs kubernetes etcd"
            found.append(Problem(f"programs of a control plane are missing: {', '.join(missing)}", build))
        return found

    def build(self, on_progress: OnProgress) -> tuple[Path, Path]:
        """Build the guests' and the host's disks unless they are there, and return their folders.

        Raises
        ------
        TestbedError
            If something is missing for that, or a step fails.
        """
        return self._catalogue.guest_disk().ensure(on_progress), self._catalogue.xen_host().ensure(on_progress)

    def has_disks(self) -> bool:
        """Return whether both disks are there, so that nothing needs to be built."""
        return self._catalogue.guest_disk().folder.is_dir() and self._catalogue.xen_host().folder.is_dir()

    def up(self, on_progress: OnProgress, guest_type: str) -> LabFacts:
        """Start the lab unless it is up; what is left of one that was killed is removed first.

        Whatever fails, nothing of it runs on.

        Parameters
        ----------
        on_progress : OnProgress
        guest_type : str
            One of `GUEST_TYPES`: the lab is for guests of this type.

        Raises
        ------
        Unprepared
            If something is missing, or another lab is up, or one for guests of another type.
        ClusterError
            If a part does not start.
        """
        problems = self.missing()
        if problems:
            raise Unprepared("\n".join(map(str, problems)))
        self._require_no_other()
        guest, host = self.build(on_progress)
        with self._alone():
            self._require_no_other()  # building takes minutes
            facts = self.facts()
            if facts is not None and self.is_whole:
                if facts.guest_type != guest_type:
                    raise Unprepared(
                        f"the lab that is up is for guests of type {facts.guest_type}, not {guest_type}: end it with "
                        f"scripts/xen-lab down --folder {self.folder}"
                    )
                return facts
            self._remove()
            try:
                return self._start(guest, host, guest_type, on_progress)
            except BaseException:
                on_progress("removing what was started")
                self._end()  # the logs stay
                raise

    def down(self) -> None:
        """End the lab, and remove its files; does nothing if there is none."""
        with self._alone():
            self._remove()

    @property
    def is_whole(self) -> bool:
        """Whether all processes of the lab run."""
        return self.status() == sorted(processes.PROGRAMS)

    def status(self) -> Sequence[str]:
        """Return the names of the lab's processes that run."""
        return sorted(Path(process.cmdline()[0]).name for process in processes.of_lab(self.folder))

    def facts(self) -> LabFacts | None:
        """Return what lab.json says; None if no lab is up here."""
        with suppress(OSError):
            return msgspec.json.decode((self.folder / "lab.json").read_bytes(), type=LabFacts)
        return None

    @property
    def _catalogue(self) -> Catalogue:
        return Catalogue(Docker(), Programs(self.kept))

    def _alone(self) -> AbstractContextManager[None]:
        """Wait until no other process starts or ends a lab."""
        self.kept.mkdir(parents=True, exist_ok=True)
        return locked(self.kept / "xen-lab.lock")

    def _require_no_other(self) -> None:
        other = network.owner()
        if other not in (None, self.folder) and processes.of_lab(other):
            raise Unprepared(f"another lab is up in {other}: scripts/xen-lab down --folder {other}")

    def _remove(self) -> None:
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        processes.end(processes.of_lab(self.folder))
        if network.owner() == self.folder:
            network.disconnect()

    def _start(self, guest: Path, host: Path, guest_type: str, on_progress: OnProgress) -> LabFacts:
        self.folder.mkdir(mode=0o700, parents=True)
        on_progress("starting the host and the control plane")
        facts = self._facts(guest, guest_type)
        self._write_settings(guest)
        network.connect(self.folder)
        console = self.folder / "console.log"
        command = qemu_command(host, guest / "root.img", self.folder / "settings.img", network.TAP, console, guest_type)
        log = self.folder / "qemu.log"
        # QEMU keeps what dom0 writes in a file without a name in this folder.
        machine = processes.start(["env", f"TMPDIR={self.folder}", *command], log)
        found = found_programs(NAMES)
        version = self._catalogue.guest_disk().control_plane.version
        plane = PlainControlPlane(self.folder / "control-plane", network.MACHINE, found, version)
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(plane.start)
            self._wait_for_host(facts, machine, log)
            on_progress("waiting for the control plane")
            started.result()
        (self.folder / "guests.yaml").write_text(_description(facts), encoding="utf-8")
        (self.folder / "lab.json").write_bytes(msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
        return facts

    def _facts(self, guest: Path, guest_type: str) -> LabFacts:
        return LabFacts(
            address=network.DOM0,
            port=22,
            user="root",
            known_hosts=str(self.folder / "known_hosts"),
            key=str(self.folder / "key"),
            bridge="xenbr0",
            guest_addresses=network.GUESTS,
            prefix=network.PREFIX,
            gateway=network.MACHINE,
            base="/dev/vdb",
            kernel=f"{_LAB}/kernel",
            initrd=f"{_LAB}/initrd",
            guest=str(guest),
            guest_type=guest_type,
            kubeconfig=str(self.folder / "control-plane" / "admin.conf"),
            join=str(self.folder / "control-plane" / "join"),
            guests=str(self.folder / "guests.yaml"),
        )

    def _write_settings(self, guest: Path) -> None:
        """Write dom0's third disk: its address, its host key, who may log in, and what guests boot."""
        host_key, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        key.write_private_key(self.folder / "key")
        (self.folder / "key").chmod(0o600)
        known = f"{network.DOM0} {host_key.export_public_key().decode()}"
        (self.folder / "known_hosts").write_text(known, encoding="utf-8")
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            settings = Path(place)
            (settings / "address").write_text(f"{network.DOM0}/{network.PREFIX}\n", encoding="utf-8")
            (settings / "authorized_keys").write_bytes(key.export_public_key())
            host_key.write_private_key(settings / "host_key")
            (settings / "host_key").chmod(0o600)
            settings.chmod(0o755)
            for name in ("kernel", "initrd"):
                shutil.copyfile(guest / name, settings / name)
            make_disk(settings, self.folder / "settings.img", _SETTINGS_BYTES)

    def _wait_for_host(self, facts: LabFacts, machine: processes.psutil.Process, log: Path) -> None:
        """Wait until dom0 lets us in, and its toolstack works."""
        end = time.monotonic() + _HOST_READY_S
        said = ""
        while time.monotonic() < end:
            processes.require_running(machine, log)
            try:
                asyncio.run(_ask_host(facts))
                return
            except (OSError, asyncssh.Error, TimeoutError) as error:
                said = str(error) or type(error).__name__
            time.sleep(_POLL_S)
        console = (self.folder / "console.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise ClusterError(
            f"the host is not ready after {_HOST_READY_S:.0f} s ({said}); its console ends with:\n{console}"
        )


async def _ask_host(facts: LabFacts) -> None:
    async with asyncio.timeout(20):
        async with asyncssh.connect(
            facts.address, facts.port, username=facts.user, client_keys=[facts.key], known_hosts=facts.known_hosts
        ) as connection:
            await connection.run("xl info", check=True)


def _description(facts: LabFacts) -> str:
    """Return guests.yaml: two guests, as much as the host's memory and CPUs allow."""
    return yaml.safe_dump(
        {
            "host": {
                "driver": "xl",
                "address": facts.address,
                "port": facts.port,
                "known_hosts": facts.known_hosts,
                "key": facts.key,
                "folder": "/var/lib/carico",
            },
            "guests": {
                "count": 2,
                "cores": 1,
                "memory": "1Gi",
                "type": facts.guest_type,
                "addresses": list(facts.guest_addresses),
                "gateway": facts.gateway,
                "prefix": facts.prefix,
                "bridge": facts.bridge,
                "root": facts.base,
                "kernel": facts.kernel,
                "ramdisk": facts.initrd,
                "image": facts.guest,
                "arguments": f"{QUIET} psi=1 mitigations=off random.trust_cpu=on",
                "writable": "4Gi",
            },
            "control_plane": {"kubeconfig": facts.kubeconfig, "join": facts.join},
            "emulated": facts.emulated,
            "at_once": 1,  # several at the same time would be too slow for xl's own limits
        },
        sort_keys=False,
    )
