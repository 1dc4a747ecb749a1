"""Makes clusters of Xen guests, on the host that a description names."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

import asyncssh
import msgspec

from carico.files import write_whole
from testbed.errors import ClusterError, TestbedError, UsageError, WaitTimedOut
from testbed.images.guest import GuestFacts
from testbed.real.api import ClusterApi
from testbed.real.lifecycle import Cluster, connected
from testbed.real.xen.bootstrap import CONSOLES, Bootstrap, write_secret
from testbed.real.xen.control_plane import clear, problems_with
from testbed.real.xen.description import Description, XlHost, read_description
from testbed.real.xen.guest_image import container_image, read_guest_image
from testbed.real.xen.provisioner import SSH_PORT, Driver, Guest, Provisioner, gathered
from testbed.real.xen.xenapi import XenApiDriver
from testbed.real.xen.xl import XlDriver
from testbed.requirements import Problem

_DESCRIPTION = "description.json"
_KEY = "guest-key"
_LOGS_S = 60.0
"""Limit of collecting all logs."""
_LOG_S = 20.0
_DELETE_S = 900.0
_COMMAND_S = 120.0


class XenMaker:
    """A `ClusterMaker` of guests.

    Parameters
    ----------
    file : Path or None
        The description; without one, clusters can only be removed.
    say : callable, optional
        Called with messages for the user.
    environment : mapping, optional
        Environment variables; the process's by default.
    connect : callable, optional
        Returns the API that a kubeconfig leads to.
    guest_port : int
        Where the guests' SSH servers listen.

    Raises
    ------
    UsageError
        If the description is invalid.
    """

    kind = "xen"
    on_this_machine = False

    def __init__(
        self,
        file: Path | None,
        say: Callable[[str], None] = lambda text: None,
        environment: Mapping[str, str] | None = None,
        connect: Callable[[Path], ClusterApi] = connected,
        guest_port: int = SSH_PORT,
    ) -> None:
        self._description = None if file is None else read_description(file)
        self._say = say
        self._environment = dict(os.environ if environment is None else environment)
        self._connect = connect
        self._guest_port = guest_port

    @property
    def description(self) -> Description:
        """The description of the guests."""
        if self._description is None:
            raise UsageError("the provider xen needs a description of the guests: name it with --xen FILE")
        return self._description

    @property
    def create_timeout_s(self) -> float:
        """See `ClusterMaker`."""
        return self.description.limit_s

    @property
    def kubernetes_version(self) -> str:
        """The version in the guests' image; see `ClusterMaker`."""
        return self.image.kubernetes

    @cached_property
    def image(self) -> GuestFacts:
        """What is in the guests' image; raises TestbedError if that cannot be found out."""
        return read_guest_image(self.description.guests.image)

    def preflight(self) -> Sequence[Problem]:
        """Check the image, the host and a control plane that is given; see `ClusterMaker.preflight`."""
        found = []
        try:
            self.kubernetes_version  # noqa: B018 (it is read, or the problem is said)
        except TestbedError as error:
            found.append(Problem(str(error)))
        plane = self.description.control_plane
        found += [Problem(what) for what in ([] if plane is None else problems_with(plane, self._connect))]
        try:
            found += [Problem(what) for what in asyncio.run(self._problems())]
        except TestbedError as error:
            found.append(Problem(str(error)))
        return found

    def fingerprint(self) -> Mapping[str, str]:
        """Return the image, the host and the guests; see `ClusterMaker.fingerprint`."""
        described = self.description
        host = described.host.address if isinstance(described.host, XlHost) else described.host.url
        whole = msgspec.json.encode(described)
        return {
            "host": host,
            "guests": str(described.guests.count),
            "guest-image": self.image.digests.get("root.img", "")[:16],
            "kubernetes": self.image.kubernetes,
            "description": hashlib.sha256(whole).hexdigest()[:16],
        }

    def create(self, name: str, folder: Path, timeout_s: float) -> None:
        """Make guests, and a cluster of them; see `ClusterMaker.create`."""
        # First what `delete` needs, whatever happens next.
        write_whole(folder / _DESCRIPTION, msgspec.json.encode(self.description))
        write_secret(folder / _KEY, asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
        asyncio.run(self._create(name, folder))

    def kubeconfig(self, name: str, folder: Path) -> Path:
        """See `ClusterMaker.kubeconfig`."""
        return folder / "kubeconfig"

    def delete(self, name: str, folder: Path) -> None:
        """Remove the guests, and what a control plane of the user's own has of them; see `ClusterMaker.delete`."""
        if not (folder / _DESCRIPTION).is_file():  # nothing was made
            return
        try:
            described = _described(folder)
            asyncio.run(self._delete(name, folder, described))
            kubeconfig = self.kubeconfig(name, folder)
            if described.control_plane is not None and kubeconfig.is_file():
                clear(name, kubeconfig, self._connect)
        except ClusterError as error:
            raise ClusterError(f"{error}; if that is gone for good, remove the folder {folder.parent}") from error

    def collect_logs(self, name: str, folder: Path, into: Path) -> None:
        """Copy the guests' consoles and journals; see `ClusterMaker.collect_logs`."""
        lacking = asyncio.run(self._collect_logs(name, folder, into / "logs"))
        if lacking:
            raise ClusterError(f"not all logs of {name} can be copied: {'; '.join(lacking)}")

    def guests(self, name: str) -> list[Guest]:
        """Return the guests of a cluster, the control plane first unless there is another one."""
        described = self.description.guests
        return [Guest(name, number, described.addresses[number]) for number in range(described.count)]

    def workers(self, name: str) -> list[str]:
        """Return the names of the guests that pods of scenarios may run on."""
        return [guest.name for guest in self.guests(name)[-self.description.workers :]]

    def provided_image(self, cluster: Cluster, name: str) -> str:
        """Return an image that the guests' own image has; see `Machines`."""
        return container_image(self.image, name)

    def run_on_nodes(self, cluster: Cluster, *command: str) -> None:
        """See `Machines`."""
        asyncio.run(self._run_on_nodes(cluster, command))

    async def _problems(self) -> Sequence[str]:
        driver = self._driver(self.description)
        try:
            return await driver.problems()
        finally:
            await driver.close()

    async def _create(self, name: str, folder: Path) -> None:
        async with self._provisioner(self.description, folder) as provisioner:
            bootstrap = Bootstrap(
                provisioner, self.description, self.kubernetes_version, folder, self._connect, self._say
            )
            await bootstrap.run(self.guests(name))

    async def _delete(self, name: str, folder: Path, described: Description) -> None:
        async with self._provisioner(described, folder) as provisioner, _within(_DELETE_S, f"removing {name}"):
            await provisioner.destroy_all(name)

    async def _run_on_nodes(self, cluster: Cluster, command: Sequence[str]) -> None:
        async with self._provisioner(self.description, cluster.folder) as provisioner:
            asked = (
                provisioner.run(guest, *command, limit_s=_COMMAND_S, repeatable=True)
                for guest in self.guests(cluster.name)
            )
            for error in await gathered(asked):
                if error is not None:
                    raise error

    async def _collect_logs(self, name: str, folder: Path, into: Path) -> list[str]:
        lacking: list[str] = []
        kept = folder / CONSOLES
        for file in sorted(kept.iterdir()) if kept.is_dir() else ():
            _write(into / file.name, file.read_text(encoding="utf-8"), lacking)

        async def collect(guest: Guest) -> None:
            logs: dict[str, Callable[[], Awaitable[str]]] = {
                "console": lambda: provisioner.console(guest),
                "journal": lambda: provisioner.run(guest, "journalctl", "--no-pager", limit_s=_LOG_S),
            }
            for log, ask in logs.items():
                try:
                    async with asyncio.timeout(_LOG_S):
                        _write(into / f"{guest.name}-{log}.log", await ask(), lacking)
                except (TestbedError, TimeoutError) as error:
                    lacking.append(f"{guest.name}, {log}: {error or 'no answer'}")

        async with self._provisioner(_described(folder), folder) as provisioner:
            try:
                async with _within(_LOGS_S, "collecting logs"):
                    guests = await provisioner.list(name)
                    await gathered(collect(found) for found in self.guests(name) if found.number in _numbers(guests))
            except ClusterError as error:
                lacking.append(str(error))
        return lacking

    def _driver(self, described: Description) -> Driver:
        return driver_of(described, self._environment)

    @asynccontextmanager
    async def _provisioner(self, described: Description, folder: Path) -> AsyncIterator[Provisioner]:
        provisioner = Provisioner(
            self._driver(described), _key_in(folder), at_once=described.at_once, port=self._guest_port
        )
        try:
            yield provisioner
        finally:
            await provisioner.close()


def driver_of(described: Description, environment: Mapping[str, str]) -> Driver:
    """Return the driver of a description's host; raises UsageError if its credentials cannot be used."""
    return (XlDriver if isinstance(described.host, XlHost) else XenApiDriver)(described, environment)


@asynccontextmanager
async def _within(limit_s: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise WaitTimedOut(f"{what} was not done within {limit_s:g} s") from error


def _described(folder: Path) -> Description:
    """Return the description that a cluster was made from."""
    try:
        return msgspec.json.decode((folder / _DESCRIPTION).read_bytes(), type=Description)
    except (OSError, msgspec.DecodeError) as error:
        raise ClusterError(f"the description of the cluster cannot be read: {error}") from error


def _key_in(folder: Path) -> asyncssh.SSHKey:
    try:
        return asyncssh.read_private_key(folder / _KEY)
    except (OSError, asyncssh.KeyImportError):  # guests cannot be let in without it, but they can be removed
        return asyncssh.generate_private_key("ssh-ed25519")


def _numbers(guests: Sequence[Guest]) -> set[int]:
    return {guest.number for guest in guests}


def _write(file: Path, text: str, lacking: list[str]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        lacking.append(str(error))
