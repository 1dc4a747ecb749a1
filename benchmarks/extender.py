"""Measures how fast the extender decides: sequential filter calls over one connection, as kube-scheduler makes them.

The server is a separate process with a journal, metrics, reservations that end, and a report from every node once a
second, as in production. These reports do not use gRPC, whose limit is measured separately. The client is this process,
which calls over plain HTTP on loopback.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.common import parse, parser, run
from benchmarks.nodes import SECONDS as ROUND_S
from benchmarks.nodes import Files, Node, call_continuously, certificates, connect, running
from carico import __version__
from carico.clock import SystemClock
from carico.config import ExtenderConfig, TlsFiles
from carico.extender.process import ExtenderProcess, OnReport
from carico.rpc.messages import write_report
from carico.scheduling.report import CapacityReport

SECONDS = 5.0
"""How long each figure is measured."""
SEED = 7


def main() -> int:
    """Measure, print the table and write the figures."""
    return run("extender", measure, parse(parser(__doc__)).json)


def measure() -> dict[str, float]:
    """Return all figures."""
    small, large, full = (decisions_s(nodes, room) for nodes, room in ((500, 50.0), (5000, 50.0), (5000, 0.9)))
    return {
        "pods_per_s_500": len(small) / small.sum(),
        "pods_per_s_5000": len(large) / large.sum(),
        "decision_p50_ms_5000": 1e3 * np.percentile(large, 50),
        "decision_p99_ms_5000": 1e3 * np.percentile(large, 99),
        "refusals_per_s_5000": len(full) / full.sum(),
        "reports_per_s_256": reports_per_s(),
    }


def reports_per_s() -> float:
    """Return how many reports a second the extender receives over streams and mutual TLS, without filter calls."""
    with tempfile.TemporaryDirectory() as folder:
        files = certificates(Path(folder), "extender")
        tls = files.pop("extender")
        config = {"port": 0, "report_port": 0, "tls": tls, "kubernetes": None, "journal": None}
        with running(Path(folder), "extender", config) as serving:
            return asyncio.run(_reporting(f"localhost:{serving['report_port']}", files))


async def _reporting(target: str, files: Files) -> float:
    numbers = itertools.count(1)

    def reports_of(name: str) -> Callable[[], bytes]:
        return lambda: write_report(
            CapacityReport(name, pod_capacity=2.0, pods=1, at_unix_s=1e9, sequence=next(numbers), version=__version__)
        )

    nodes = [Node(target, TlsFiles(**paths), reports_of(name)) for name, paths in files.items()]
    streams = [node.over_stream("/carico.v1.Capacity/ReportStream") for node in nodes]
    await connect(streams)
    latencies = await call_continuously(streams)
    for node in nodes:
        await node.channel.close()
    return len(latencies) / ROUND_S


def decisions_s(nodes: int, room: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the duration of each filter call, seconds, with `nodes` candidates of Pod-Capacity up to `room`."""
    names = [f"node-{number:05d}.cluster.example" for number in range(nodes)]
    took = []
    with served(names, room) as port, closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        end = time.perf_counter() + SECONDS
        pod = 0
        while time.perf_counter() < end:
            body = filter_body(f"uid-{pod}", names)
            began = time.perf_counter()
            connection.request("POST", "/filter", body)
            content = connection.getresponse().read()
            took.append(time.perf_counter() - began)
            answer = json.loads(content)
            if len(answer["NodeNames"]) != (room >= 1):
                raise RuntimeError(
                    f"the extender must answer with one node, or with none if all are full, got {str(answer)[:200]}"
                )
            pod += 1
    return np.array(took[10:])


def filter_body(uid: str, names: list[str]) -> bytes:
    """Return the body of a filter call for a pod of ordinary size."""
    container = {
        "name": "main",
        "image": "example.org/pi:1",
        "env": [{"name": f"V{i}", "value": "x" * 40} for i in range(20)],
    }
    pod = {
        "metadata": {"name": uid, "namespace": "jobs", "uid": uid, "labels": {"job": "pi"}},
        "spec": {"schedulerName": "carico", "containers": [container]},
        "status": {"phase": "Pending"},
    }
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


@contextmanager
def served(names: list[str], room: float) -> Iterator[int]:
    """Run an extender in a separate process and yield its port."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, names, room), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join(10)


class _Agents:
    """Reports of all nodes once a second, spread over the second."""

    port = 0

    def __init__(self, names: list[str], room: float, on_report: OnReport) -> None:
        self._over = threading.Event()
        capacities = np.random.default_rng(SEED).uniform(0, room, len(names)).tolist()
        for name, capacity in zip(names, capacities, strict=True):
            on_report(CapacityReport(name, pod_capacity=capacity, pods=0, at_unix_s=0.0, sequence=0))
        self._thread = threading.Thread(target=self._run, args=(names, capacities, on_report), daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self, names: list[str], capacities: list[float], on_report: OnReport) -> None:
        share = max(1, len(names) // 100)
        while True:
            for first in range(0, len(names), share):
                if self._over.wait(0.01):
                    return
                for index in range(first, min(first + share, len(names))):
                    on_report(
                        CapacityReport(names[index], pod_capacity=capacities[index], pods=0, at_unix_s=0.0, sequence=0)
                    )

    def close(self) -> None:
        """Stop reporting."""
        self._over.set()


def _serve(parent: Connection, names: list[str], room: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "port": 0,
            "insecure_loopback": True,
            "kubernetes": None,
            "reservation_timeout_s": 1.0,  # as if a pod ran after a second
            "journal": {"file": str(Path(folder) / "journal.jsonl")},
        }
        config = msgspec.convert(settings, ExtenderConfig)
        sys.setswitchinterval(0.0005)  # as `run_extender` does
        with ExtenderProcess(
            config,
            SystemClock(),
            random.Random(SEED),
            None,
            reports=lambda _, on_report, *__: _Agents(names, room, on_report),
        ) as process:
            parent.send(process.port)
            parent.recv()


if __name__ == "__main__":
    sys.exit(main())
