"""Guests in a XenServer or XCP-ng pool: calls of its XenAPI, over XML-RPC.

A guest is a clone of a template that the user has made once, with its disk and the way it boots. The clone has its
name, and the mark that it inherits from the template, from the moment it exists: both together make it ours. Its label
follows at once, and a guest with another label is not ours.

Calls block, so each guest has a thread with a session of its own. A guest's calls are made one after the other there:
what undoes a call waits for it, even if nobody waits for the call itself any more.

Calls that may take long run as tasks of the pool, which go on if the connection is lost or this process is killed. A
clone may thus appear when nobody expects it any more. Every task therefore has the guest's name from the moment it
exists, and a guest counts as there while it has one: a removal, in this run or in a later one, cancels the tasks, waits
for their end, and only then looks what there is to remove. Looking twice, some time apart, would be a guess instead: a
full copy of a disk may take any time.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import ssl
import xmlrpc.client
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from xml.parsers.expat import ExpatError

import XenAPI
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from testbed.errors import ClusterError, CommandFailed, Disconnected, UsageError
from testbed.real.waiting import wait_until_async
from testbed.real.xen.description import Description, XenApiHost, is_in_clear
from testbed.real.xen.pool_room import disks_of, lacking_memory, lacking_space
from testbed.real.xen.provisioner import Guest, name_pattern
from workloads.quantity import memory_bytes

PASSWORD_VARIABLE = "CARICO_XEN_PASSWORD"  # noqa: S105 (the variable's name)
TEMPLATE = "carico-template"
"""Key in `other_config` that marks a template for guests, and its clones."""
LABEL = "carico-cluster"
"""Key in `other_config` of a guest's label."""
HOST_KEY = "carico-host-key"
"""Key among the guest's metrics; the guest has written it to ``control/carico-host-key``."""
CALL_S = 30.0
"""The longest that an answer may take; what takes long in a pool is a task, whose state is asked for."""
TASK_GUEST = "carico-guest"
"""Key in `other_config` of the name of the guest that a task is for."""
_TASK_HEADER = f"x-http-other-config-{TASK_GUEST}"
"""The pool copies headers that begin so into the `other_config` of the task that a request makes."""
_UNFINISHED = ("pending", "cancelling")
_TASK_S = 900.0
"""The longest that a task may take; copying a disk takes minutes."""
SETTLE_S = 30.0
"""The longest that a removal waits for the end of tasks that it has cancelled; the next run then tries again."""
POLL_S = 0.5
FIRST_PAUSE_S = 1.0
"""The pause before a call is repeated, which then doubles."""
_TRIES = 3
_LOG_OUT_S = 5.0
_GONE = ("HANDLE_INVALID", "VM_BAD_POWER_STATE")
"""Failures that mean that something is done already."""
_NO_CONSOLE = "a pool keeps no text of its guests' consoles\n"


@dataclass(frozen=True)
class PoolLogin:
    """How to log in to a pool."""

    url: str
    user: str
    password: str = field(repr=False)
    certificate: str | None = None


class Refused(CommandFailed):
    """The pool has refused a call.

    Parameters
    ----------
    message : str
    code : str
        XenAPI's code of the failure, for example "SR_FULL".
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, None)
        self.code = code


class Silent(Disconnected):
    """The pool has not answered within `CALL_S`."""


class _SentOnce(xmlrpc.client.Transport):
    """Sends every request once, with a limit: Python's own transport repeats it if the connection is lost."""

    def request(self, host: Any, handler: str, request_body: Any, verbose: bool = False) -> Any:
        return self.single_request(host, handler, request_body, verbose)

    def send_request(self, host: Any, handler: str, request_body: Any, debug: bool) -> http.client.HTTPConnection:
        self.make_connection(host).timeout = CALL_S
        return super().send_request(host, handler, request_body, debug)


class _Encrypted(_SentOnce, xmlrpc.client.SafeTransport):
    """The same over TLS."""


class PoolSession:
    """Calls of a pool, one after the other in a thread of its own; the first one logs in.

    Parameters
    ----------
    login : PoolLogin
    guest : str
        The name of the guest that its tasks are for; empty if it has no tasks.
    """

    def __init__(self, login: PoolLogin, guest: str = "") -> None:
        self._login = login
        self._guest = guest
        self._thread = ThreadPoolExecutor(1, "pool")
        self._session: Any = None

    async def ask(self, method: str, *values: Any) -> Any:
        """Make a call that does no harm if it is made twice; see `change`."""
        return await _retrying()(self.change, method, *values)

    async def change(self, method: str, *values: Any) -> Any:
        """Make a call and return its value.

        Raises
        ------
        Refused
            If the pool refuses it.
        Disconnected
            If the pool does not answer.
        ClusterError
            If the pool's certificate is not trusted, or the password is wrong, or this is no pool.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, method, values)

    async def finish(self, method: str, *values: Any) -> None:
        """Make a call that may take long, as a task of the pool, and wait for its end; raises as `change` does."""
        task = await self.change(f"Async.{method}", *values)
        record: dict[str, Any] = {}

        async def running() -> str:
            record.update(await self.ask("task.get_record", task))
            return f"the pool's task is {record['status']}" if record["status"] in _UNFINISHED else ""

        await wait_until_async(f"{method} has ended", running, _TASK_S, POLL_S)
        await _unless_gone(self.ask("task.destroy", task))
        if record["status"] != "success":
            raise self._refused(method, record["error_info"] or ["TASK_CANCELLED"])

    async def close(self) -> None:
        """Log out, without waiting long for it: a pool forgets idle sessions itself."""
        left = asyncio.get_running_loop().run_in_executor(self._thread, self._log_out)
        self._thread.shutdown(wait=False)
        await asyncio.wait([left], timeout=_LOG_OUT_S)
        left.cancel()

    def _log_out(self) -> None:
        if self._session is not None:
            with suppress(XenAPI.Failure, OSError, http.client.HTTPException, xmlrpc.client.Error):
                self._session.xenapi.session.logout()
            self._forget()

    def _forget(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.transport.close()

    def _call(self, method: str, values: Sequence[Any]) -> Any:
        where = f"pool {self._login.url}"
        try:
            if self._session is None:
                self._session = _logged_in(self._login, self._guest)
            return self._session.xenapi_request(method, tuple(values))
        except XenAPI.Failure as error:
            if error.details[0] == "HOST_IS_SLAVE":  # another member has become the master meanwhile
                self._forget()
                raise Disconnected(f"{where} has a new master") from None
            raise self._refused(method, error.details) from None
        except ssl.SSLCertVerificationError as error:
            raise ClusterError(
                f"{where} shows a certificate that is not trusted ({error.verify_message}): name the file of its "
                f"certificate (host: certificate)"
            ) from error
        except TimeoutError as error:
            self._forget()
            raise Silent(f"{where} has not answered {method} within {CALL_S:g} s") from error
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            self._forget()
            raise Disconnected(f"{where} does not answer {method}: {error or type(error).__name__}") from error
        except (ExpatError, TypeError, ValueError) as error:  # a web page, for example
            self._forget()
            raise ClusterError(
                f"{where} does not answer {method} as a pool does ({error}): name the pool's own address (host: url)"
            ) from error

    def _refused(self, method: str, failure: Sequence[Any]) -> Refused:
        code, *details = map(str, failure)
        return Refused(f"pool {self._login.url}: {method} was refused: {code} {' '.join(details)}".rstrip(), code)


def _logged_in(login: PoolLogin, guest: str) -> Any:
    """Return a session; the member of the pool that is asked may name the master instead."""
    url = login.url
    for _ in range(2):
        session = _session(url, login.certificate, guest)
        try:
            session.login_with_password(login.user, login.password, "1.0", "carico-testbed")
            return session
        except XenAPI.Failure as error:
            session.transport.close()
            code, *details = map(str, error.details)
            if code == "HOST_IS_SLAVE":
                url = _url_of(details[0], url)
                if is_in_clear(url):
                    raise ClusterError(f"pool {login.url} names its master {url}: ask that one, by https://") from None
                continue
            if code == "SESSION_AUTHENTICATION_FAILED":
                raise ClusterError(f"pool {url} does not accept the password of user {login.user}") from None
            raise
        except BaseException:
            session.transport.close()
            raise
    raise ClusterError(f"pool {login.url}: its members do not agree which of them is the master")


def _url_of(master: str, member: str) -> str:
    """Return the address of a pool's master, asked as a member is."""
    parts = urlsplit(member)
    port = "" if parts.port is None else f":{parts.port}"
    return urlunsplit(parts._replace(netloc=f"[{master}]{port}" if ":" in master else f"{master}{port}"))


def _session(url: str, certificate: str | None, guest: str) -> Any:
    headers = [(_TASK_HEADER, guest)] if guest else []
    if url.startswith("http:"):
        return XenAPI.Session(url, transport=_SentOnce(headers=headers))
    try:
        context = ssl.create_default_context(cafile=certificate)
    except OSError as error:
        raise ClusterError(f"the certificate {certificate} cannot be used: {error}") from error
    return XenAPI.Session(url, transport=_Encrypted(headers=headers, context=context))


class XenApiDriver:
    """A `Driver` of a pool.

    Parameters
    ----------
    description : Description
        Its host must be a `XenApiHost`; its root is the name of the template.
    environment : mapping, optional
        Environment variables; the process's by default.
    """

    def __init__(self, description: Description, environment: Mapping[str, str] | None = None) -> None:
        assert isinstance(description.host, XenApiHost)
        self._guests = description.guests
        self._login = _login(description.host, os.environ if environment is None else environment)
        self._where = f"pool {description.host.url}"
        self._sessions: dict[str, PoolSession] = {}

    async def problems(self) -> Sequence[str]:
        """Check template, network, memory and space; see `Driver.problems`."""
        guests, ask = self._guests, self._general.ask
        records = await ask("VM.get_all_records")
        ours = {vm: record for vm, record in records.items() if {TEMPLATE, LABEL} <= record["other_config"].keys()}
        found, lacking = [], [await lacking_memory(ask, guests, ours.values())]
        try:
            lacking.append(await lacking_space(ask, guests, await self._template(), ours))
        except UsageError as error:
            found.append(str(error))
        try:
            await self._network()
        except UsageError as error:
            found.append(str(error))
        return found + [f"{self._where} {what}" for what in lacking if what]

    async def create(self, guest: Guest, public_key: str) -> None:
        """Clone the template and start the clone; see `Driver.create`."""
        pool = self._session(guest)
        if await pool.ask("VM.get_by_name_label", guest.name):
            raise ClusterError(f"{self._where} has a guest {guest.name} already, and not from this run")
        try:
            await self._create(pool, guest, public_key)
        except BaseException as error:
            try:
                await self.destroy(guest)
            except ClusterError as another:
                error.add_note(f"and then: {another}; the next run tries again to remove it")
            raise

    async def _create(self, pool: PoolSession, guest: Guest, public_key: str) -> None:
        guests, template, network = self._guests, await self._template(), await self._network()
        await pool.finish("VM.clone", template, guest.name)
        found = await self._found(pool, guest)
        if len(found) != 1:
            raise ClusterError(f"{self._where} has {len(found)} guests {guest.name} after one was made")
        vm = found[0][0]
        # A repeated call of these does the same again.
        other = await pool.ask("VM.get_other_config", vm)
        await pool.ask("VM.set_other_config", vm, other | {LABEL: guest.label})
        await pool.ask("VM.set_is_a_template", vm, False)
        await pool.ask("VM.set_tags", vm, ["carico", guest.label])
        size = str(memory_bytes(guests.memory))
        await pool.ask("VM.set_memory_limits", vm, size, size, size, size)
        await pool.ask("VM.set_VCPUs_at_startup", vm, "1")  # never more than the most, whatever the template has
        await pool.ask("VM.set_VCPUs_max", vm, str(guests.cores))
        await pool.ask("VM.set_VCPUs_at_startup", vm, str(guests.cores))
        shares = {"mask": guests.cpus, "weight": guests.weight, "cap": guests.cap}
        given = {key: str(value) for key, value in shares.items() if value is not None}
        await pool.ask("VM.set_VCPUs_params", vm, given)
        settings = {
            "name": guest.name,
            "address": f"{guest.address}/{guests.prefix}",
            "gateway": guests.gateway,
            "key": public_key,
        }
        await pool.ask("VM.set_xenstore_data", vm, {f"vm-data/carico/{key}": value for key, value in settings.items()})
        for interface in await pool.ask("VM.get_VIFs", vm):
            await pool.ask("VIF.destroy", interface)
        await pool.change("VIF.create", _interface(vm, network))
        await pool.finish("VM.start", vm, False, False)

    async def host_key(self, guest: Guest) -> str:
        """Read the guest's metrics; see `Driver.host_key`."""
        pool = self._session(guest)
        found = await self._found(pool, guest)
        running = [record for _, record in found if record["power_state"] == "Running"]
        if not running:
            raise ClusterError(f"guest {guest.name} has ended")
        try:
            told: Mapping[str, str] = await pool.ask("VM_guest_metrics.get_other", running[0]["guest_metrics"])
        except Refused:  # it has told nothing yet
            return ""
        return told.get(HOST_KEY, "").strip()

    async def console(self, guest: Guest) -> str:
        """Say that there is none; see `Driver.console`."""
        return _NO_CONSOLE

    async def destroy(self, guest: Guest) -> None:
        """Stop the guest, and remove its disks and itself; see `Driver.destroy`."""
        await _retrying()(self._destroy, self._session(guest), guest)

    async def _destroy(self, pool: PoolSession, guest: Guest) -> None:
        await self._settle(pool, guest)
        # More than one, if a clone was made whose answer was lost.
        for vm, record in await self._found(pool, guest):
            await _destroy(pool, vm, record)
        if await self._found(pool, guest):
            raise ClusterError(f"{self._where} still has guest {guest.name}")

    async def _settle(self, pool: PoolSession, guest: Guest) -> None:
        """Cancel what the pool still does for a guest, and wait for its end."""

        async def unfinished() -> str:
            tasks = await self._tasks(pool, guest)
            for task, record in tasks.items():
                if record["status"] not in _UNFINISHED:
                    await _unless_gone(pool.ask("task.destroy", task))
                elif record["status"] == "pending":
                    with suppress(Refused):  # it cannot be cancelled now, or has ended
                        await pool.ask("task.cancel", task)
            return ", ".join(sorted({record["name_label"] for record in tasks.values()}))

        await wait_until_async(
            f"{self._where} has ended its tasks for guest {guest.name}", unfinished, SETTLE_S, POLL_S
        )

    async def _tasks(self, pool: PoolSession, guest: Guest) -> dict[str, Mapping[str, Any]]:
        records: Mapping[str, Mapping[str, Any]] = await pool.ask("task.get_all_records")
        return {
            task: record for task, record in records.items() if record["other_config"].get(TASK_GUEST) == guest.name
        }

    async def numbers(self, label: str) -> set[int]:
        """Return the numbers of guests, and of those that tasks are for; see `Driver.numbers`."""
        pattern = name_pattern(label)
        # The tasks first: a clone whose task has ended meanwhile is then among the guests.
        tasks = await self._general.ask("task.get_all_records")
        vms = await self._general.ask("VM.get_all_records")
        names = {record["other_config"].get(TASK_GUEST, "") for record in tasks.values()}
        names |= {record["name_label"] for record in vms.values() if _is_ours(record, label)}
        return {int(match[1]) for name in names if (match := pattern.fullmatch(name))}

    async def forget(self, label: str) -> None:
        """Do nothing: a cluster without guests leaves nothing. See `Driver.forget`."""

    async def close(self) -> None:
        """Log out; see `Driver.close`."""
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    @property
    def _general(self) -> PoolSession:
        """The session for what concerns no guest."""
        return self._sessions.setdefault("", PoolSession(self._login))

    def _session(self, guest: Guest) -> PoolSession:
        return self._sessions.setdefault(guest.name, PoolSession(self._login, guest.name))

    async def _template(self) -> str:
        """Return the template; raises UsageError if it is not there, or is not marked."""
        name = self._guests.root
        found: list[str] = await self._general.ask("VM.get_by_name_label", name)
        if len(found) != 1:
            raise UsageError(f"{self._where} has {len(found)} templates {name!r} (guests: root), one is needed")
        if TEMPLATE not in await self._general.ask("VM.get_other_config", found[0]):
            raise UsageError(
                f"the template {name!r} is not marked as one for guests: xe template-param-set uuid=UUID "
                f"other-config:{TEMPLATE}=true"
            )
        return found[0]

    async def _network(self) -> str:
        """Return the guests' network; raises UsageError if it is not there."""
        name = self._guests.bridge
        found: list[str] = await self._general.ask("network.get_by_name_label", name)
        if len(found) != 1:
            raise UsageError(f"{self._where} has {len(found)} networks {name!r} (guests: bridge), one is needed")
        return found[0]

    async def _found(self, pool: PoolSession, guest: Guest) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what there is of the guest that is ours, and its records."""
        found = []
        for vm in await pool.ask("VM.get_by_name_label", guest.name):
            try:
                record = await pool.ask("VM.get_record", vm)
            except Refused as refused:
                if refused.code in _GONE:
                    continue
                raise
            if _is_ours(record, guest.label):
                found.append((vm, record))
        return found


async def _destroy(pool: PoolSession, vm: str, record: Mapping[str, Any]) -> None:
    if record["power_state"] != "Halted":
        await _unless_gone(pool.finish("VM.hard_shutdown", vm))
    # The disks first: without the guest nobody would know whose they are.
    for disk in await disks_of(pool.ask, vm):
        if len(await pool.ask("VDI.get_VBDs", disk)) == 1:  # nobody else's, too
            await _unless_gone(pool.finish("VDI.destroy", disk))
    await _unless_gone(pool.finish("VM.destroy", vm))


def _retrying() -> AsyncRetrying:
    """Return what repeats a call if the connection is lost; a pool that hangs would only be silent for longer."""
    return AsyncRetrying(
        retry=retry_if_exception_type(Disconnected) & retry_if_not_exception_type(Silent),
        stop=stop_after_attempt(_TRIES),
        wait=wait_exponential(FIRST_PAUSE_S, max=10),
        reraise=True,
    )


async def _unless_gone(call: Awaitable[None]) -> None:
    try:
        await call
    except Refused as refused:
        if refused.code not in _GONE:
            raise


def _is_ours(record: Mapping[str, Any], label: str) -> bool:
    """Whether a guest whose name is ours has our mark and no other label."""
    other = record["other_config"]
    return TEMPLATE in other and other.get(LABEL, label) == label


def _interface(vm: str, network: str) -> dict[str, Any]:
    return {
        "VM": vm,
        "network": network,
        "device": "0",
        "MAC": "",  # the pool chooses one
        "MTU": "1500",
        "other_config": {},
        "qos_algorithm_type": "",
        "qos_algorithm_params": {},
    }


def _login(host: XenApiHost, environment: Mapping[str, str]) -> PoolLogin:
    """Return how to log in; raises UsageError if there is no password."""
    if host.password is not None:
        try:
            password = Path(host.password).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            what = f"the file of the pool's password {host.password}"
            raise UsageError(f"{what} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:  # the error would have the password
            raise UsageError(f"the file of the pool's password {host.password} is no text in UTF-8") from None
    elif PASSWORD_VARIABLE in environment:
        password = environment[PASSWORD_VARIABLE]
    else:
        raise UsageError(
            f"there is no password for the pool: put it into a file that only you can read (host: password), or into "
            f"the environment variable {PASSWORD_VARIABLE}"
        )
    return PoolLogin(host.url, host.user, password, host.certificate)
