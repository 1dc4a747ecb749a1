"""The file that describes guests and the host that runs them, for `--xen FILE`: its types are its schema.

It has no secrets: passwords and keys come from files of their own, from the environment or from the SSH agent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from carico.config import PlainLoader
from testbed.errors import UsageError
from workloads.errors import InvalidQuantity, Misfit
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
Interface = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,15}$(?!\n)")]
Port = Annotated[int, Meta(ge=1, le=65535)]

SMALL: Mapping[str, Any] = {"count": 3, "cores": 1, "memory": "1Gi"}
THESIS: Mapping[str, Any] = {"count": 20, "cores": 4, "memory": "8Gi", "reserved": {"cpu": "0", "memory": "0"}}
"""The thesis's cluster (appendix B.1): a control plane and 19 workers, whose kubelets reserve nothing."""
GUEST_PRESETS: Mapping[str, Mapping[str, Any]] = {"small": SMALL, "thesis": THESIS}


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
    """IPv4 addresses of one network, whose last numbers differ: a guest's pods get the network 10.244.NUMBER.0/24."""
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
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no YAML: {error}") from error
    try:
        description: Description = fitted(_with_preset(document), Description)
    except Misfit as error:
        raise UsageError(f"{file}: {placed(error, text, PlainLoader)}") from error
    try:
        _check(description)
    except (ValueError, InvalidQuantity) as error:
        raise UsageError(f"{file}: {error}") from error
    return _absolute(description, file.absolute().parent)


def _with_preset(document: Any) -> Any:
    """Return the document with the fields of the preset that its guests name, where it has no others."""
    guests = document.get("guests") if isinstance(document, dict) else None
    name = guests.get("preset") if isinstance(guests, dict) else None
    preset = GUEST_PRESETS.get(name) if isinstance(name, str) else None
    return document if guests is None or preset is None else {**document, "guests": {**preset, **guests}}


def _check(description: Description) -> None:
    """Check what a schema cannot say; raises ValueError."""
    guests = description.guests
    network = ipaddress.IPv4Interface(f"{guests.gateway}/{guests.prefix}").network
    addresses = [ipaddress.IPv4Address(address) for address in guests.addresses]
    if len(addresses) < guests.count:
        raise ValueError(f"guests: {guests.count} guests need as many addresses, got {len(addresses)}")
    for address in addresses:
        if address not in network:
            raise ValueError(f"guests: the address {address} is not in the gateway's network {network}")
    numbers = [address.packed[-1] for address in addresses]
    if not all(2 <= number <= 254 for number in numbers):
        raise ValueError("guests: the last numbers of the addresses must be 2 to 254")
    if len(set(numbers)) < len(numbers):
        raise ValueError("guests: the last numbers of the addresses must differ, they are the numbers of pod networks")
    for field in ("memory", "writable"):
        if memory_bytes(getattr(guests, field)) < 1 << 20:
            raise ValueError(f"guests: {field} is {getattr(guests, field)!r}, at least 1Mi is needed")
    millicpu(guests.reserved.cpu), memory_bytes(guests.reserved.memory)
    if isinstance(description.host, XlHost):
        if not guests.root.startswith("/"):
            raise ValueError(f"guests: root is {guests.root!r}, an absolute path in dom0 is needed")
        if guests.kernel is None or guests.ramdisk is None:
            raise ValueError("guests: kernel and ramdisk are needed, paths in dom0")
    elif guests.kernel is not None or guests.ramdisk is not None:
        raise ValueError("guests: a pool's template has its own kernel and ramdisk: leave them out")
    if description.workers < 1:
        raise ValueError("guests: the only guest would be the control plane: count must be 2 or more")


def _absolute(description: Description, folder: Path) -> Description:
    def absolute(struct: Any, *fields: str) -> Any:
        given = {field: getattr(struct, field) for field in fields if getattr(struct, field) is not None}
        return msgspec.structs.replace(
            struct, **{field: str(folder / Path(value).expanduser()) for field, value in given.items()}
        )

    files = ("known_hosts", "key") if isinstance(description.host, XlHost) else ("password", "certificate")
    plane = description.control_plane
    return msgspec.structs.replace(
        description,
        host=absolute(description.host, *files),
        guests=absolute(description.guests, "image"),
        control_plane=None if plane is None else absolute(plane, "kubeconfig", "join"),
    )
