"""A fake pool of Xen hosts: a real XML-RPC server with the few classes of XenAPI that guests need.

Its guests are SSH servers, as those of `fake_dom0`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from uuid import uuid4
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from tests.kits.fake_cluster import FakeCluster
from tests.kits.fake_dom0 import FakeGuest
from tests.kits.fake_machine import ServerLoop

PASSWORD = "the-pools-password"
TEMPLATE = "carico-guest"
NETWORK = "guests"
HOST = "OpaqueRef:host"


class Failure(Exception):
    """A failure of XenAPI: its code and details."""


@dataclass
class Trouble:
    """What happens to a call.

    `fail` has no effect; `lose` has its effect, but no answer; `slow` is answered late. The effect of `long`, and of
    `late`, which is not answered, comes when `until` is set.
    """

    method: str
    how: str
    times: int = 1
    code: tuple[str, ...] = ("INTERNAL_ERROR", "it failed")
    then: Callable[[], None] = lambda: None
    until: threading.Event = field(default_factory=threading.Event)


class _Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ()
    protocol_version = "HTTP/1.1"

    def decode_request_content(self, data):
        self.server.asked.headers = self.headers
        return super().decode_request_content(data)

    def log_message(self, *said):
        pass


class _Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True

    def __init__(self, *settings, **more):
        super().__init__(*settings, **more)
        self.asked = threading.local()
        """The headers of the request that a thread answers."""


class FakePool:
    """A pool.

    Parameters
    ----------
    servers : ServerLoop
    cluster : FakeCluster
        What its guests join.
    port : int
        Where its guests' SSH servers listen.
    listen : tuple of str and int
        Address and port of the pool.
    """

    def __init__(
        self, servers: ServerLoop, cluster: FakeCluster, port: int, listen: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        self.servers, self.cluster, self.port = servers, cluster, port
        self.master: str | None = None
        """The address of another member that is the master."""
        self.called: list[str] = []
        self.troubles: list[Trouble] = []
        self.answers = threading.Event()
        """Whether it answers, or lets everybody wait."""
        self.answers.set()
        self.cancels = True
        """Whether its tasks can be cancelled."""
        self.vms: dict[str, dict] = {}
        self.hosts = {HOST: {"enabled": True, "free": 64 << 30}}
        self.storage = {"name_label": "local", "type": "ext", "physical_size": 1 << 40, "physical_utilisation": 0}
        self.disk = {"virtual_size": 8 << 30, "physical_utilisation": 1 << 20}
        self.vbds: dict[str, dict] = {}
        self.vdis: dict[str, list[str]] = {}
        """The attachments of each disk."""
        self.vifs: dict[str, dict] = {}
        self.guests: dict[str, FakeGuest] = {}
        self.told: dict[str, dict[str, str]] = {}
        self.tasks: dict[str, dict] = {}
        self.sessions: set[str] = set()
        self.started = lambda guest: None
        self._lock = threading.RLock()
        self.template = self.add_vm(TEMPLATE, is_a_template=True, other_config={"carico-template": "true"})
        self._server = _Server(listen, _Handler, logRequests=False, allow_none=True)
        self._server._dispatch = self._dispatch
        self.address, self.own_port = self._server.server_address
        self.url = f"http://{self.address}:{self.own_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()

        async def end():
            for guest in self.guests.values():
                guest.end()

        self.servers.run(end())

    def add_vm(self, name: str, disks: int = 1, **fields) -> str:
        """Add a guest with disks, halted."""
        vm = f"OpaqueRef:{uuid4()}"
        self.vms[vm] = {
            "name_label": name,
            "is_a_template": False,
            "power_state": "Halted",
            "other_config": {},
            "tags": [],
            "guest_metrics": f"metrics of {vm}",
            "resident_on": "OpaqueRef:NULL",
            "memory_static_max": str(1 << 30),
            "VIFs": [],
            "xenstore_data": {},
            **fields,
        }
        for _ in range(disks):
            vdi = f"disk {uuid4()}"
            self.vdis[vdi] = []
            self.attach(vm, vdi)
        return vm

    def attach(self, vm: str, vdi: str) -> None:
        vbd = f"attachment {uuid4()}"
        self.vbds[vbd] = {"VM": vm, "VDI": vdi, "type": "Disk", "empty": False}
        self.vdis[vdi].append(vbd)

    @property
    def names(self) -> list[str]:
        """The names of all guests but the template."""
        return sorted(vm["name_label"] for ref, vm in self.vms.items() if ref != self.template)

    def _dispatch(self, asked, params):
        method = asked.removeprefix("Async.")
        self.called.append(method)
        self.answers.wait()
        trouble = next((one for one in self.troubles if one.times and one.method == method), None)
        how = "" if trouble is None else trouble.how
        try:
            if method.startswith("session."):
                self._fail(trouble)
                value = self._session(method, params)
            else:
                session, *values = params
                if session not in self.sessions:
                    raise Failure("SESSION_INVALID", session)
                if how in ("long", "late"):
                    value = self._task_for(method)
                    threading.Thread(target=self._run, args=(value, method, values, trouble), daemon=True).start()
                elif method != asked:
                    value = self._task_for(method)
                    self._run(value, method, values, trouble)
                else:
                    value = self._answer(method, values, trouble)
        except Failure as failure:
            return {"Status": "Failure", "ErrorDescription": list(failure.args)}
        if how not in ("", "fail"):
            trouble.times -= 1
            trouble.then()
            if how in ("lose", "late"):
                raise ConnectionResetError
            if how == "slow":
                threading.Event().wait(0.1)
        return {"Status": "Success", "Value": value}

    def _fail(self, trouble):
        if trouble is not None and trouble.how == "fail":
            trouble.times -= 1
            trouble.then()
            raise Failure(*trouble.code)

    def _task_for(self, method):
        """Make the task of a call, which has what the request's headers say."""
        prefix = "x-http-other-config-"
        headers = self._server.asked.headers.items()
        other = {key.lower().removeprefix(prefix): value for key, value in headers if key.lower().startswith(prefix)}
        task = f"OpaqueRef:task-{uuid4()}"
        self.tasks[task] = {"name_label": f"Async.{method}", "status": "pending", "other_config": other}
        return task

    def _run(self, task, method, values, trouble):
        record = self.tasks[task]
        if trouble is not None and trouble.how in ("long", "late"):
            trouble.until.wait()
        with self._lock:
            if record["status"] == "cancelled":
                return
            try:
                self._answer(method, values, trouble)
                record |= {"status": "success", "error_info": []}
            except Failure as failure:
                record |= {"status": "failure", "error_info": list(failure.args)}

    def _session(self, method, params):
        if method == "session.logout":
            self.sessions.discard(params[0])
            return ""
        if self.master is not None:
            raise Failure("HOST_IS_SLAVE", self.master)
        if params[1] != PASSWORD:
            raise Failure("SESSION_AUTHENTICATION_FAILED", params[0], "Authentication failure")
        session = f"OpaqueRef:session-{uuid4()}"
        self.sessions.add(session)
        return session

    def _answer(self, method, values, trouble):
        self._fail(trouble)
        kind, _, name = method.partition(".")
        with self._lock:
            return getattr(self, f"_{kind.lower()}")(name, *values)

    def _network(self, name, label):
        return ["OpaqueRef:network"] if label == NETWORK else []

    def _pool(self, name, *values):
        """What older versions of the package ask after a login."""
        return ["OpaqueRef:pool"] if name == "get_all" else "OpaqueRef:host"

    def _host(self, name, host=None):
        if name == "get_all_records":
            return {ref: {"enabled": record["enabled"]} for ref, record in self.hosts.items()}
        if name == "compute_free_memory":
            return str(self.hosts[host]["free"])
        return {"get_API_version_major": "2", "get_API_version_minor": "21"}[name]

    def _sr(self, name, storage):
        return {key: str(value) for key, value in self.storage.items()}

    def _task(self, name, *values):
        if name == "get_all_records":
            return self.tasks
        (task,) = values
        if task not in self.tasks:
            raise Failure("HANDLE_INVALID", "task", task)
        if name == "destroy":
            del self.tasks[task]
        elif name == "cancel":
            if self.tasks[task]["status"] != "pending" or not self.cancels:
                raise Failure("OPERATION_NOT_ALLOWED", task)
            self.tasks[task] |= {"status": "cancelled", "error_info": ["TASK_CANCELLED", task]}
        return self.tasks.get(task, "")

    def _vm_guest_metrics(self, name, metrics):
        if metrics not in self.told:
            raise Failure("HANDLE_INVALID", "VM_guest_metrics", metrics)
        return self.told[metrics]

    def _vif(self, name, value):
        if name == "create":
            self.vifs[f"interface {uuid4()}"] = value
        else:
            del self.vifs[value]
        return ""

    def _vbd(self, name, vbd):
        return self.vbds[vbd]

    def _vdi(self, name, vdi):
        if vdi not in self.vdis:
            raise Failure("HANDLE_INVALID", "VDI", vdi)
        if name == "get_VBDs":
            return self.vdis[vdi]
        if name == "get_record":
            return {"SR": "OpaqueRef:storage"} | {key: str(value) for key, value in self.disk.items()}
        for vbd in self.vdis.pop(vdi):
            del self.vbds[vbd]
        return ""

    def _vm(self, name, *values):
        if name == "get_by_name_label":
            return [ref for ref, vm in self.vms.items() if vm["name_label"] == values[0]]
        if name == "get_all_records":
            return self.vms
        ref, *values = values
        if ref not in self.vms:
            raise Failure("HANDLE_INVALID", "VM", ref)
        vm = self.vms[ref]
        if name.startswith("set_"):
            vm[name.removeprefix("set_")] = values[0] if len(values) == 1 else values
            return ""
        return getattr(self, f"_vm_{name.lower()}")(ref, vm, *values)

    def _vm_get_record(self, ref, vm):
        return vm

    def _vm_get_other_config(self, ref, vm):
        return vm["other_config"]

    def _vm_get_vifs(self, ref, vm):
        return [vif for vif, record in self.vifs.items() if record["VM"] == ref]

    def _vm_get_vbds(self, ref, vm):
        return [vbd for vbd, record in self.vbds.items() if record["VM"] == ref]

    def _vm_clone(self, ref, vm, name):
        disks = len(self._vm_get_vbds(ref, vm))
        fields = {key: value for key, value in vm.items() if key not in ("name_label", "guest_metrics")}
        return self.add_vm(name, disks, **fields, guest_metrics=f"metrics of {name}")

    def _vm_start(self, ref, vm, paused, force):
        if vm["power_state"] != "Halted":
            raise Failure("VM_BAD_POWER_STATE", ref, "halted", vm["power_state"])
        settings = {key.rpartition("/")[2]: value for key, value in vm["xenstore_data"].items()}
        guest = FakeGuest(settings["name"], f"ssh-ed25519 {settings['key']}", self.cluster)
        self.guests[ref] = guest
        self.started(guest)
        self.servers.run(guest.listen(settings["address"].partition("/")[0], self.port))
        vm |= {"power_state": "Running", "resident_on": HOST, "memory_static_max": vm["memory_limits"][0]}
        self.told[vm["guest_metrics"]] = {"carico-host-key": guest.public_host_key}
        return ""

    def _vm_hard_shutdown(self, ref, vm):
        if vm["power_state"] == "Halted":
            raise Failure("VM_BAD_POWER_STATE", ref, "running", "halted")
        vm["power_state"] = "Halted"
        if ref in self.guests:
            guest = self.guests[ref]
            self.servers.loop.call_soon_threadsafe(guest.end)
        return ""

    def _vm_destroy(self, ref, vm):
        if vm["power_state"] != "Halted":
            raise Failure("VM_BAD_POWER_STATE", ref, "halted", vm["power_state"])
        for vbd in self._vm_get_vbds(ref, vm):
            self.vdis[self.vbds.pop(vbd)["VDI"]].remove(vbd)
        for vif in self._vm_get_vifs(ref, vm):
            del self.vifs[vif]
        del self.vms[ref]
        return ""
