"""What CARICO's agents tell of their nodes while a repetition runs: asked once a second, through the API server.

An agent that does not answer leaves a gap; the run goes on.
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
from testbed.results.schema import NodeSeries

PERIOD_S = 1.0
ANSWER_S = 2.0
"""No answer is waited for longer. The API server goes on calling a pod that has just ended for ten seconds and more."""
PORT = 9443
"""Of an agent's status, as in the manifests."""
_USAGE = {"cpu_utilisation", "cpu_pressure", "memory_utilisation"}
_REPORTED = {"capacity_signal", "baseline", "pod_cost", "pod_capacity"}
METRICS = (*sorted(_USAGE), *sorted(_REPORTED))
"""The columns of a `NodeSeries` that agents know."""


class AgentTelemetry:
    """Asks the agents of a deployment.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
        Of the deployment.
    names : mapping of str to str
        What the scenario calls a node, by the node's name; others are not asked.
    clock : Clock
    """

    def __init__(self, kube: KubeObjects, namespace: str, names: Mapping[str, str], clock: Clock) -> None:
        self._kube = kube
        self._namespace = namespace
        self._names = names
        self._clock = clock
        self._rows: dict[str, dict[int, dict[str, float]]] = {name: {} for name in names.values()}

    @contextmanager
    def collected(self, origin: float) -> Iterator[None]:
        """Ask every second after `origin`, on the clock, until the context ends.

        Raises
        ------
        KubeError
            If it cannot be found out where the agents are.
        """
        agents, stop = self._agents(), threading.Event()
        # Each in a thread of its own: one that does not answer is not to hide the others.
        with ThreadPoolExecutor(max(len(agents), 1), "agents' telemetry") as pool:
            asking = [pool.submit(self._ask, node, pod, origin, stop) for node, pod in agents.items()]
            try:
                yield
            finally:
                stop.set()
        for each in asking:
            each.result()  # raises what was a mistake of ours

    def complete(self, series: NodeSeries) -> NodeSeries:
        """Return a node's series with what its agent has told."""
        rows = self._rows.get(series.name, {})
        columns = {metric: [rows.get(round(second), {}).get(metric) for second in series.time_s] for metric in METRICS}
        return msgspec.structs.replace(series, **columns)

    def _agents(self) -> dict[str, str]:
        """Return the agents' pods by node; none that is being ended."""
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["name"]
            for pod in self._kube.list("v1", "Pod", self._namespace, f"{SELECTOR},{COMPONENT}=agent")
            if pod["spec"].get("nodeName") in self._names and not pod["metadata"].get("deletionTimestamp")
        }

    def _ask(self, node: str, pod: str, origin: float, stop: threading.Event) -> None:
        rows, second = self._rows[self._names[node]], 0
        while not stop.is_set():
            second = max(second + 1, math.ceil((self._clock.now() - origin) / PERIOD_S))
            stop.wait(max(origin + second * PERIOD_S - self._clock.now(), 0.0))
            rows[second] = self._told_by(pod)
            if not rows[second]:  # an agent that was replaced has another name
                with suppress(KubeError):
                    pod = self._agents().get(node, pod)

    def _told_by(self, pod: str) -> dict[str, float]:
        try:
            text = self._kube.text_of_pod(self._namespace, pod, PORT, "metrics", ANSWER_S)
            return read_metrics(text)
        except (KubeError, ValueError):  # a gap
            return {}


def read_metrics(text: str) -> dict[str, float]:
    r"""Return what an agent's /metrics says, by the columns of a `NodeSeries`; raises ValueError if it is none.

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
            if name in METRICS and math.isfinite(sample.value):
                found[name] = round(sample.value, 6)
    return found
