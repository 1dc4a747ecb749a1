"""A fake Xen host: a real SSH server whose commands keep a small model of xl, xenstore, device mapper and loop devices.

Its guests are SSH servers, too, and know a little kubeadm: they join a fake cluster.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

import asyncssh

from tests.kits.fake_cluster import FakeCluster
from tests.kits.fake_machine import FakeMachine, Refused, ServerLoop

ROOT = "/dev/vdb"
TOKEN = "abcdef.0123456789abcdef"
JOIN = f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash sha256:{'a' * 64}\n"
TOKEN_SECRET = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef"
"""Where a control plane has the token, as an object of a fake cluster."""
ADMIN = "kind: Config\nsecret: the-administrators-key\n"


class FakeGuest(FakeMachine):
    """A guest that has started."""

    def __init__(self, name: str, authorized: str, cluster: FakeCluster) -> None:
        super().__init__(authorized)
        self.name = name
        self.cluster = cluster
        self.files["/etc/kubernetes/admin.conf"] = ADMIN

    def do_kubeadm(self, words, given):
        if words[0] == "token":
            return JOIN
        if "/run/carico/kubeadm.yaml" not in self.files:
            raise Refused("no configuration")
        ready = [{"type": "Ready", "status": "True"}]
        self.cluster.put(
            f"/api/v1/nodes/{self.name}",
            metadata={"name": self.name},
            spec={},
            status={"conditions": ready, "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "110"}},
        )
        return "This node has joined the cluster\n"

    def do_systemctl(self, words, given):
        return ""

    def do_kubectl(self, words, given):
        return "configmap/coredns configured\n"

    def do_journalctl(self, words, given):
        return f"journal of {self.name}\n"


@dataclass
class Domain:
    """A guest as the hypervisor sees it."""

    number: int
    name: str
    store: dict[str, str] = field(default_factory=dict)
    guest: FakeGuest | None = None
    memory: int = 0
    """MiB."""
    lock: str | None = None
    """The lock that the process holds which watches the guest as long as it runs; xl leaves it behind."""


class FakeDom0(FakeMachine):
    """A host with xl.

    Parameters
    ----------
    servers : ServerLoop
    authorized : str
        The public key that is let in.
    cluster : FakeCluster
        What its guests join.
    """

    def __init__(self, servers: ServerLoop, authorized: str, cluster: FakeCluster) -> None:
        super().__init__(authorized)
        self.servers = servers
        self.cluster = cluster
        self.domains: dict[str, Domain] = {"00000000-0000-0000-0000-000000000000": Domain(0, "Domain-0")}
        self.mapped: dict[str, tuple[str, str]] = {}
        """By name, id and table."""
        self.loops: dict[str, str] = {}
        self.guests: list[FakeGuest] = []
        """All that have ever started."""
        self.started = lambda guest: None
        """Called with every guest that starts."""
        self.silent: list[str] = []
        """Names of guests that never tell their host key."""
        self.short_lived: list[str] = []
        """Names of guests that end as soon as they are made."""
        self.free_mib = 100_000
        self.programs = {"blockdev", "dmsetup", "flock", "losetup", "timeout", "xenstore-read", "xenstore-write"}
        self.links: dict[str, str] = {}
        """Where a folder is in truth."""
        self.systems: dict[str, int] = {}
        """The file systems of files that are in others than the rest."""
        self.files |= dict.fromkeys(
            ("/boot/vmlinux", "/boot/initrd", "/images/root.img", ROOT, "/sys/class/net/xenbr0"), ""
        )
        self._locks: dict[str, asyncio.Lock] = {}
        self.port = servers.run(self.listen("127.0.0.1"))

    def close(self) -> None:
        async def end():
            self.end()
            for guest in self.guests:
                guest.end()

        self.servers.run(end())

    @property
    def left(self) -> list[str]:
        """What there is of guests, in words."""
        return [
            *(f"domain {one.name}" for one in self.domains.values() if one.number),
            *(f"mapped {name}" for name in self.mapped),
            *(f"loop {file}" for file in self.loops.values()),
            *(f"file {file}" for file in self.files if file.startswith("/var/lib/carico/")),
            *(f"folder {folder}" for folder in self.folders if folder.startswith("/var/lib/carico/")),
        ]

    def add_domain(self, uuid: str, name: str, **store: str) -> Domain:
        """Add a guest that somebody else, or an earlier run, has made."""
        number = max(one.number for one in self.domains.values()) + 1
        self.domains[uuid] = Domain(number, name, dict(store))
        return self.domains[uuid]

    async def perform(self, words, given):
        if words[0] == "flock":
            at = words.index("--wait")
            path, *words = words[at + 2 :]
            if path.rpartition("/")[0] not in self.folders:
                raise Refused(f"cannot open lock file {path}: No such file or directory", 66)
            if path in (one.lock for one in self.domains.values()):
                raise Refused("")  # at the end of a wait
            async with self._locks.setdefault(path, asyncio.Lock()):
                before = set(self.domains)
                try:
                    return await self.perform(tuple(words), given)
                finally:
                    if at == 1:  # without --close, what the command starts inherits the lock
                        for uuid in set(self.domains) - before:
                            self.domains[uuid].lock = path
        if words[0] == "timeout":
            return await super().perform(tuple(words[3:]), given)
        return await super().perform(tuple(words), given)

    def do_sh(self, words, given):
        """The only script is the one that prints which programs and files are lacking."""
        return "".join(f"{one}\n" for one in words[3:] if one not in self.files and one not in self.programs)

    def do_df(self, words, given):
        return f"Avail\n{self.free_mib}\n"

    def do_test(self, words, given):
        if words[-1] not in self.files:
            raise Refused("")
        return ""

    def do_realpath(self, words, given):
        return self.links.get(words[0], words[0]) + "\n"

    def do_stat(self, words, given):
        if words[-1] not in self.files:
            raise Refused(f"cannot statx {words[-1]}: No such file or directory")
        return "".join(f"{self.systems.get(word, 1)}\n" for word in words if word.startswith("/"))

    def do_truncate(self, words, given):
        self.files[words[-1]] = f"{words[1]} bytes"
        return ""

    def do_ln(self, words, given):
        self.files[words[-1]] = self.files[words[-2]]
        return ""

    def do_blockdev(self, words, given):
        return "2097152\n"

    def do_losetup(self, words, given):
        match words:
            case ("--find", "--show", *_, file):
                if file not in self.files:
                    raise Refused(f"{file}: No such file or directory")
                loop = f"/dev/loop{len(self.asked)}"
                self.loops[loop] = file
                return f"{loop}\n"
            case ("--detach", loop):
                if self.loops.pop(loop, None) is None:
                    raise Refused("No such device or address")
                return ""
        return "".join(f"{loop} {file}\n" for loop, file in self.loops.items())

    def do_dmsetup(self, words, given):
        match words:
            case ("create", name, "--uuid", uuid, "--table", table):
                if name in self.mapped:
                    raise Refused("Device or resource busy")
                self.mapped[name] = (uuid, table)
                return ""
            case ("remove", "--retry", name):
                if self.mapped.pop(name, None) is None:
                    raise Refused("No such device or address")
                return ""
        return "".join(f"{name} {uuid}\n" for name, (uuid, _) in self.mapped.items()) or "No devices found\n"

    async def do_xl(self, words, given):
        match words:
            case ("info",):
                free = self.free_mib - sum(one.memory for one in self.domains.values())
                return f"host : xen\nfree_memory            : {free}\n"
            case ("list",):
                lines = [
                    f"{one.name:40} {one.number:5} {one.memory:5}     1     -b----       0.1\n"
                    for one in self.domains.values()
                ]
                return "".join(["Name      ID   Mem VCPUs\tState\tTime(s)\n", *lines])
            case ("vm-list",):
                lines = [f"{uuid}  {one.number:5}    {one.name:20}" for uuid, one in self.domains.items()]
                return "\n".join(["UUID                                  ID    name", *lines]) + "\n"
            case ("create", config):
                return await self._create(self.files[config])
            case ("destroy", number):
                for uuid, one in list(self.domains.items()):
                    if str(one.number) == number:
                        del self.domains[uuid]
                        if one.guest is not None:
                            one.guest.end()
                        return ""
                raise Refused("no such domain")
        raise Refused("unknown")

    async def _create(self, config: str) -> str:
        def value(key):
            return re.search(rf'^{key} = "?(.*?)"?$', config, re.MULTILINE)[1]

        name = value("name")
        if f"/dev/mapper/{name}" not in config or name not in self.mapped:
            raise Refused("the disk is not there")
        domain = self.add_domain(value("uuid"), name)
        settings = dict(re.findall(r"carico\.([a-z]+)=(\S+)", value("extra")))
        guest = FakeGuest(settings["name"], f"ssh-ed25519 {settings['key']}", self.cluster)
        domain.guest = guest
        domain.memory = int(value("memory"))
        self.guests.append(guest)
        self.started(guest)
        await guest.listen(settings["address"].partition("/")[0], self.port)
        if name not in self.silent:
            domain.store["data/carico/host-key"] = guest.public_host_key
        if name in self.short_lived:
            del self.domains[value("uuid")]
            guest.end()
        return "Parsing config\n"

    def do_xenstore_read(self, words, given):
        _, _, _, number, key = words[0].split("/", 4)
        for one in self.domains.values():
            if str(one.number) == number and key in one.store:
                return one.store[key] + "\n"
        raise Refused("couldn't read path")

    def do_xenstore_write(self, words, given):
        _, _, _, number, key = words[0].split("/", 4)
        for one in self.domains.values():
            if str(one.number) == number:
                one.store[key] = words[1]
                return ""
        raise Refused("no such domain")


def new_key() -> asyncssh.SSHKey:
    """Return a new private key."""
    return asyncssh.generate_private_key("ssh-ed25519")
