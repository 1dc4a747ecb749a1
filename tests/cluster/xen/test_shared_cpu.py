"""Two guests of one physical CPU: what the telemetry of a guest shows while its throughput halves (§4.2.1, §5.7).

Durations are compared within one run, and what the guest has counted with what the hypervisor has, so nothing depends
on the speed of the host, which may be emulated.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kubernetes
import numpy as np
import pytest

from carico.telemetry.counters import Telemetry, usage_vector
from testbed.measurement.utilisation import median_between
from testbed.real.jobs import JOB_LABEL
from testbed.real.xen.description import Description, XlHost, read_description
from testbed.results.schema import NodeSeries

pytestmark = pytest.mark.cluster

SCENARIO = str(Path(__file__).with_name("neighbours.yaml"))
SHARED_CPU = "1"
NODE = 0
PHASES = ("alone", "shared")
"""The jobs of one pod each that are compared."""
SETTLES_S = 15.0
"""Until a pod that has started computes, where starting a container takes seconds."""
LOSES = 1.5
"""Half of a CPU takes a pod twice as long. On an idle host of two CPUs, the guest was not quite alone before: dom0 and
the other guest's kernel and kubelet take their share, too."""
MASKED = 0.1
"""What counts as no change of a share."""


class SharingOneCpu:
    """Pins the guests to one CPU from the moment that a job is published, until the end.

    Parameters
    ----------
    described : Description
    job : str
    """

    def __init__(self, described: Description, job: str) -> None:
        self._described = described
        self._job = job
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._pin_when_published)
        self.pinned: list[str] = []
        self._used_s: dict[str, float] = {}
        self._since = 0.0

    def __enter__(self) -> SharingOneCpu:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        asyncio.run(self._pin(self.pinned, "all"))

    def _pin_when_published(self) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(self._described.control_plane.kubeconfig, None, configuration)
        with kubernetes.client.ApiClient(configuration) as api:
            while not self._over.wait(1.0):
                jobs = kubernetes.client.BatchV1Api(api)
                if jobs.list_job_for_all_namespaces(label_selector=f"{JOB_LABEL}={self._job}").items:
                    nodes = kubernetes.client.CoreV1Api(api).list_node().items
                    self.pinned = [node.metadata.name for node in nodes]
                    asyncio.run(self._pin(self.pinned, SHARED_CPU))
                    self._used_s, self._since = asyncio.run(self._used()), time.monotonic()
                    return

    def share_of(self, guest: str) -> float:
        """Return how much CPU the hypervisor has given to a guest since the guests were pinned, CPUs."""
        used_s = asyncio.run(self._used())[guest] - self._used_s[guest]
        return used_s / (time.monotonic() - self._since)

    async def _pin(self, guests: list[str], cpus: str) -> None:
        async with self._dom0() as dom0:
            for guest in guests:
                await dom0.run("xl", "vcpu-pin", guest, "all", cpus, repeatable=True)

    async def _used(self) -> dict[str, float]:
        """Return the CPU time that each guest has had, seconds."""
        async with self._dom0() as dom0:
            _, *rows = (await dom0.run("xl", "list", repeatable=True)).splitlines()
        return {row.split()[0]: float(row.split()[-1]) for row in rows}

    @asynccontextmanager
    async def _dom0(self) -> AsyncIterator[Any]:
        # Here, because the test is collected where the extra `xen` is not installed, too.
        from testbed.real.xen.ssh import SshMachine
        from testbed.real.xen.xl import dom0_login

        dom0 = SshMachine(dom0_login(self._described.host, os.environ))
        try:
            yield dom0
        finally:
            await dom0.close()


@pytest.fixture
def sharing(pytestconfig) -> Iterator[SharingOneCpu]:
    described = read_description(Path(pytestconfig.getoption("--carico-xen")))
    if described.control_plane is None or not isinstance(described.host, XlHost):
        pytest.skip("the test pins guests by xl, and sees jobs through a control plane that is there already")
    with SharingOneCpu(described, "neighbour") as pinning:
        yield pinning


def cpu_usage(node: NodeSeries, span: tuple[float, float], metric: str) -> float:
    """Return what a CPU metric has said, from the medians of what it is made of."""
    share = {name: median_between(node, name, *span) for name in ("cpu_utilisation", "cpu_pressure", "cpu_stolen")}
    return float(usage_vector(Telemetry(at_s=0.0, memory_utilisation=0.0, **share), metric)[0])


def mean_share(node: NodeSeries, span: tuple[float, float], metric: str) -> float:
    """Return the mean of a share over a span."""
    seconds = zip(node.time_s, node.values(metric), strict=True)
    return float(np.mean([share for at_s, share in seconds if share is not None and span[0] < at_s <= span[1]]))


def test_the_hypervisor_masks_contention_and_stolen_time_shows_it(carico_experiment, carico_paper, sharing):
    (run,) = carico_experiment.run(SCENARIO, "carico", repetitions=1)
    assert len(sharing.pinned) == 2
    pods = {pod.job: pod for pod in run.pods}
    assert {pod.outcome for pod in run.pods} == {"succeeded"}
    assert pods["neighbour"].finished_s > pods["shared"].finished_s, "the neighbour was busy all the time"
    took = {job: pods[job].finished_s - pods[job].started_s for job in PHASES}
    spans = {job: (pods[job].started_s + SETTLES_S, pods[job].finished_s) for job in PHASES}
    node = run.nodes[NODE]
    seen = {
        name: [median_between(node, name, *spans[job]) for job in PHASES]
        for name in ("cpu_utilisation", "cpu_pressure", "cpu_stolen", "capacity_signal", "pod_capacity")
    }
    for metric in ("utilisation-and-pressure", "utilisation-pressure-and-steal"):
        seen[metric] = [cpu_usage(node, spans[job], metric) for job in PHASES]
    slowdown = took["shared"] / took["alone"]
    alone, shared = (mean_share(node, spans[job], "cpu_stolen") for job in PHASES)
    # Time that was stolen counts as busy, so this is the CPU that the guest believes to have had since it was pinned.
    since_pinned = pods["neighbour"].created_s, pods["shared"].finished_s
    busy, stolen = (mean_share(node, since_pinned, metric) for metric in ("cpu_utilisation", "cpu_stolen"))
    given = sharing.share_of(min(sharing.pinned))
    carico_paper.row("time of a pod, sharing the CPU / alone", slowdown, None)
    carico_paper.row("the same, if the guest had no other programs", (1 - alone) / (1 - shared), None)
    carico_paper.row("CPU of the guest while it shares, says the guest", busy - stolen, None)
    carico_paper.row("CPU of the guest while it shares, says the hypervisor", given, None)
    for name, (before, after) in seen.items():
        carico_paper.row(f"{name}, alone", before, None)
        carico_paper.row(f"{name}, sharing", after, None)
    assert slowdown > LOSES
    assert seen["cpu_stolen"][1] > seen["cpu_stolen"][0] + 2 * MASKED
    assert abs(seen["cpu_utilisation"][1] - seen["cpu_utilisation"][0]) < MASKED
    assert seen["utilisation-pressure-and-steal"][1] > seen["utilisation-pressure-and-steal"][0] + MASKED
    # The guest's other programs (agent, kubelet, probes) need as much CPU as before, so pods lose more than what is
    # stolen, the more so under emulation, where these programs take half of the CPU.
    assert slowdown > 0.75 * (1 - alone) / (1 - shared)
    # A guest has what is not stolen, as simulated nodes have.
    assert busy - stolen == pytest.approx(given, abs=MASKED)
