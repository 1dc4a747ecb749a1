"""Connections to a port of this process that carry no call: how many each address may have, and cutting the others.

grpcio limits how many connections a server has, but not how many a peer has, and neither tells whose they are nor ends
one. The system does: a connection is a socket of this process, and a socket that is shut down here is closed by grpcio
as if the other side had gone. Connections that carry a call are never cut; they are limited by certificate.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote

EACH = 256
"""Connections of an address that may carry no call: an agent has one, from its handshake to its first call, which takes
milliseconds; thousands of agents may share an address, behind a gateway, and connect at once."""
_FILES = Path("/proc/self/fd")
_MOST_FILES = 1 << 20

Peer = tuple[str, int]
"""Address and port."""

# Python's own sockets would have to be made from each number, and would hand over to another thread with every call,
# which takes seconds while thousands connect.
_LIBC = ctypes.PyDLL(None, use_errno=True)


class IdleConnections:
    """The connections of one port that carry no call.

    Parameters
    ----------
    port : int
        The port that is listened on.
    most : int
        How many there may be in all; of further ones, addresses with many lose first.
    each : int, optional
        How many there may be of an address.
    """

    def __init__(self, port: int, most: int, each: int = EACH) -> None:
        self._port = port
        self._most = most
        self._each = each

    def may_be_too_many(self, calling: int) -> bool:
        """Return whether it is worth looking, because the process has so many open files; this costs microseconds.

        Parameters
        ----------
        calling : int
            How many connections carry a call.
        """
        return open_files() - calling > min(self._each, self._most)

    def cut(self, calling: Collection[Peer]) -> dict[str, int]:
        """Cut the connections that are too many, and return how many of each address.

        Parameters
        ----------
        calling : collection of (str, int)
            The peers whose connections carry a call.
        """
        idle: defaultdict[str, list[tuple[int, Peer]]] = defaultdict(list)
        for number in _numbers():
            peer = self._peer(number)
            if peer is not None and peer not in calling:
                idle[peer[0]].append((number, peer))
        each = self._each
        while each and sum(min(len(found), each) for found in idle.values()) > self._most:
            each //= 2
        # The newest tend to have the highest numbers: those that came first are about to make their calls.
        return {address: self._shut(found[each:]) for address, found in idle.items() if found[each:]}

    def _shut(self, found: list[tuple[int, Peer]]) -> int:
        # A number may belong to another file by now.
        return sum(
            self._peer(number) == peer and not _LIBC.shutdown(number, socket.SHUT_RDWR) for number, peer in found
        )

    def _peer(self, number: int) -> Peer | None:
        """Return the other side of a connection to the port; None of any other file."""
        own = _address(_LIBC.getsockname, number)
        return _address(_LIBC.getpeername, number) if own is not None and own[1] == self._port else None


def peer_of(name: str) -> Peer:
    """Return the peer that gRPC names, as in ``ipv4:127.0.0.1:1234`` or ``ipv6:%5B::1%5D:1234``.

    Examples
    --------
    >>> peer_of("ipv4:127.0.0.1:1234"), peer_of("ipv6:%5B::1%5D:1234"), peer_of("ipv6:%5B::ffff:127.0.0.1%5D:1234")
    (('127.0.0.1', 1234), ('::1', 1234), ('127.0.0.1', 1234))
    """
    host, _, port = unquote(name).partition(":")[2].rpartition(":")
    with suppress(ValueError):
        return _plain(host.strip("[]").partition("%")[0]), int(port)
    return name, 0


def open_files() -> int:
    """Return how many files this process has open."""
    # Since Linux 6.2 the size of this folder is the number of its entries.
    return _FILES.stat().st_size or len(os.listdir(_FILES))  # noqa: PTH208 (ten thousand names, not paths)


def _numbers() -> Iterator[int]:
    """Return the numbers of the open files, in order; the system gives every file the lowest number that is free."""
    left, size = open_files(), ctypes.c_uint32(0)
    for number in range(_MOST_FILES):
        if left <= 0:
            return
        if _LIBC.getsockname(number, None, ctypes.byref(size)) == 0 or ctypes.get_errno() != errno.EBADF:
            left -= 1
            yield number


def _address(which: ctypes._NamedFuncPointer, number: int) -> Peer | None:
    """Return an address of a socket; None if there is none."""
    found, size = ctypes.create_string_buffer(28), ctypes.c_uint32(28)
    if which(number, found, ctypes.byref(size)):
        return None
    family, port = int.from_bytes(found.raw[:2], sys.byteorder), int.from_bytes(found.raw[2:4], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(family, found.raw[4:8]), port
    return (_plain(socket.inet_ntop(family, found.raw[8:24])), port) if family == socket.AF_INET6 else None


def _plain(host: str) -> str:
    """Return an address as IPv4 if it is one that a socket for both families shows as IPv6."""
    address = ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
