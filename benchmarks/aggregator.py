"""Measures how many nodes an aggregation server carries: exchanges over mutual TLS, a connection of its own per node.

The server is the real process, the nodes share this one; on a machine with two CPUs each side has one. All nodes call
again as soon as they are answered, so what is measured is the server (or this process) at its limit. Best of three.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import grpc
import numpy as np
from grpc import aio

from benchmarks.common import parse, parser, report
from carico.certs import Authority
from carico.config import TlsFiles
from carico.rpc.messages import write_exchange
from carico.rpc.tls import ChannelCredentials
from carico.subspace import Subspace

SEED = 1001
ROUNDS = 3
SECONDS = 3.0
NODES = 256
EXCHANGES_PER_NODE_S = 0.45
"""What an agent needs: measured in the simulated cluster under the thesis's jobs."""
SERVICE = "/carico.v1.Aggregation"

Exchange = Callable[[], Awaitable[object]]


class Node:
    """One node: its connection and what it says."""

    def __init__(self, name: str, target: str, files: TlsFiles, own: Subspace) -> None:
        self.channel = aio.secure_channel(target, ChannelCredentials(files).current())
        self.request = write_exchange(name, own)
        self._unary: aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(
            f"{SERVICE}/Exchange", None, None
        )

    async def unary(self) -> bytes:
        """Exchange with a call."""
        return await self._unary(self.request)

    def over_stream(self) -> Exchange:
        """Open a stream and return what exchanges over it."""
        open_stream: aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(
            f"{SERVICE}/ExchangeStream", None, None
        )
        stream = open_stream()

        async def exchange() -> object:
            await stream.write(self.request)
            return await stream.read()

        return exchange


def main() -> int:
    """Measure, print the table and write the figures."""
    options = parse(parser(__doc__))
    try:
        figures = measure()
    except KeyboardInterrupt:
        return 130
    for name, figure in figures.items():
        print(f"{name:<26}  {figure:10.2f}")
    report("aggregator", figures, options.json)
    return 0


def measure() -> dict[str, float]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as folder:
        files = certificates(Path(folder))
        config = {"port": 0, "tls": files.pop("aggregator"), "logs": {"format": "json"}}
        configuration = Path(folder) / "aggregator.yaml"
        configuration.write_text(json.dumps(config))
        command = [sys.executable, "-m", "carico", "aggregator", "--config", str(configuration)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                port = json.loads(server.stderr.readline())["port"]
                unary, streams, latencies = asyncio.run(_measured(f"localhost:{port}", files))
            finally:
                server.terminate()
    return {
        "exchanges_per_s_unary_16": unary,
        "exchanges_per_s_best_256": streams,
        "exchange_p99_ms_256": 1e3 * float(np.percentile(latencies, 99)),
        "nodes_supported": streams / EXCHANGES_PER_NODE_S,
    }


def certificates(folder: Path) -> dict[str, dict[str, str]]:
    """Make a CA and return the files of the server, ``aggregator``, and of every node, by name."""
    authority = Authority(folder, datetime.now(UTC), valid_days=1)
    authority.make_ca()
    made = {"aggregator": authority.make_server("aggregator", ["localhost"])}
    made |= {name: authority.make_node(name) for name in (f"node-{number}" for number in range(NODES))}
    return {
        name: {"certificate": str(file), "key": str(file.with_suffix(".key")), "ca": str(folder / "ca.crt")}
        for name, file in made.items()
    }


async def _measured(target: str, files: dict[str, dict[str, str]]) -> tuple[float, float, list[float]]:
    """Exchanges per second by 16 calls and by 256 streams, and the latencies of the best round of those, seconds."""
    rng = np.random.default_rng(SEED)
    nodes = [
        Node(name, target, TlsFiles(**paths), Subspace.from_batch(rng.random((2, 10)))) for name, paths in files.items()
    ]
    await asyncio.gather(*(node.unary() for node in nodes))  # connects, which is not what is asked for
    streams = [node.over_stream() for node in nodes]
    unary, best, latencies = 0.0, 0.0, [0.0]
    for _ in range(ROUNDS):
        taken = await exchanging([node.unary for node in nodes[:16]])
        unary = max(unary, len(taken) / SECONDS)
        taken = await exchanging(streams)
        if len(taken) / SECONDS > best:
            best, latencies = len(taken) / SECONDS, taken
    for node in nodes:
        await node.channel.close()
    return unary, best, latencies


async def exchanging(exchanges: list[Exchange]) -> list[float]:
    """Exchange with all at the same time, again and again; return how long each took, seconds."""
    taken: list[float] = []
    end = perf_counter() + SECONDS

    async def again(exchange: Exchange) -> None:
        began = perf_counter()
        while began < end:
            if await exchange() is aio.EOF:
                raise grpc.RpcError("the server has ended the stream")
            now = perf_counter()
            taken.append(now - began)
            began = now

    await asyncio.gather(*map(again, exchanges))
    return taken


if __name__ == "__main__":
    sys.exit(main())
