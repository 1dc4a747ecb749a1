"""Plays nodes that call a real server over mutual TLS, each over its own connection."""

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
"""How many connections are opened at the same time."""
SECONDS = 3.0
"""How long `call_continuously` measures."""

Call = Callable[[], Awaitable[object]]
Files = dict[str, dict[str, str]]
"""Paths of certificate, key and CA, by owner."""


class Node:
    """A node's connection.

    Parameters
    ----------
    target : str
        host:port of the server.
    files : TlsFiles
    request : callable
        Returns the next request.
    """

    def __init__(self, target: str, files: TlsFiles, request: Callable[[], bytes]) -> None:
        pem = PemFiles(files)
        self.channel = aio.secure_channel(target, grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate))
        self._request = request

    def over_stream(self, method: str) -> Call:
        """Return a call that sends a request over a stream, opened by the first call, and awaits the answer."""
        open_stream: aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(method, None, None)
        opened: list[aio.StreamStreamCall[bytes, bytes]] = []

        async def call() -> object:
            if not opened:
                opened.append(open_stream())
            stream = opened[0]
            await stream.write(self._request())
            return await stream.read()

        return call


def certificates(folder: Path, *servers: str, nodes: int = NODES) -> Files:
    """Make a CA, and certificates for the servers and for the nodes node-0, node-1 and so on; return files by name."""
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
    """Run one of CARICO's processes and yield its `pid` and what it logs once it serves, among it its ports."""
    configuration = folder / f"{command}.yaml"
    configuration.write_text(json.dumps({**config, "logs": {"format": "json"}}))
    program = [sys.executable, "-m", "carico", command, "--config", str(configuration)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            said = []
            for line in server.stderr:
                said.append(line.strip())
                if '"status_port"' in line:  # warnings may come before
                    break
            else:
                raise RuntimeError(f"{' '.join(program)} did not start: {' '.join(said) or 'it logged nothing'}")
            yield json.loads(line) | {"pid": server.pid}
        finally:
            server.terminate()


async def call_periodically(calls: list[Call], every_s: float, seconds: float) -> list[float]:
    """Make each call every `every_s` seconds, or later if its answer is late; return all latencies, seconds."""
    latencies: list[float] = []
    began = perf_counter()

    async def repeat(number: int, call: Call) -> None:
        due = began + every_s * number / len(calls)
        while due < began + seconds:
            await asyncio.sleep(due - perf_counter())
            sent = perf_counter()
            await call()
            latencies.append(perf_counter() - sent)
            due = max(due + every_s, perf_counter())

    await asyncio.gather(*(repeat(number, call) for number, call in enumerate(calls)))
    return latencies


async def connect(calls: list[Call]) -> None:
    """Make each call once, a few at a time, so that later measurements exclude handshakes."""
    for first in range(0, len(calls), _AT_ONCE):
        await asyncio.gather(*(call() for call in calls[first : first + _AT_ONCE]))


async def call_continuously(calls: list[Call]) -> list[float]:
    """Make all calls concurrently, each again as soon as it is answered; return all latencies, seconds."""
    latencies: list[float] = []
    end = perf_counter() + SECONDS

    async def repeat(call: Call) -> None:
        began = perf_counter()
        while began < end:
            if await call() is aio.EOF:
                raise grpc.RpcError("the server has ended the stream")
            now = perf_counter()
            latencies.append(now - began)
            began = now

    await asyncio.gather(*map(repeat, calls))
    return latencies
