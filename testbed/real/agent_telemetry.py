"""Telemetry of the nodes during a repetition: reads every agent's /metrics once a second, through the API server.

An agent that does not answer leaves a gap, and the run continues.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from carico.clock import Clock
from carico.deployment.manifests import COMPONENT, SELECTOR
from carico.errors import KubeError
from carico.kube.objects import KubeObjects
from testbed.results.schema import REPORTED, STOLEN, USAGE, NodeSeries

PERIOD_S = 1.0
ANSWER_S = 2.0
"""The longest wait for an answer: the API server keeps calling a pod that has just ended for ten seconds or more."""
PORT = 9443
"""The port of an agent's /metrics, as in the manifests."""
METRICS = (*USAGE, *REPORTED)
"""The columns of a `NodeSeries` that are read from agents; also `STOLEN`, where nodes are guests of a hypervisor."""


class AgentTelemetry:
    """Reads the metrics of a deployment's agents.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
        The deployment's namespace.
    names : mapping of str to str
        The scenario's name of each node, by the node's name on the cluster; agents on other nodes are not read.
    clock : Clock
    guests : bool
        Whether the nodes are guests of a hypervisor, which may give their CPU time to others.
    """

    def __init__(
        self, kube: KubeObjects, namespace: str, names: Mapping[str, str], clock: Clock, guests: bool = False
    ) -> None:
        self._columns = (*METRICS, STOLEN) if guests else METRICS
        self._kube = kube
        self._namespace = namespace
        self._names = names
        self._clock = clock
        self._rows: dict[str, dict[int, dict[str, float]]] = {name: {} for name in names.values()}

    @contextmanager
    def collected(self, origin: float) -> Iterator[None]:
        """Read the agents every second after `origin`, a time of the clock, until the context ends.

        Raises
        ------
        KubeError
            If the agents' pods cannot be listed.
        """
        agents, stop = self._agents(), threading.Event()
        # One thread for each agent: one that does not answer must not delay the others.
        with ThreadPoolExecutor(max(len(agents), 1), "agents' telemetry") as pool:
            readers = [pool.submit(self._read_every_second, node, pod, origin, stop) for node, pod in agents.items()]
            try:
                yield
            finally:
                stop.set()
        for reader in readers:
            reader.result()  # an exception here is a bug of ours

    def complete(self, series: NodeSeries) -> NodeSeries:
        """Return a node's series with the columns that its agent has reported."""
        rows = self._rows.get(series.name, {})
        columns = {
            metric: [rows.get(round(second), {}).get(metric) for second in series.time_s] for metric in self._columns
        }
        return msgspec.structs.replace(series, **columns)

    def _agents(self) -> dict[str, str]:
        """Return the names of the agents' pods by node, without pods that are terminating."""
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["name"]
            for pod in self._kube.list("v1", "Pod", self._namespace, f"{SELECTOR},{COMPONENT}=agent")
            if pod["spec"].get("nodeName") in self._names and not pod["metadata"].get("deletionTimestamp")
        }

    def _read_every_second(self, node: str, pod: str, origin: float, stop: threading.Event) -> None:
        rows, second = self._rows[self._names[node]], 0
        while not stop.is_set():
            second = max(second + 1, math.ceil((self._clock.now() - origin) / PERIOD_S))
            stop.wait(max(origin + second * PERIOD_S - self._clock.now(), 0.0))
            rows[second] = self._read(pod)
            if not rows[second]:  # the agent may have been replaced by a pod of another name
                with suppress(KubeError):
                    pod = self._agents().get(node, pod)

    def _read(self, pod: str) -> dict[str, float]:
        try:
            text = self._kube.text_of_pod(self._namespace, pod, PORT, "metrics", within_s=ANSWER_S)
            return read_metrics(text)
        except (KubeError, ValueError):  # a gap
            return {}


def read_metrics(text: str) -> dict[str, float]:
    r"""Return the values in an agent's /metrics by column of a `NodeSeries`; raises ValueError if they cannot be read.

    Examples
    --------
    >>> read_metrics('carico_agent_usage_ratio{of="cpu_pressure"} 0.25\ncarico_agent_pod_capacity 2.0\n')
    {'cpu_pressure': 0.25, 'pod_capacity': 2.0}
    """
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.labels.get("of", "") if sample.name.endswith("_usage_ratio") else sample.name
            name = name.removeprefix("carico_agent_")
            if name in (*METRICS, STOLEN) and math.isfinite(sample.value):
                found[name] = round(sample.value, 6)
    return found
