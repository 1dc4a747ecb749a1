"""Makes a Kubernetes cluster of guests: the first becomes the control plane, unless there is one, and the others join.

A guest that fails is replaced once. If its replacement fails, too, the bootstrap ends with that guest's error; the
consoles of failed guests are kept.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from carico.errors import KubeError
from testbed.errors import ClusterError, CommandFailed, TestbedError, WaitTimedOut
from testbed.images.node_image import CLUSTER_DNS
from testbed.real.api import ClusterApi
from testbed.real.nodes import is_ready
from testbed.real.waiting import wait_until_async
from testbed.real.xen.control_plane import text_of
from testbed.real.xen.description import Description
from testbed.real.xen.kubeadm import Join, init_config, join_config, read_join
from testbed.real.xen.kubeconfig import movable_kubeconfig
from testbed.real.xen.provisioner import Guest, Provisioner

CONSOLES = "consoles"
"""The folder of the consoles of failed guests, in the cluster's own."""
POLL_S = 2.0
_CONFIG = "/run/carico/kubeadm.yaml"
_STARTS = 5
"""Attempts to start containerd in a guest."""
_APPLY = ("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "apply", "--filename=-")
_PRINT_JOIN = ("kubeadm", "token", "create", "--print-join-command")


class Bootstrap:
    """The making of one cluster.

    Parameters
    ----------
    provisioner : Provisioner
    description : Description
    version : str
        The version of Kubernetes in the guests.
    folder : Path
        The folder for the kubeconfig and the consoles of failed guests.
    connect : callable
        Returns the API that a kubeconfig leads to.
    say : callable
        Called with messages for the user.
    """

    def __init__(
        self,
        provisioner: Provisioner,
        description: Description,
        version: str,
        folder: Path,
        connect: Callable[[Path], ClusterApi],
        say: Callable[[str], None],
    ) -> None:
        self._provisioner = provisioner
        self._described = description
        self._version = version
        self._folder = folder
        self._connect = connect
        self._say = say
        self._ready = 0
        self._waiting: dict[str, str] = {}
        """What each guest that is not ready waits for."""

    @property
    def kubeconfig(self) -> Path:
        """The file of the administrator's kubeconfig."""
        return self._folder / "kubeconfig"

    async def run(self, guests: Sequence[Guest]) -> None:
        """Make the cluster, and wait until all of its nodes are ready.

        Raises
        ------
        ClusterError
            If a guest fails twice, or the whole takes longer than the description allows.
        """
        limit_s = self._described.limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._run(guests)
        except TimeoutError as error:
            raise WaitTimedOut(
                f"the cluster was not made within {limit_s:g} s, {self._ready} of {len(guests)} guests were ready"
                f"{''.join(f'; {name} waits for {what}' for name, what in sorted(self._waiting.items()))}: see the "
                f"consoles among the diagnostics, or allow more time (limit_s)"
            ) from error
        except ExceptionGroup as group:
            first, *others = group.exceptions
            for other in others:
                first.add_note(f"and: {other}")
            raise first from first.__cause__

    async def _run(self, guests: Sequence[Guest]) -> None:
        given = self._described.control_plane
        joining: asyncio.Future[Join] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            # All guests start at the same time; they join when there is something to join.
            workers = guests if given is not None else guests[1:]
            for guest in workers:
                group.create_task(self._replaced_once(guest, partial(self._worker, guest, joining), len(guests)))
            if given is None:
                await self._replaced_once(guests[0], partial(self._control_plane, guests[0]), len(guests))
                # Twice, it makes another token, which expires.
                printing = partial(self._provisioner.run, limit_s=self._described.limit_s, repeatable=True)
                command = await printing(guests[0], *_PRINT_JOIN)
                joining.set_result(read_join(command, f"kubeadm on {guests[0].name}"))
            else:
                file = Path(given.kubeconfig)
                write_secret(self.kubeconfig, movable_kubeconfig(text_of(given.kubeconfig), file))
                joining.set_result(read_join(text_of(given.join), given.join))

    async def _replaced_once(self, guest: Guest, make: Callable[[], Awaitable[None]], guests: int) -> None:
        try:
            try:
                await make()
            except ClusterError as error:
                await self._remove_failed(guest, "first")
                self._say(f"guest {guest.name} has failed and is replaced: {error}")
                await make()
        except ClusterError:
            await self._keep_console(guest, "last")
            raise
        self._ready += 1
        del self._waiting[guest.name]
        self._say(f"guest {guest.name} is ready: {self._ready} of {guests}")

    async def _control_plane(self, guest: Guest) -> None:
        config = init_config(guest, self._described.guests, self._version)
        await self._start(guest)
        await self._kubeadm(guest, "init", config)
        admin = await self._provisioner.run(guest, "cat", "/etc/kubernetes/admin.conf", repeatable=True)
        write_secret(self.kubeconfig, admin)
        # Guests have no name server to forward to, without which kubeadm's CoreDNS would end.
        names = CLUSTER_DNS.read_text(encoding="utf-8")
        await self._provisioner.run(guest, *_APPLY, given=names, limit_s=self._described.limit_s, repeatable=True)
        await self._until_ready(guest)

    async def _worker(self, guest: Guest, joining: asyncio.Future[Join]) -> None:
        await self._start(guest)
        self._waiting[guest.name] = "a control plane to join"
        config = join_config(guest, self._described.guests, await asyncio.shield(joining))
        await self._kubeadm(guest, "join", config)
        await self._until_ready(guest)

    async def _start(self, guest: Guest) -> None:
        self._waiting[guest.name] = "its turn to be made, and its host"
        await self._provisioner.create(guest, self._described.limit_s)
        self._waiting[guest.name] = "its system, which does not let us in yet"
        await self._provisioner.address(guest, self._described.limit_s)
        self._waiting[guest.name] = "containerd"
        # On a slow machine containerd takes longer to start than systemd allows, and needs another attempt.
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(CommandFailed),
            stop=stop_after_attempt(_STARTS),
            wait=wait_fixed(POLL_S),
            reraise=True,
        )
        starting = partial(self._provisioner.run, limit_s=self._described.limit_s, repeatable=True)
        await retrying(starting, guest, "systemctl", "start", "containerd")

    async def _kubeadm(self, guest: Guest, action: str, config: str) -> None:
        self._waiting[guest.name] = f"kubeadm {action}"
        await self._provisioner.copy(guest, config, _CONFIG)
        command = ("kubeadm", action, "--config", _CONFIG)
        await self._provisioner.run(guest, *command, limit_s=self._described.limit_s)
        await self._provisioner.run(guest, "rm", "-f", _CONFIG, repeatable=True)

    async def _until_ready(self, guest: Guest) -> None:
        """Wait until a guest's node is there and ready."""
        with closing(self._connect(self.kubeconfig)) as api:

            async def lacking() -> str:
                try:
                    nodes = {node["metadata"]["name"]: node for node in await asyncio.to_thread(api.nodes)}
                except KubeError as error:
                    self._waiting[guest.name] = f"an answer of the API server ({error})"
                    raise
                self._waiting[guest.name] = "its node to be ready"
                if guest.name not in nodes:
                    return "there is no such node"
                return "" if is_ready(nodes[guest.name]) else "it is not ready"

            try:
                await wait_until_async(f"node {guest.name} is ready", lacking, self._described.limit_s, POLL_S)
            except KubeError as error:
                raise ClusterError(f"the API server of the new cluster refuses: {error}") from error

    async def _remove_failed(self, guest: Guest, which: str) -> None:
        """Remove a guest, and its node if it has joined."""
        await self._keep_console(guest, which)
        await self._provisioner.destroy(guest)
        if self.kubeconfig.exists():
            with suppress(KubeError), closing(self._connect(self.kubeconfig)) as api:
                await asyncio.to_thread(api.delete_node, guest.name)

    async def _keep_console(self, guest: Guest, which: str) -> None:
        with suppress(TestbedError, OSError):  # the guest's own error is the one to report
            said = await self._provisioner.console(guest)
            consoles = self._folder / CONSOLES
            consoles.mkdir(exist_ok=True)
            (consoles / f"{guest.name}-{which}.log").write_text(said, encoding="utf-8")


def write_secret(file: Path, text: str) -> None:
    """Write a file that only this user can read."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
