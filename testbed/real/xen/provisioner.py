"""Makes guests, runs commands in them and removes them: what is the same on every kind of host.

A driver does what differs. Guests are ours only if the host says so, by their name and by the label of their cluster;
others are never touched. Nothing is repeated that could happen twice.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import asyncssh

from testbed.errors import ClusterError, Disconnected, WaitTimedOut
from testbed.real.waiting import wait_until_async
from testbed.real.xen.ssh import COMMAND_S, Login, SshMachine

_LABEL = re.compile(r"carico-[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_OURS = uuid.UUID("5f8a2f0e-2f0c-5f43-9f0d-6a1a2c0f4d5b")
"""The namespace of our guests' ids, a random number."""
GUEST_BYTES = 256 << 20
"""Space that a guest is likely to need at least; measured: 212 KB after its boot, and what pods and logs write."""
POLL_S = 2.0
SSH_PORT = 22
_ANSWER_S = 2.0
"""A machine in the guests' network has let us connect by then, however busy it is."""


@dataclass(frozen=True)
class Guest:
    """A guest of a cluster.

    Parameters
    ----------
    label : str
        The cluster's name, and the label of everything that belongs to it.
    number : int
    address : str
    """

    label: str
    number: int
    address: str

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.label):
            raise ValueError(f"the name of a cluster is carico- and lower-case letters, got {self.label!r}")

    @property
    def name(self) -> str:
        """Its name: of the guest on its host, of the machine, and of the node."""
        return f"{self.label}-{self.number}"

    @property
    def uuid(self) -> str:
        """Its id on the host, by which it is ours from the moment it exists: nobody else's guest has it."""
        return id_of(self.name)


def id_of(name: str) -> str:
    """Return the id that a guest of ours with this name has."""
    return str(uuid.uuid5(_OURS, name))


def name_pattern(label: str) -> re.Pattern[str]:
    """Return the pattern of the names of a cluster's guests."""
    return re.compile(rf"{re.escape(label)}-([0-9]{{1,3}})")


class Driver(Protocol):
    """What differs between kinds of hosts."""

    async def problems(self) -> Sequence[str]:
        """Return why the described guests could not be made, as far as can be seen without making any."""
        ...

    async def create(self, guest: Guest, public_key: str) -> None:
        """Make a guest and start it; whatever fails, or cancels it, nothing of the guest is left.

        Parameters
        ----------
        guest : Guest
        public_key : str
            The key that lets in the guest's root, without its type.
        """
        ...

    async def host_key(self, guest: Guest) -> str:
        """Return the public key that the guest has told its host; an empty text as long as it has told none.

        Raises
        ------
        ClusterError
            If the guest has ended.
        """
        ...

    async def console(self, guest: Guest) -> str:
        """Return what the guest has written to its console."""
        ...

    async def destroy(self, guest: Guest) -> None:
        """Remove a guest, complete or half made, or what is left of it; do nothing if there is nothing."""
        ...

    async def numbers(self, label: str) -> set[int]:
        """Return the numbers of a cluster's guests of which anything is left."""
        ...

    async def forget(self, label: str) -> None:
        """Remove what a cluster without guests has left."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Provisioner:
    """Guests on a host.

    Parameters
    ----------
    driver : Driver
    key : asyncssh.SSHKey
        The key that lets the testbed into the guests.
    at_once : int
        Guests that are made at the same time.
    port : int
        Where the guests' SSH servers listen.
    """

    def __init__(self, driver: Driver, key: asyncssh.SSHKey, at_once: int, port: int = SSH_PORT) -> None:
        self._driver = driver
        self._key = key
        self._free = asyncio.Semaphore(at_once)
        self._port = port
        self._machines: dict[str, SshMachine] = {}

    async def create(self, guest: Guest, limit_s: float) -> None:
        """Make a guest and start it; see `Driver.create`.

        Raises
        ------
        ClusterError
            If a machine has its address, or that fails or takes too long; nothing of the guest is left, unless the
            error's notes say so.
        """
        public = self._key.export_public_key("openssh").decode().split()[1]
        async with self._free:
            try:
                async with asyncio.timeout(limit_s):
                    await self._require_free_address(guest)
                    await self._driver.create(guest, public)
            except TimeoutError as error:
                raise WaitTimedOut(f"guest {guest.name} was not made within {limit_s:g} s") from error

    async def address(self, guest: Guest, limit_s: float) -> str:
        """Wait until commands can be run in a guest, and return its address.

        The guest's host key comes through its host, so the network is never trusted.

        Raises
        ------
        ClusterError
            If the guest has ended.
        WaitTimedOut
            If it takes longer.
        """

        async def lacking() -> str:
            told = await self._driver.host_key(guest)
            if not told:
                return "it has told its host no SSH key"
            self._machines[guest.name] = machine = SshMachine(self._login(guest, told))
            try:
                await machine.run("true")
            except Disconnected as error:
                return str(error)
            return ""

        await wait_until_async(f"guest {guest.name} can be used", lacking, limit_s, POLL_S)
        return guest.address

    async def run(
        self, guest: Guest, *command: str, given: str = "", limit_s: float = COMMAND_S, repeatable: bool = False
    ) -> str:
        """Run a command in a guest; see `SshMachine.run`."""
        machine = await self._machine(guest)
        return await machine.run(*command, given=given, limit_s=limit_s, repeatable=repeatable)

    async def copy(self, guest: Guest, text: str, path: str) -> None:
        """Write a file in a guest that only its root can read; see `SshMachine.write`."""
        await (await self._machine(guest)).write(path, text)

    async def console(self, guest: Guest) -> str:
        """Return what a guest has written to its console; see `Driver.console`."""
        return await self._driver.console(guest)

    async def destroy(self, guest: Guest) -> None:
        """Remove a guest or what is left of it; see `Driver.destroy`."""
        machine = self._machines.pop(guest.name, None)
        if machine is not None:
            await machine.close()
        await self._driver.destroy(guest)

    async def list(self, label: str) -> Sequence[Guest]:
        """Return a cluster's guests of which anything is left, without their addresses."""
        return [Guest(label, number, "") for number in sorted(await self._driver.numbers(label))]

    async def destroy_all(self, label: str) -> None:
        """Remove everything that has a cluster's label.

        Raises
        ------
        ClusterError
            If something is left.
        """
        guests = await self.list(label)
        failed = [error for error in await gathered(self.destroy(guest) for guest in guests) if error is not None]
        if left := await self.list(label):
            why = "".join(f"; {error}" for error in failed)
            raise ClusterError(f"guests are left: {', '.join(guest.name for guest in left)}{why}")
        await self._driver.forget(label)

    async def close(self) -> None:
        """Close all connections."""
        for machine in self._machines.values():
            await machine.close()
        await self._driver.close()

    async def _require_free_address(self, guest: Guest) -> None:
        """Look whether another machine has the guest's address, because both would lose their connections."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                _, stream = await asyncio.open_connection(guest.address, self._port)
        except (OSError, TimeoutError):
            return
        stream.close()
        raise ClusterError(
            f"guest {guest.name} cannot have the address {guest.address}, a machine answers there already: end that "
            f"one, or describe another address (guests: addresses)"
        )

    async def _machine(self, guest: Guest) -> SshMachine:
        if guest.name not in self._machines:
            await self.address(guest, COMMAND_S)
        return self._machines[guest.name]

    def _login(self, guest: Guest, host_key: str) -> Login:
        try:
            trusted = asyncssh.import_public_key(host_key)
        except asyncssh.KeyImportError as error:
            raise ClusterError(f"guest {guest.name} has told its host no SSH key but {host_key[:80]!r}") from error
        return Login(
            what=f"guest {guest.name} ({guest.address})",
            address=guest.address,
            port=self._port,
            user="root",
            known_hosts=([trusted], [], []),
            keys=[self._key],
            wrong_key="another machine has its address",
        )


async def gathered(tasks: Iterable[object]) -> list[BaseException | None]:
    """Run all, whatever fails, and return the error of each."""
    done = await asyncio.gather(*tasks, return_exceptions=True)  # type: ignore[call-overload]
    return [one if isinstance(one, BaseException) else None for one in done]
