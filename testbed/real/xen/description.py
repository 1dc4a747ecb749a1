"""The file that describes guests and the host that runs them, for `--xen FILE`: its types are its schema.

It has no secrets: passwords and keys come from files of their own, from the environment or from the SSH agent.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import yaml
from msgspec import Meta

from carico.config import PlainLoader, yaml_problem
from testbed.errors import UsageError
from workloads.errors import InvalidQuantity, Key, Misfit
from workloads.fitting import fitted
from workloads.quantity import memory_bytes, millicpu
from workloads.yaml_places import placed

# What goes into a guest's configuration on the host has no quotes and no control characters, as xl knows no escapes.
Plain = Annotated[
    str,
    Meta(
        pattern=r"^[^\"'\\\x00-\x1f]+$(?!\n)",
        extra={"wanted": "text without quotes, backslashes and control characters"},
    ),
]
HostPath = Annotated[
    str,
    Meta(
        pattern=r"^(/[A-Za-z0-9._+-]+)+$(?!\n)",
        extra={"wanted": "an absolute path of letters, digits and the signs . _ + -"},
    ),
]
"""An absolute path on the host."""
Port = Annotated[int, Meta(ge=1, le=65535)]

SMALL: Mapping[str, Any] = {"count": 3, "cores": 1, "memory": "1Gi"}
THESIS: Mapping[str, Any] = {"count": 20, "cores": 4, "memory": "8Gi", "reserved": {"cpu": "0", "memory": "0"}}
"""The thesis's cluster (appendix B.1): a control plane and 19 workers, whose kubelets reserve nothing."""
GUEST_PRESETS: Mapping[str, Mapping[str, Any]] = {"small": SMALL, "thesis": THESIS}
_INTERFACE = re.compile(r"[A-Za-z0-9._-]{1,15}")
"""The name of a network device, of which xl's configuration needs no quoting."""
_OF_TEMPLATE = ("kernel", "ramdisk", "type", "arguments", "writable")
"""Fields of guests that a pool's template settles."""
_NUMBERS = range(2, 255)
"""The last numbers that addresses may have."""


class XlHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="xl", tag_field="driver"):
    """A Xen host whose dom0 is reached over SSH, and whose toolstack is xl."""

    address: Plain
    known_hosts: str
    """The file that has the host's key, in OpenSSH's format."""
    port: Port = 22
    user: Plain = "root"
    key: str | None = None
    """The file of the private key; by default the environment variable CARICO_XEN_KEY, else the SSH agent."""
    folder: HostPath = "/var/lib/carico"
    """The folder on the host for the guests' files."""


class XenApiHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="xenapi", tag_field="driver"):
    """A XenServer or XCP-ng pool, reached over XenAPI."""

    url: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^\s@]+$(?!\n)",
            extra={"wanted": "an https:// or http:// address without user and password", "hidden": True},
        ),
    ]
    """The address of the pool's master, or of any other member, which names the master."""
    user: str = "root"
    password: str | None = None
    """The file of the password; by default the environment variable CARICO_XEN_PASSWORD."""
    certificate: str | None = None
    """The file of the pool's certificate, or of the authority that signed it; by default the system's authorities."""


Host = XlHost | XenApiHost


class Reserved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a kubelet keeps back from pods (`systemReserved`)."""

    cpu: str = "0"
    memory: str = "0"


class Guests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The guests, which are alike."""

    addresses: Annotated[list[str], Meta(min_length=1)]
    """IPv4 addresses that differ in the last number only: a guest's pods get the network 10.244.NUMBER.0/24."""
    gateway: str
    root: Plain
    """The root disk that the guests' disks begin as, a path in dom0; in a pool, the name of the guests' template."""
    kernel: HostPath | None = None
    ramdisk: HostPath | None = None
    """Kernel and initial RAM disk: paths in dom0; a pool's template has its own."""
    preset: Literal["small", "thesis"] | None = None
    count: Annotated[int, Meta(ge=1, le=200)] = 3
    cores: Annotated[int, Meta(ge=1, le=512)] = 1
    memory: str = "1Gi"
    type: Literal["pv", "pvh", "hvm"] = "pv"
    image: str | None = None
    """The folder of the guests' image, with guest.json; by default the one that was built here."""
    arguments: Plain = "console=hvc0 psi=1"
    """Arguments for the kernel, besides the root disk and the guest's own settings."""
    writable: str = "8Gi"
    """The most that a guest can write to its disk; space is only taken for what it has written."""
    bridge: Plain = "xenbr0"
    """The bridge of the guests' network; in a pool, the network's name."""
    prefix: Annotated[int, Meta(ge=8, le=24)] = 24
    cpus: (
        Annotated[str, Meta(pattern=r"^[0-9,^-]+$(?!\n)", extra={"wanted": "a list of CPUs such as 0-3,^1"})] | None
    ) = None
    """The host's CPUs that may run them, for example "0-3"; all by default."""
    weight: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """A guest's weight under the hypervisor's scheduler credit2, 256 by default."""
    cap: Annotated[int, Meta(ge=0, le=51200)] | None = None
    """The most CPU time that a guest gets, percent of one CPU; 0 is no limit, the default."""
    reserved: Reserved = Reserved()


class ControlPlane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A control plane that is there already, and that all guests join."""

    kubeconfig: str
    """The file of an administrator's kubeconfig."""
    join: str
    """The file with the command `kubeadm join`, as `kubeadm token create --print-join-command` prints it."""


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Xen host and the guests to make on it."""

    host: Host
    guests: Guests
    control_plane: ControlPlane | None = None
    """By default the first guest becomes the control plane."""
    emulated: bool = False
    """Whether an emulator runs the hypervisor: results say so, because their times mean nothing."""
    at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Guests that are made at the same time."""
    limit_s: Annotated[float, Meta(ge=1, le=7200)] = 1800.0
    """The longest that making the cluster may take."""

    @property
    def workers(self) -> int:
        """The number of guests that pods of scenarios may run on."""
        return self.guests.count - (self.control_plane is None)


def read_description(file: Path) -> Description:
    """Read and check a description; its relative paths, which are relative to its folder, become absolute.

    Raises
    ------
    UsageError
        If it cannot be read, or is invalid; the message has the line.
    """
    try:
        text = file.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=PlainLoader)  # noqa: S506 (it is a SafeLoader)
    except OSError as error:
        raise UsageError(f"the description of Xen guests {file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is no YAML: {yaml_problem(error)}") from error
    try:
        description: Description = fitted(_with_preset(document), Description)
        _check(description)
        msgspec.json.encode(description)  # the clusters' registry holds it
    except Misfit as error:
        raise UsageError(f"{file}: {placed(error, text, PlainLoader)}") from error
    except UnicodeEncodeError as error:  # YAML can write half of a pair of surrogates, which is no text
        raise UsageError(f"{file}: every text needs whole characters: {error}") from error
    return _absolute(description, file.absolute().parent)


def _with_preset(document: Any) -> Any:
    """Return the document with the fields of the preset that its guests name, where it has no others."""
    guests = document.get("guests") if isinstance(document, dict) else None
    name = guests.get("preset") if isinstance(guests, dict) else None
    preset = GUEST_PRESETS.get(name) if isinstance(name, str) else None
    return document if guests is None or preset is None else {**document, "guests": {**preset, **guests}}


def _check(description: Description) -> None:
    """Check what a schema cannot say; raises Misfit."""
    _check_addresses(description)
    _check_size(description.guests)
    if isinstance(description.host, XlHost):
        _check_for_xl(description.guests)
    else:
        _check_for_pool(description.host, description.guests)
    if description.workers < 1:
        raise Misfit("2 or more are needed, as the only guest would be the control plane", "guests", "count")


def _check_addresses(description: Description) -> None:
    guests, host = description.guests, description.host
    gateway = _ipv4(guests.gateway, "gateway")
    network = ipaddress.IPv4Network((gateway, guests.prefix), strict=False)
    if gateway in (network.network_address, network.broadcast_address):
        raise Misfit(f"an address of a machine in {network} is needed, got {guests.gateway!r}", "guests", "gateway")
    if len(guests.addresses) < guests.count:
        wanted = f"as many addresses as guests are needed, {guests.count}, got {len(guests.addresses)}"
        raise Misfit(wanted, "guests", "addresses")
    others = {guests.gateway: "the gateway", host.address if isinstance(host, XlHost) else "": "dom0"}
    seen: dict[int, str] = {}
    for index, text in enumerate(guests.addresses):
        where = ("guests", "addresses", index)
        address = _ipv4(text, *where[1:])
        number = address.packed[-1]
        if address not in network:
            raise Misfit(f"an address in the gateway's network {network} is needed, got {text!r}", *where)
        if address.packed[:-1] != _ipv4(guests.addresses[0], "addresses", 0).packed[:-1]:
            first = guests.addresses[0]
            raise Misfit(
                f"an address that differs from {first!r} in the last number only is needed, got {text!r}", *where
            )
        if number not in _NUMBERS:
            raise Misfit(f"an address whose last number is from 2 to 254 is needed, got {text!r}", *where)
        if text in others:
            raise Misfit(f"a free address is needed, {text!r} is that of {others[text]}", *where)
        if number in seen:
            raise Misfit(
                f"an address whose last number no other has is needed, as it becomes the number of the guest's "
                f"pod network, got {text!r} after {seen[number]!r}",
                *where,
            )
        seen[number] = text


def _ipv4(text: str, *where: Key) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError as error:
        raise Misfit(f"an IPv4 address such as 10.0.0.10 is needed, got {text!r}", "guests", *where) from error


def _check_size(guests: Guests) -> None:
    for field in ("memory", "writable"):
        if _quantity(memory_bytes, getattr(guests, field), field) < 1 << 20:
            raise Misfit(f"1Mi or more is needed, got {getattr(guests, field)!r}", "guests", field)
    cpu, memory = guests.reserved.cpu, guests.reserved.memory
    if _quantity(millicpu, cpu, "reserved", "cpu") >= 1000 * guests.cores:
        raise Misfit(f"less than a guest has is needed, {guests.cores}, got {cpu!r}", "guests", "reserved", "cpu")
    if _quantity(memory_bytes, memory, "reserved", "memory") >= memory_bytes(guests.memory):
        raise Misfit(
            f"less than a guest has is needed, {guests.memory}, got {memory!r}", "guests", "reserved", "memory"
        )


def _quantity(read: Callable[[str], int], text: str, *where: Key) -> int:
    try:
        return read(text)
    except InvalidQuantity as error:
        raise Misfit(str(error), "guests", *where) from error


def _check_for_xl(guests: Guests) -> None:
    if not guests.root.startswith("/") or " " in guests.root:
        raise Misfit(f"an absolute path in dom0 without spaces is needed, got {guests.root!r}", "guests", "root")
    for field in ("kernel", "ramdisk"):
        if getattr(guests, field) is None:
            raise Misfit(f"{field} is missing: a path in dom0 is needed", "guests")
    if not _INTERFACE.fullmatch(guests.bridge):
        raise Misfit(f"the name of a network device in dom0 is needed, got {guests.bridge!r}", "guests", "bridge")


def _check_for_pool(host: XenApiHost, guests: Guests) -> None:
    try:
        is_address = bool(urlsplit(host.url).hostname) and urlsplit(host.url).port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Misfit("an address such as https://10.0.0.1 is needed", "host", "url")
    if is_in_clear(host.url):
        raise Misfit("https:// is needed: http:// would send the password in clear text", "host", "url")
    defaults = {field.name: field.default for field in msgspec.structs.fields(Guests)}
    for field in _OF_TEMPLATE:
        if getattr(guests, field) != defaults[field]:
            raise Misfit("the template of a pool settles this: leave it out", "guests", field)


def is_in_clear(url: str) -> bool:
    """Whether what is sent to an address leaves this machine without encryption."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def _absolute(description: Description, folder: Path) -> Description:
    def absolute(struct: Any, *fields: str) -> Any:
        given = {field: getattr(struct, field) for field in fields if getattr(struct, field) is not None}
        try:
            paths = {field: str(folder / Path(value).expanduser()) for field, value in given.items()}
        except RuntimeError as error:  # ~NAME, and there is no such user
            raise UsageError(f"{error} (one of {', '.join(map(repr, given.values()))})") from error
        return msgspec.structs.replace(struct, **paths)

    files = ("known_hosts", "key") if isinstance(description.host, XlHost) else ("password", "certificate")
    plane = description.control_plane
    return msgspec.structs.replace(
        description,
        host=absolute(description.host, *files),
        guests=absolute(description.guests, "image"),
        control_plane=None if plane is None else absolute(plane, "kubeconfig", "join"),
    )
