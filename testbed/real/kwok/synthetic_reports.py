"""Reports for nodes that have no agents, over the real Capacity service: a given number of pods, less those that run.

Apart from the number, everything is as agents do it: each node has a certificate and a stream of its own and reports
once a second, and the nodes are spread over the second. This is a process of its own, ended by SIGTERM:
``python -m testbed.real.kwok.synthetic_reports FILE``.

Nodes whose size is given also report what they demand (`synthetic_demand`), and report at once when a pod starts or
stops, as agents of the variant `demand` do.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from carico import __version__
from carico.clock import Clock, SystemClock
from carico.config import Address, Seconds, TlsFiles, read_config
from carico.demand.settings import DEMAND
from carico.kube.client import KubeClient
from carico.kube.reflector import Reflector
from carico.rpc.clients import ReportClient
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport
from testbed.real.api import Json
from testbed.real.kwok.pacing import call_in_turn
from testbed.real.kwok.synthetic_demand import NodeSize, SyntheticDemand

DEADLINE_S = 5.0
"""The longest wait for an answer: a thousand nodes connect at the same time when a server has restarted."""


class ReportsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is reported, and to which server."""

    target: Address
    kubeconfig: str
    """The kubeconfig of the cluster whose pods are counted."""
    certificates: str
    """A folder as `carico.deployment.authority.Authority` fills it."""
    slots: dict[str, Annotated[float, Meta(ge=0)]]
    """How many pods a node has room for when none runs, by node."""
    sizes: dict[str, NodeSize] = {}
    """The sizes of nodes that report what they demand, by node."""
    period_s: Seconds = 1.0


def node_files(folder: Path, node: str) -> TlsFiles:
    """Return the certificate, key and CA of a node in the folder of an `Authority`."""
    return TlsFiles(*(str(folder / name) for name in (f"node-{node}.crt", f"node-{node}.key", "ca.crt")))


class SyntheticReports:
    """Counts running pods and reports.

    Parameters
    ----------
    target : str
        host:port of the extender's Capacity service.
    files : callable
        Returns a node's certificate, key and CA.
    slots : mapping of str to float
        Pods that a node has room for when none runs, by node.
    clock : Clock
    wall : callable
        Seconds since 1970.
    sizes : mapping, optional
        The sizes of nodes that report what they demand, by node.
    """

    def __init__(
        self,
        target: str,
        files: Callable[[str], TlsFiles],
        slots: Mapping[str, float],
        clock: Clock,
        wall: Callable[[], float],
        sizes: Mapping[str, NodeSize] | None = None,
    ) -> None:
        self.slots = dict(slots)
        self._clock = clock
        self._wall = wall
        self._clients = {node: ReportClient(target, ClientTls(files(node)), DEADLINE_S) for node in self.slots}
        self._node_of: dict[str, str] = {}
        """Where pods run, by UID."""
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        """The same, by node."""
        self._demand = {node: SyntheticDemand(node, size, DEMAND) for node, size in (sizes or {}).items()}
        self._lock = threading.Lock()
        """Guards what is known of pods, because another thread reports their changes."""
        self._sequence = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._report_now = {node: asyncio.Event() for node in self.slots}
        """Set in the loop when a node has to report at once."""

    def pod_changed(self, pod: Json) -> None:
        """Record a pod's present state."""
        uid, node = pod["metadata"]["uid"], (pod.get("spec") or {}).get("nodeName")
        if not (node and (pod.get("status") or {}).get("phase") == "Running"):
            self.pod_deleted(uid)
        elif uid not in self._node_of:
            with self._lock:
                self._node_of[uid] = node
                self._running[node].add(uid)
                if node in self._demand:
                    self._demand[node].pod_started(pod)
            self._hasten(node)

    def pod_deleted(self, uid: str) -> None:
        """Record that a pod is gone."""
        with self._lock:
            node = self._node_of.pop(uid, None)
            if node is None:
                return
            self._running[node].discard(uid)
            if node in self._demand:
                self._demand[node].pod_stopped(uid, self._clock.now())
        self._hasten(node)

    def capacity(self, node: str) -> float:
        """Return a node's Pod-Capacity, pods."""
        return max(self.slots[node] - len(self._running[node]), 0.0)

    async def report(self, node: str) -> None:
        """Report for a node now; raises RpcError if the server cannot be reached or does not answer in time."""
        self._sequence += 1
        with self._lock:
            demand = self._demand.get(node)
            report = CapacityReport(
                node,
                self.capacity(node),
                pods=len(self._running[node]),
                at_unix_s=self._wall(),
                sequence=self._sequence,
                demand=None if demand is None else demand.report(self._clock.now()),
                version=__version__,
                counted=None if demand is not None else frozenset(self._running[node]),
            )
        await self._clients[node].report(report)

    async def run(self, period_s: float) -> None:
        """Report for every node every `period_s` seconds until cancelled; see `call_in_turn`."""
        self._loop = asyncio.get_running_loop()
        try:
            await call_in_turn(self.slots, self.report, period_s=period_s, clock=self._clock, at_once=self._report_now)
        finally:
            self._loop = None
            for client in self._clients.values():
                await client.close()

    def _hasten(self, node: str) -> None:
        """Let a node report at once if it reports its demand."""
        if node in self._demand and self._loop is not None:
            self._loop.call_soon_threadsafe(self._report_now[node].set)


def main() -> None:
    """Report until the process is ended."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    config = read_config(Path(sys.argv[1]), ReportsConfig)
    clock, files = SystemClock(), partial(node_files, Path(config.certificates))
    reports = SyntheticReports(config.target, files, config.slots, clock, wall=time.time, sizes=config.sizes)
    listed = threading.Event()
    bound = KubeClient.from_config(config.kubeconfig).pods("spec.nodeName!=")
    with Reflector(bound, reports.pod_changed, clock, random.Random(), deleted=reports.pod_deleted, listed=listed.set):
        listed.wait()
        asyncio.run(reports.run(config.period_s))


if __name__ == "__main__":
    main()
