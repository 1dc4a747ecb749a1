"""Nodes that call a real server over mutual TLS, each over a connection of its own, as fast as they are answered."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import grpc
from grpc import aio

from carico.config import TlsFiles
from carico.deployment.authority import Authority
from carico.rpc.tls import PemFiles

NODES = 256
_AT_ONCE = 50
"""Connections that are made at the same time."""
SECONDS = 3.0

Ask = Callable[[], Awaitable[object]]
Files = dict[str, dict[str, str]]
"""Certificate, key and CA, by whose they are."""


class Node:
    """One node: its connection and what it says.

    Parameters
    ----------
    target : str
        host:port.
    files : TlsFiles
    request : callable
        Returns what it says next.
    """

    def __init__(self, target: str, files: TlsFiles, request: Callable[[], bytes]) -> None:
        pem = PemFiles(files)
        self.channel = aio.secure_channel(target, grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate))
        self._request = request

    def over_stream(self, method: str) -> Ask:
        """Return what asks over a stream, which is opened when it asks first."""
        open_stream: aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(method, None, None)
        opened: list[aio.StreamStreamCall[bytes, bytes]] = []

        async def ask() -> object:
            if not opened:
                opened.append(open_stream())
            stream = opened[0]
            await stream.write(self._request())
            return await stream.read()

        return ask


def certificates(folder: Path, *servers: str, nodes: int = NODES) -> Files:
    """Make a CA and return the files of the servers and of every node, node-0 and so on, by name."""
    authority = Authority(folder, datetime.now(UTC), valid_days=1)
    authority.make_ca()
    made = {server: authority.make_server(server, ["localhost"]) for server in servers}
    made |= {name: authority.make_node(name) for name in (f"node-{number}" for number in range(nodes))}
    return {
        name: {"certificate": str(file), "key": str(file.with_suffix(".key")), "ca": str(folder / "ca.crt")}
        for name, file in made.items()
    }


@contextmanager
def running(folder: Path, command: str, config: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Run a process of CARICO's and yield what its first line of log says, its ports among it, and its `pid`."""
    configuration = folder / f"{command}.yaml"
    configuration.write_text(json.dumps({**config, "logs": {"format": "json"}}))
    program = [sys.executable, "-m", "carico", command, "--config", str(configuration)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            said = server.stderr.readline()
            if not said.startswith("{"):
                raise RuntimeError(f"{' '.join(program)} did not start: {said.strip() or 'it said nothing'}")
            yield json.loads(said) | {"pid": server.pid}
        finally:
            server.terminate()


async def keeping_pace(asks: list[Ask], every_s: float, seconds: float) -> list[float]:
    """Ask with all, each once in `every_s` as far as answers come in time; return how long each took, seconds."""
    taken: list[float] = []
    began = perf_counter()

    async def again(number: int, ask: Ask) -> None:
        due = began + every_s * number / len(asks)
        while due < began + seconds:
            await asyncio.sleep(due - perf_counter())
            sent = perf_counter()
            await ask()
            taken.append(perf_counter() - sent)
            due = max(due + every_s, perf_counter())

    await asyncio.gather(*(again(number, ask) for number, ask in enumerate(asks)))
    return taken


async def connected(asks: list[Ask]) -> None:
    """Ask with all once, a few at a time: handshakes are not what is measured."""
    for first in range(0, len(asks), _AT_ONCE):
        await asyncio.gather(*(ask() for ask in asks[first : first + _AT_ONCE]))


async def asking(asks: list[Ask]) -> list[float]:
    """Ask with all at the same time, again and again; return how long each answer took, seconds."""
    taken: list[float] = []
    end = perf_counter() + SECONDS

    async def again(ask: Ask) -> None:
        began = perf_counter()
        while began < end:
            if await ask() is aio.EOF:
                raise grpc.RpcError("the server has ended the stream")
            now = perf_counter()
            taken.append(now - began)
            began = now

    await asyncio.gather(*map(again, asks))
    return taken
