"""Commands on a machine over SSH. The machine's host key is verified; arguments are quoted in this one place.

A command's arguments can be seen by everybody on the machine, so secrets go into its standard input.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncssh
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_fixed

from testbed.errors import ClusterError, CommandFailed, Disconnected

CONNECT_S = 60.0
"""A virtual machine that is busy starting takes 15 s and more to let somebody in."""
COMMAND_S = 120.0
_TRIES = 3
FIRST_PAUSE_S = 1.0
"""The pause before a command is tried again, which then doubles."""
_REFUSALS = 20
"""Attempts to get a session, which a server refuses that has too many."""
_LAST_LETTERS = 2000


@dataclass(frozen=True)
class Login:
    """How to log in to a machine."""

    what: str
    """The machine in messages, for example "dom0 10.0.0.1"."""
    address: str
    port: int
    user: str
    known_hosts: str | tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]
    """The file with host keys, or trusted keys, authorities and revoked keys; asyncssh's `known_hosts`."""
    keys: Sequence[asyncssh.SSHKey] | None = None
    """By default the keys of the SSH agent, or the user's own."""
    wrong_key: str = "make sure that nobody is between you and it"
    """What to do if the host key is not the expected one."""


class _Refused(Disconnected):
    """The server has no session for a command now; the command has not been run."""


class SshMachine:
    """A machine, to which a connection is made when it is needed.

    Parameters
    ----------
    login : Login
    at_once : int
        Commands at the same time; OpenSSH's server allows ten on a connection (`MaxSessions`). A server that allows
        fewer gets fewer.
    """

    def __init__(self, login: Login, at_once: int = 8) -> None:
        self._login = login
        self._at_once = at_once
        self._free = asyncio.Semaphore(at_once)
        self._connecting = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None

    async def run(
        self,
        *command: str,
        within: Sequence[str] = (),
        given: str = "",
        limit_s: float = COMMAND_S,
        repeatable: bool = False,
    ) -> str:
        """Run a command and return its output.

        Parameters
        ----------
        *command : str
            The program and its arguments.
        within : sequence of str
            A program that runs the command, such as `timeout`, and its own arguments.
        given : str
            Its standard input.
        limit_s : float
            The longest that it may take.
        repeatable : bool
            Whether it may be run again if the connection is lost, because running it twice does no harm.

        Raises
        ------
        CommandFailed
            If it ends with another status than 0.
        Disconnected
            If there is no connection, or it is lost, or the command takes too long.
        ClusterError
            If the machine is not the expected one, or refuses the key.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Disconnected),
            stop=stop_after_attempt(_TRIES if repeatable else 1),
            wait=wait_exponential(FIRST_PAUSE_S, max=10),
            reraise=True,
        )
        return await retrying(self._run, command, within, given, limit_s)

    async def write(self, path: str, text: str, mode: str = "0600") -> None:
        """Write a file, and make its folder; nobody else can read it before it has its mode. See `run`."""
        await self.run("install", "-D", "-m", mode, "/dev/null", path, repeatable=True)
        await self.run("dd", f"of={path}", "status=none", given=text, repeatable=True)

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _run(self, command: Sequence[str], within: Sequence[str], given: str, limit_s: float) -> str:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Refused),
            stop=stop_after_attempt(_REFUSALS),
            wait=wait_fixed(FIRST_PAUSE_S),
            reraise=True,
        )
        return await retrying(self._run_once, command, within, given, limit_s)

    async def _run_once(self, command: Sequence[str], within: Sequence[str], given: str, limit_s: float) -> str:
        name, what = " ".join(command[:3]), self._login.what
        async with self._turn():
            connection = await self._connected()
            try:
                async with asyncio.timeout(limit_s):
                    process: Any = await connection.create_process(
                        shlex.join([*within, *command]), stdin=asyncssh.PIPE, errors="replace"
                    )
                    try:
                        process.stdin.write(given)
                        process.stdin.write_eof()
                        output, complaint = await process.communicate()
                    finally:
                        process.close()
            except TimeoutError as error:
                raise Disconnected(f"{what}: {name} was not done after {limit_s:g} s") from error
            except (OSError, asyncssh.Error) as error:
                if isinstance(error, asyncssh.ChannelOpenError) and not connection.is_closed():
                    raise _Refused(f"{what} allows no session for {name} (sshd: MaxSessions): {error}") from error
                await self._forget(connection)
                raise Disconnected(f"{what}: the connection was lost during {name}: {error or 'closed'}") from error
        if process.exit_status is None and process.exit_signal is None:
            await self._forget(connection)
            raise Disconnected(f"{what}: the connection was lost during {name}")
        if process.exit_status != 0:
            ended = process.exit_status if process.exit_signal is None else process.exit_signal[0]
            said = (complaint.strip() or output.strip())[-_LAST_LETTERS:]
            raise CommandFailed(f"{what}: {name} ended with {ended}: {said}", process.exit_status)
        return str(output)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn; one at which the server refuses a session is not given back, unless it is the last."""
        await self._free.acquire()
        is_over = True
        try:
            yield
        except _Refused:
            is_over = self._at_once == 1
            self._at_once -= not is_over
            raise
        finally:
            if is_over:
                self._free.release()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._login)
            return self._connection

    async def _forget(self, connection: asyncssh.SSHClientConnection) -> None:
        if self._connection is connection:
            await self.close()


async def connect(login: Login) -> asyncssh.SSHClientConnection:
    """Connect to a machine; see `SshMachine.run` for what is raised."""
    keys = {} if login.keys is None else {"client_keys": list(login.keys), "agent_path": None}
    try:
        return await asyncssh.connect(
            login.address,
            login.port,
            username=login.user,
            known_hosts=login.known_hosts,
            config=None,  # a user's ~/.ssh/config must not switch off what is verified
            preferred_auth="publickey",
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=10,
            **keys,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise ClusterError(f"{login.what} shows a host key that is not the expected one: {login.wrong_key}") from error
    except asyncssh.PermissionDenied as error:
        raise ClusterError(f"{login.what} lets user {login.user} not in with this key: {error.reason}") from error
    except asyncssh.KeyExchangeFailed as error:  # it has no host key of the expected type, for example
        raise ClusterError(f"{login.what} and this machine do not agree on keys and ciphers: {error.reason}") from error
    except (OSError, asyncssh.Error) as error:
        raise Disconnected(f"{login.what} does not answer on port {login.port}: {error or 'timeout'}") from error
