"""Guests on a Xen host whose toolstack is xl: commands in its dom0 over SSH.

A guest's disk is a device-mapper snapshot over the read-only root disk; what it writes goes into a sparse file in the
folder ``FOLDER/CLUSTER/GUEST`` of dom0. A guest is ours if its name and its id are: the id is a digest of the name, so
it is ours from the moment it exists. Its label is in xenstore, too, for people, and a guest with another label is not
ours.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import asyncssh

from testbed.errors import ClusterError, CommandFailed, UsageError
from testbed.real.xen.description import Description, XlHost
from testbed.real.xen.provisioner import GUEST_BYTES, Guest, id_of, name_pattern
from testbed.real.xen.ssh import Login, SshMachine
from workloads.quantity import memory_bytes

KEY_VARIABLE = "CARICO_XEN_KEY"
"""Environment variable with the text of the private key for dom0."""
LABEL = "vm-data/carico/cluster"
"""Where a guest's label is in xenstore, below the guest's own folder."""
_ROOT_DEVICE = "/dev/xvda"
_DEVICES = "/dev/"
_CREATE_S = 600.0
"""`xl create` takes a second or two on a machine, and minutes where an emulator runs the host beside other work."""
_DESTROY_S = 120.0
_CONSOLE_S = 3.0
_CHUNK_SECTORS = 8
"""Sectors that a snapshot copies at once."""
_NEW_LOOP = ("losetup", "--find", "--show")
_PROGRAMS = ("blockdev", "dmsetup", "flock", "losetup", "timeout", "xenstore-read", "xenstore-write")
_PRINT_LACKING = 'for one; do command -v "$one" > /dev/null || test -r "$one" || echo "$one"; done'
_NO_FOLDER = 66
"""The status of `flock` if the folder of its lock is not there."""


@dataclass(frozen=True)
class _Inventory:
    """What there is on the host: of ours, and of others."""

    domains: Mapping[str, tuple[str, str]]
    """By id, the number and the name of each guest; one that is still being built may have no name."""
    mapped: Mapping[str, str]
    """By name, the id of each device of the device mapper."""
    loops: Sequence[tuple[str, str]]
    """Loop devices and their files."""
    folders: frozenset[str]
    """Names of the folders of one cluster's guests."""


class XlDriver:
    """A `Driver` of a Xen host.

    Parameters
    ----------
    description : Description
        Its host must be an `XlHost`.
    environment : mapping, optional
        Environment variables; the process's by default.
    """

    def __init__(self, description: Description, environment: Mapping[str, str] | None = None) -> None:
        assert isinstance(description.host, XlHost)
        self._host = description.host
        self._guests = description.guests
        environment = os.environ if environment is None else environment
        self._login = dom0_login(self._host, environment)
        self._dom0 = SshMachine(self._login)

    async def problems(self) -> Sequence[str]:
        """Check programs, rights, files, memory and space in dom0; see `Driver.problems`."""
        checks = (
            self._problem_with_memory(),
            self._lacking(),
            self._problem_with_bridge(),
            self._problem_with_folder(),
        )
        return [found for found in await asyncio.gather(*checks) if found]

    async def _problem_with_memory(self) -> str:
        guests = self._guests
        needed = memory_bytes(guests.memory) * guests.count >> 20
        try:
            info = dict(re.findall(r"^(\S+)\s*: (.*)$", await self._ask("xl", "info"), re.MULTILINE))
        except CommandFailed as error:
            return f"the toolstack xl does not work: {error}"
        if "free_memory" not in info or int(info["free_memory"]) >= needed:
            return ""
        # A kept cluster's guests are used again, and those of killed runs removed, before any are made.
        free = int(info["free_memory"]) + await self._memory_of_ours()
        if free >= needed:
            return ""
        return (
            f"{self._login.what} has {free} MiB of memory free, {guests.count} guests of {guests.memory} need {needed} "
            f"MiB: describe fewer or smaller ones, or stop others"
        )

    async def _memory_of_ours(self) -> int:
        """Return the memory of all guests that the testbed has made here, MiB."""
        ours = {number for guest_id, (number, name) in (await self._domains()).items() if guest_id == id_of(name)}
        guests = (line.rsplit(None, 5) for line in (await self._ask("xl", "list")).splitlines()[1:])
        return sum(int(memory) for _, number, memory, *_ in guests if number in ours)

    async def _lacking(self) -> str:
        paths = filter(None, (self._guests.root, self._guests.kernel, self._guests.ramdisk))
        lacking = (await self._ask("sh", "-c", _PRINT_LACKING, "sh", *_PROGRAMS, *paths)).split()
        if not lacking:
            return ""
        return f"{self._login.what} lacks {', '.join(lacking)}: install the programs, and copy the files there"

    async def _problem_with_bridge(self) -> str:
        bridge = self._guests.bridge
        try:
            await self._ask("test", "-e", f"/sys/class/net/{bridge}")
        except CommandFailed:
            return f"{self._login.what} has no bridge {bridge}: make it, or name another one (guests: bridge)"
        return ""

    async def _problem_with_folder(self) -> str:
        folder, guests = self._host.folder, self._guests.count
        wanted = guests * GUEST_BYTES >> 20
        try:
            await self._ask("mkdir", "-p", folder)
            real = (await self._ask("realpath", folder)).strip()
            free = int((await self._ask("df", "--output=avail", "--block-size=1M", folder)).split()[-1])
        except CommandFailed as error:
            return f"the folder for guests cannot be used: {error}"
        if real != folder:  # loop devices tell the real names of their files, by which ours are found
            return f"the folder for guests {folder} is {real} in truth: name that one (host: folder)"
        if free < wanted:
            return (
                f"{self._login.what} has {free} MiB free in {folder}, {guests} guests need {wanted} MiB: make room, or "
                f"name another folder (host: folder)"
            )
        return await self._problem_with_root()

    async def _problem_with_root(self) -> str:
        folder, root = self._host.folder, self._guests.root
        if root.startswith(_DEVICES):
            return ""
        try:
            systems = await self._ask("stat", "--dereference", "--format=%d", folder, root)
        except CommandFailed:  # it is not there: this is told already
            return ""
        if len(set(systems.split())) == 1:
            return ""
        return (
            f"the root disk {root} is not in the file system of the folder for guests {folder}: copy it there, or name "
            f"a folder beside it (host: folder)"
        )

    async def create(self, guest: Guest, public_key: str) -> None:
        """Make the guest's disk and start it; see `Driver.create`."""
        if any(name == guest.name for _, name in (await self._domains()).values()):
            raise ClusterError(f"{self._login.what} has a guest {guest.name} already, and not from this run")
        try:
            await self._create(guest, public_key)
        except BaseException as error:
            try:
                await self.destroy(guest)
            except ClusterError as another:
                error.add_note(f"and then: {another}; the next run tries again to remove it")
            raise

    async def _create(self, guest: Guest, public_key: str) -> None:
        folder = self._folder(guest)
        disk, config = f"{folder}/disk", f"{folder}/guest.cfg"
        await self._ask("mkdir", "-p", folder)
        await self._change(guest, "truncate", "-s", str(memory_bytes(self._guests.writable)), disk)
        root = self._guests.root
        if not root.startswith(_DEVICES):
            # A name of our own for the file, so that its loop device can be told from those of others.
            await self._change(guest, "ln", "--logical", root, f"{folder}/root")
            root = (await self._change(guest, *_NEW_LOOP, "--read-only", f"{folder}/root")).strip()
        own = (await self._change(guest, *_NEW_LOOP, disk)).strip()
        sectors = int(await self._ask("blockdev", "--getsz", root))
        table = f"0 {sectors} snapshot {root} {own} P {_CHUNK_SECTORS}"
        await self._change(guest, "dmsetup", "create", guest.name, "--uuid", _mapped_id(guest), "--table", table)
        await self._change(guest, "dd", f"of={config}", "status=none", given=self._config(guest, public_key))
        await self._change(guest, "xl", "create", config, limit_s=_CREATE_S)
        number = _domain(guest, await self._domains())
        if number is None:
            raise ClusterError(f"guest {guest.name} has ended as soon as it was made")
        await self._ask("xenstore-write", f"/local/domain/{number}/{LABEL}", guest.label)

    async def host_key(self, guest: Guest) -> str:
        """Read the guest's part of xenstore; see `Driver.host_key`."""
        number = _domain(guest, await self._domains())
        if number is None:
            raise ClusterError(f"guest {guest.name} has ended")
        try:
            return (await self._ask("xenstore-read", f"/local/domain/{number}/data/carico/host-key")).strip()
        except CommandFailed:
            return ""

    async def console(self, guest: Guest) -> str:
        """Return the console's log if dom0 keeps one, else what it still has of its output; see `Driver.console`."""
        with suppress(CommandFailed):
            return await self._ask("cat", f"/var/log/xen/console/guest-{guest.name}.log")
        number = await self._number(guest, await self._domains())
        if number is None:
            return "the guest has ended, and its host keeps no logs of consoles (XENCONSOLED_TRACE=guest)\n"
        # A console never ends, so its output is what comes within a moment.
        return await self._ask(
            "sh", "-c", 'timeout "$1" xl console "$2" || true', "sh", str(int(_CONSOLE_S)), number, limit_s=30.0
        )

    async def destroy(self, guest: Guest) -> None:
        """End the guest, and remove its disk and its files; see `Driver.destroy`."""
        try:
            # A command that lost its connection may still run; it ends before this does.
            await self._change(guest, "true", limit_s=_CREATE_S, repeatable=True)
        except CommandFailed as error:
            if error.status != _NO_FOLDER:  # without a folder no command can be running
                raise
        there = await self._inventory(guest.label)
        if not self._is_left(guest, there):
            return
        removals: list[tuple[str, ...]] = []
        number = await self._number(guest, there.domains)
        if number is not None:
            removals.append(("xl", "destroy", number))
        if there.mapped.get(guest.name) == _mapped_id(guest):
            removals.append(("dmsetup", "remove", "--retry", guest.name))
        own = f"{self._folder(guest)}/"
        removals += [("losetup", "--detach", loop) for loop, file in there.loops if file.startswith(own)]
        failed = []
        for command in (*removals, ("rm", "-rf", "--", self._folder(guest))):
            try:
                await self._dom0.run(*command, limit_s=_DESTROY_S, repeatable=True)
            except CommandFailed as error:  # it may be gone already
                failed.append(str(error))
        if failed and self._is_left(guest, await self._inventory(guest.label)):
            raise ClusterError(f"{self._login.what} still has something of guest {guest.name}: {'; '.join(failed)}")

    async def numbers(self, label: str) -> set[int]:
        """Return the numbers of guests, devices and folders; see `Driver.numbers`."""
        there, pattern = await self._inventory(label), name_pattern(label)
        files = (file.removeprefix(f"{self._host.folder}/{label}/").partition("/")[0] for _, file in there.loops)
        domains = (name for _, name in there.domains.values())
        names = {*domains, *there.mapped, *there.folders, *files}
        found = {int(match[1]) for name in names if (match := pattern.fullmatch(name))}
        return {number for number in found if self._is_left(Guest(label, number, ""), there)}

    async def forget(self, label: str) -> None:
        """Remove the folder of the cluster; see `Driver.forget`."""
        with suppress(CommandFailed):  # it is not there, or somebody else uses it
            await self._ask("rmdir", f"{self._host.folder}/{label}")

    async def close(self) -> None:
        """Close the connection; see `Driver.close`."""
        await self._dom0.close()

    async def _domains(self) -> dict[str, tuple[str, str]]:
        """Return the guests of everybody; see `_Inventory`."""
        domains = {}
        for line in (await self._ask("xl", "vm-list")).splitlines()[1:]:
            guest_id, number, *name = line.split(None, 2)
            domains[guest_id] = (number, "".join(name).strip())
        return domains

    async def _inventory(self, label: str) -> _Inventory:
        listing = ("--columns", "--noheadings", "--separator", " ", "--options", "name,uuid")
        domains, devices, files, folders = await asyncio.gather(
            self._domains(),
            self._ask("dmsetup", "info", *listing),
            self._ask("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"),
            self._folders(label),
        )
        mapped = (line.partition(" ") for line in devices.splitlines())
        loops = (line.strip().partition(" ") for line in files.splitlines())
        return _Inventory(
            domains,
            {device: mapped_id.strip() for device, _, mapped_id in mapped},
            [(loop, file.strip()) for loop, _, file in loops],
            folders,
        )

    async def _folders(self, label: str) -> frozenset[str]:
        try:
            return frozenset((await self._ask("ls", "-A", "-1", f"{self._host.folder}/{label}")).split())
        except CommandFailed:  # there is no such folder
            return frozenset()

    def _is_left(self, guest: Guest, there: _Inventory) -> bool:
        return (
            guest.name in there.folders
            or _domain(guest, there.domains) is not None
            or there.mapped.get(guest.name) == _mapped_id(guest)
            or any(file.startswith(f"{self._folder(guest)}/") for _, file in there.loops)
        )

    async def _number(self, guest: Guest, domains: Mapping[str, tuple[str, str]]) -> str | None:
        """Return the number of the guest's domain; None if there is none, or if it is not ours."""
        number = _domain(guest, domains)
        if number is None:
            return None
        try:
            label = (await self._ask("xenstore-read", f"/local/domain/{number}/{LABEL}")).strip()
        except CommandFailed:  # it was being made
            label = guest.label
        return number if label == guest.label else None

    async def _ask(self, *command: str, limit_s: float = 120.0) -> str:
        """Run a command that does no harm if it is run twice."""
        return await self._dom0.run(*command, limit_s=limit_s, repeatable=True)

    async def _change(
        self, guest: Guest, *command: str, given: str = "", limit_s: float = 120.0, repeatable: bool = False
    ) -> str:
        """Run a command that changes a guest, one at a time, and one that ends even if the connection is lost."""
        # The lock is closed for the command, or `xl create`, which stays to watch the guest, would keep it.
        lock = ("flock", "--close", "--wait", f"{limit_s:.0f}", f"{self._folder(guest)}/lock")
        ending = ("timeout", "--kill-after=5", f"{limit_s:.0f}")
        return await self._dom0.run(
            *command, within=(*lock, *ending), given=given, limit_s=2 * limit_s + 10, repeatable=repeatable
        )

    def _folder(self, guest: Guest) -> str:
        return f"{self._host.folder}/{guest.label}/{guest.name}"

    def _config(self, guest: Guest, public_key: str) -> str:
        """Return the guest's configuration in xl's format; the description's schema keeps quotes out of it."""
        guests = self._guests
        arguments = (
            f"root={_ROOT_DEVICE}",
            guests.arguments,
            f"carico.name={guest.name}",
            f"carico.address={guest.address}/{guests.prefix}",
            f"carico.gateway={guests.gateway}",
            f"carico.key={public_key}",
        )
        bytes_of_id = bytes.fromhex(guest.uuid.replace("-", ""))
        values: dict[str, str | int | None] = {
            "name": guest.name,
            "uuid": guest.uuid,
            "type": guests.type,
            "kernel": guests.kernel,
            "ramdisk": guests.ramdisk,
            "extra": " ".join(arguments),
            "memory": memory_bytes(guests.memory) >> 20,
            "vcpus": guests.cores,
            "tsc_mode": "native" if guests.type == "pv" else None,
            "cpus": guests.cpus,
            "cpu_weight": guests.weight,
            "cap": guests.cap,
            "on_poweroff": "destroy",
            "on_reboot": "restart",
            "on_crash": "destroy",
        }
        mac = ":".join(f"{byte:02x}" for byte in (0x00, 0x16, 0x3E, bytes_of_id[0] & 0x7F, *bytes_of_id[1:3]))
        lines = [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
            for key, value in values.items()
            if value is not None
        ]
        lines.append(f'disk = ["phy:/dev/mapper/{guest.name},xvda,w"]')
        lines.append(f'vif = ["mac={mac},bridge={guests.bridge}"]')
        return "\n".join(lines) + "\n"


def _domain(guest: Guest, domains: Mapping[str, tuple[str, str]]) -> str | None:
    """Return the number of the domain that has the guest's id, and no other name."""
    number, name = domains.get(guest.uuid, ("", ""))
    return number if number and name in (guest.name, "") else None


def _mapped_id(guest: Guest) -> str:
    return f"CARICO-{guest.uuid}"


def dom0_login(host: XlHost, environment: Mapping[str, str]) -> Login:
    """Return how to log in to dom0; raises UsageError if a key or the file of known hosts cannot be used."""
    _check_known_hosts(host.known_hosts)
    keys = None
    where = host.key if host.key is not None else KEY_VARIABLE
    try:
        if host.key is not None:
            keys = [asyncssh.read_private_key(host.key)]
        elif KEY_VARIABLE in environment:
            keys = [asyncssh.import_private_key(environment[KEY_VARIABLE])]
    except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise UsageError(f"the private key for dom0 ({where}) cannot be used: {error}") from error
    return Login(
        what=f"dom0 {host.address}",
        address=host.address,
        port=host.port,
        user=host.user,
        known_hosts=host.known_hosts,
        keys=keys,
        wrong_key=f"the file {host.known_hosts} has another one, or none",
    )


def _check_known_hosts(file: str) -> None:
    remedy = "put dom0's host key there, as ssh-keyscan prints it"
    try:
        asyncssh.read_known_hosts(file)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {file}: {remedy}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the file of known hosts {file} cannot be used ({error}): {remedy}") from error
