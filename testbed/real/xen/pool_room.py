"""Whether a pool has the memory and the space that guests need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from testbed.real.xen.description import Guests
from testbed.real.xen.provisioner import GUEST_BYTES
from workloads.quantity import memory_bytes

Ask = Callable[..., Awaitable[Any]]
"""Makes a call of the pool that changes nothing, and returns its value."""
_THICK = "lvm"
"""The types of storage that take the whole size of a disk when a guest uses it begin so."""


async def lacking_memory(ask: Ask, guests: Guests, ours: Iterable[Mapping[str, Any]]) -> str:
    """Return why the pool's hosts have too little memory for the guests; an empty text if they have enough.

    Parameters
    ----------
    ask : callable
    guests : Guests
    ours : iterable of mapping
        Records of the guests that the testbed has made before. Their memory counts as free: kept ones are used again,
        and those of killed runs are removed.
    """
    hosts = await ask("host.get_all_records")
    # What `VM.start` itself goes by; the host's metrics lag behind.
    free = {
        host: int(await ask("host.compute_free_memory", host)) for host, record in hosts.items() if record["enabled"]
    }
    for vm in ours:
        if vm["resident_on"] in free:
            free[vm["resident_on"]] += int(vm["memory_static_max"])
    size = memory_bytes(guests.memory)
    fitting = sum(bytes_free // size for bytes_free in free.values())  # no guest is on two hosts
    if fitting >= guests.count:
        return ""
    return (
        f"has {sum(free.values()) >> 20} MiB of memory free on enabled hosts, where {fitting} guests of "
        f"{guests.memory} fit; {guests.count} guests need {guests.count * size >> 20} MiB: describe fewer or smaller "
        f"ones, or stop others"
    )


async def lacking_space(ask: Ask, guests: Guests, template: str, ours: Iterable[str]) -> str:
    """Return where the pool has too little space for clones of a template; an empty text if it has enough.

    Parameters
    ----------
    ask : callable
    guests : Guests
    template : str
    ours : iterable of str
        The guests that the testbed has made before; see `lacking_memory`.
    """
    sizes: defaultdict[str, int] = defaultdict(int)
    for disk in await disks_of(ask, template):
        record = await ask("VDI.get_record", disk)
        sizes[record["SR"]] += int(record["virtual_size"])
    for storage, size in sizes.items():
        found = await ask("SR.get_record", storage)
        if int(found["physical_size"]) <= 0:  # this type of storage does not know
            continue
        needed = guests.count * (size if found["type"].startswith(_THICK) else GUEST_BYTES)
        free = int(found["physical_size"]) - int(found["physical_utilisation"])
        if free < needed:
            free += await _taken(ask, storage, ours)
        if free < needed:
            return (
                f"has {free >> 20} MiB free in the storage {found['name_label']!r} of the template's disk, "
                f"{guests.count} guests need {needed >> 20} MiB: make room, or copy the template to another storage"
            )
    return ""


async def _taken(ask: Ask, storage: str, guests: Iterable[str]) -> int:
    """Return the bytes that guests take in a storage."""
    records = [await ask("VDI.get_record", disk) for guest in guests for disk in await disks_of(ask, guest)]
    return sum(int(record["physical_utilisation"]) for record in records if record["SR"] == storage)


async def disks_of(ask: Ask, vm: str) -> list[str]:
    """Return the disks of a guest."""
    devices = [await ask("VBD.get_record", attached) for attached in await ask("VM.get_VBDs", vm)]
    return [device["VDI"] for device in devices if device["type"] == "Disk" and not device["empty"]]
