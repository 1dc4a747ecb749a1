"""Machines that are real SSH servers in this process, each with a few files and commands of its own."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass

import asyncssh

LATE_S = 0.1


class Refused(Exception):
    """A command ends with this status and message."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Fault:
    """What happens to a command instead of, or besides, its effect."""

    command: tuple[str, ...]
    """Its first words."""
    how: str
    """`fail`: no effect, and a failure; `drop`: no effect, the connection is lost; `lose`: the effect, but the
    connection is lost; `slow`: the effect, and a late answer."""
    times: int = 1
    message: str = "it failed"
    then: Callable[[], None] = lambda: None
    """Called when it happens, after the effect if there is one."""


class ServerLoop:
    """An event loop in a thread, for the servers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="fake machines", daemon=True)
        self._thread.start()

    def run(self, task: Awaitable):
        """Run a coroutine there, and return its result."""
        done: Future = asyncio.run_coroutine_threadsafe(task, self.loop)
        return done.result(30)

    def close(self) -> None:
        async def end():
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.05)  # until what was aborted is closed

        self.run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class FakeMachine:
    """An SSH server; subclasses have a method `do_NAME(words, given)` for each command.

    Parameters
    ----------
    authorized : str
        The public key that is let in.
    """

    def __init__(self, authorized: str) -> None:
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.authorized = asyncssh.import_public_key(authorized)
        self.files: dict[str, str] = {}
        self.folders: set[str] = set()
        self.asked: list[tuple[str, ...]] = []
        """All commands, as they arrived."""
        self.given: list[str] = []
        """What they got on their standard inputs."""
        self.faults: list[Fault] = []
        self.chaos: Callable[[], str | None] = lambda: None
        """Says of each command whether and how it goes wrong; see `Fault`."""
        self.at_once = 10
        """Commands at the same time on a connection, as OpenSSH's `MaxSessions`."""
        self._running = 0
        self.is_dead = False
        self.connections: list[asyncssh.SSHServerConnection] = []
        self._server: asyncssh.SSHAcceptor | None = None

    @property
    def public_host_key(self) -> str:
        return " ".join(self.host_key.export_public_key().decode().split()[:2])

    async def listen(self, address: str, port: int = 0) -> int:
        """Listen on a port, and return it."""
        machine = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, connection):
                machine.connections.append(connection)
                if machine.is_dead:
                    connection.abort()

            def session_requested(self):
                if machine._running >= machine.at_once:
                    raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
                machine._running += 1
                return asyncssh.SSHServerProcess(machine._serve, None, 3, False)

            def begin_auth(self, username):
                return True

            def public_key_auth_supported(self):
                return True

            def validate_public_key(self, username, key):
                return key.convert_to_public() == machine.authorized

        self._server = await asyncssh.create_server(
            Server,
            address,
            port,
            server_host_keys=[self.host_key],
            reuse_address=True,  # a guest that replaces another has its address
        )
        return self._server.get_port()

    def end(self) -> None:
        """Stop listening, and lose all connections."""
        if self._server is not None:
            self._server.close()
        self.lose()

    def lose(self) -> None:
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    async def _serve(self, process: asyncssh.SSHServerProcess) -> None:
        try:
            await self._answer(process)
        finally:
            self._running -= 1

    async def _answer(self, process: asyncssh.SSHServerProcess) -> None:
        words = tuple(shlex.split(process.command or ""))
        given = await process.stdin.read()
        self.asked.append(words)
        self.given.append(given)
        try:
            answer = await self.perform(words, given)
        except Refused as refusal:
            process.stderr.write(f"{words[0]}: {refusal}\n")
            process.exit(refusal.status)
        except ConnectionAbortedError:
            self.lose()
        else:
            process.stdout.write(answer)
            process.exit(0)

    async def perform(self, words: tuple[str, ...], given: str) -> str:
        """Run a command, or what a fault makes of it."""
        fault = next((one for one in self.faults if one.times and words[: len(one.command)] == one.command), None)
        if fault is None and (how := self.chaos()) is not None:
            fault = Fault(words, how)
        if fault is not None:
            fault.times -= 1
            if fault.how in ("fail", "drop"):
                fault.then()
                if fault.how == "drop":
                    raise ConnectionAbortedError
                raise Refused(fault.message)
        answer = await self.effect(words, given)
        if fault is not None:
            fault.then()
            if fault.how == "slow":
                await asyncio.sleep(LATE_S)
                return answer
            raise ConnectionAbortedError
        return answer

    async def effect(self, words: tuple[str, ...], given: str) -> str:
        """Run a command."""
        do = getattr(self, "do_" + words[0].replace("-", "_"), None)
        if do is None:
            raise Refused("command not found", 127)
        found = do(words[1:], given)
        return await found if asyncio.iscoroutine(found) else found

    def do_true(self, words, given):
        return ""

    def do_mkdir(self, words, given):
        for number in range(2, words[-1].count("/") + 2):
            self.folders.add("/".join(words[-1].split("/")[:number]))
        return ""

    def do_install(self, words, given):
        self.files[words[-1]] = ""
        return ""

    def do_dd(self, words, given):
        (path,) = (word.removeprefix("of=") for word in words if word.startswith("of="))
        self.files[path] = given
        return ""

    def do_cat(self, words, given):
        if words[0] not in self.files:
            raise Refused(f"{words[0]}: No such file or directory")
        return self.files[words[0]]

    def do_rm(self, words, given):
        gone = words[-1]
        self.files = {path: text for path, text in self.files.items() if not (path + "/").startswith(gone + "/")}
        self.folders = {path for path in self.folders if not (path + "/").startswith(gone + "/")}
        return ""

    def do_rmdir(self, words, given):
        if words[0] not in self.folders or self.children(words[0]):
            raise Refused("not empty, or not there")
        self.folders.remove(words[0])
        return ""

    def do_ls(self, words, given):
        if words[-1] not in self.folders:
            raise Refused("No such file or directory", 2)
        return "".join(f"{name}\n" for name in self.children(words[-1]))

    def children(self, folder: str) -> list[str]:
        inside = (path for path in (*self.files, *self.folders) if path.startswith(f"{folder}/"))
        return sorted({path.removeprefix(f"{folder}/").partition("/")[0] for path in inside})
