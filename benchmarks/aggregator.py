"""Measures how many nodes an aggregation server can serve: exchanges over mutual TLS, one connection per node.

The server is the real process; this process plays all nodes, so that on a machine with two CPUs each side has one.
Nodes send their next request as soon as they have an answer, so that the server (or this process) is measured at its
limit. The best of three rounds counts.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from benchmarks.common import parse, parser, run
from benchmarks.nodes import SECONDS, Files, Node, call_continuously, call_periodically, certificates, connect, running
from carico.config import TlsFiles
from carico.model.subspace import Subspace
from carico.rpc.messages import write_exchange

SEED = 1001
ROUNDS = 3
HOLD_S = 20.0
EXCHANGES_PER_NODE_S = 0.45
"""How often an agent exchanges, as measured on the simulated cluster with the thesis's jobs."""
METHOD = "/carico.v1.Aggregation/ExchangeStream"


def main() -> int:
    """Measure, print the table and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--hold", type=int, default=0, metavar="N", help="instead measure N nodes that exchange as often as agents do"
    )
    options = parse(arguments)
    if not 0 <= options.hold <= 1_000_000:
        arguments.error(f"--hold must be in [0, 1000000], got {options.hold}")
    return run("aggregator", lambda: hold(options.hold) if options.hold else measure(), options.json)


def measure() -> dict[str, float]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as folder:
        files = certificates(Path(folder), "aggregator")
        with running(Path(folder), "aggregator", {"port": 0, "tls": files.pop("aggregator")}) as serving:
            rate, latencies = asyncio.run(_measured(f"localhost:{serving['port']}", files))
    return {
        "exchanges_per_s_best_256": rate,
        "exchange_p99_ms_256": 1e3 * float(np.percentile(latencies, 99)),
        "nodes_supported": rate / EXCHANGES_PER_NODE_S,
    }


def hold(number: int) -> dict[str, float]:
    """Return latencies, and the server's CPU and memory, with `number` nodes; this process needs as much again."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        files = certificates(Path(folder), "aggregator", nodes=number)
        with running(Path(folder), "aggregator", {"port": 0, "tls": files.pop("aggregator")}) as serving:
            server = psutil.Process(int(str(serving["pid"])))
            latencies, used_s = asyncio.run(_held(f"localhost:{serving['port']}", files, server))
            return {
                "held_nodes": number,
                "held_exchanges_per_s": len(latencies) / HOLD_S,
                "held_exchange_p50_ms": 1e3 * float(np.percentile(latencies, 50)),
                "held_exchange_p99_ms": 1e3 * float(np.percentile(latencies, 99)),
                "held_server_cores": used_s / HOLD_S,
                "held_server_rss_mib": server.memory_info().rss / 2**20,
            }


async def _held(target: str, files: Files, server: psutil.Process) -> tuple[list[float], float]:
    nodes = _nodes(target, files)
    streams = [node.over_stream(METHOD) for node in nodes]
    await connect(streams)
    before = server.cpu_times()
    latencies = await call_periodically(streams, 1 / EXCHANGES_PER_NODE_S, HOLD_S)
    after = server.cpu_times()
    for node in nodes:
        await node.channel.close()
    return latencies, after.user + after.system - before.user - before.system


def _nodes(target: str, files: Files) -> list[Node]:
    rng = np.random.default_rng(SEED)
    return [
        Node(target, TlsFiles(**paths), partial(bytes, write_exchange(name, Subspace.from_batch(rng.random((2, 10))))))
        for name, paths in files.items()
    ]


async def _measured(target: str, files: Files) -> tuple[float, list[float]]:
    """Return the exchanges per second of 256 nodes in the best round, and that round's latencies, seconds."""
    nodes = _nodes(target, files)
    streams = [node.over_stream(METHOD) for node in nodes]
    await connect(streams)
    latencies = max([await call_continuously(streams) for _ in range(ROUNDS)], key=len)
    for node in nodes:
        await node.channel.close()
    return len(latencies) / SECONDS, latencies


if __name__ == "__main__":
    sys.exit(main())
