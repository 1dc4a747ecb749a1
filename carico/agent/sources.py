"""The sources of an agent's telemetry and pod events, opened as its configuration names them.

Modules that only some sources need are imported only with these: an agent that reads its own node needs no Kubernetes
client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from carico.clock import Clock
from carico.config import AgentConfig, PodEventsConfig
from carico.errors import InvalidConfig, InvalidInput
from carico.model.variants import Variant, on_metrics_server
from carico.podevents.source import PodEventSource
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.source import SizedSource, TelemetrySource

if TYPE_CHECKING:
    from carico.kube.client import KubeClient

_LOOK_EVERY_S = 1.0
"""How often the latest answer of the metrics server is read."""


class NodeSources:
    """Opens the sources of one node.

    Parameters
    ----------
    config : AgentConfig
    node : str
        The node's name.
    clock : Clock
    """

    def __init__(self, config: AgentConfig, node: str, clock: Clock) -> None:
        self._config = config
        self._node = node
        self._clock = clock

    def variant(self, variant: Variant) -> Variant:
        """Return the variant adapted to these sources.

        Raises
        ------
        InvalidConfig
            If the variant learns from telemetry that the sources do not have.
        """
        if self._config.telemetry != "metrics-server":
            return variant
        try:
            return on_metrics_server(variant, self._config.metrics_period_s)
        except InvalidInput as error:
            raise InvalidConfig(f"telemetry, variant: {error}") from error

    def telemetry(self) -> TelemetrySource:
        """Open the source of telemetry.

        Raises
        ------
        CaricoError
            If the source cannot be read.
        """
        config = self._config
        if config.telemetry == "cgroup":
            return CgroupSource(config.cgroup, proc=config.proc, clock=self._clock)
        if config.telemetry == "metrics-server":
            from carico.telemetry.metrics_poll import MetricsPoll
            from carico.telemetry.metrics_server import MetricsServerSource, allocatable, checked

            kube = self._kube()
            cpus, memory = allocatable(kube.node(self._node))
            poll = MetricsPoll(lambda: checked(kube.node_metrics(self._node), self._node), config.metrics_period_s)
            return MetricsServerSource(
                poll.latest,
                self._node,
                allocatable_cpus=cpus,
                allocatable_bytes=memory,
                clock=self._clock,
                period_s=_LOOK_EVERY_S,
                on_close=poll.close,
            )
        return ProcfsSource(config.proc, self._clock)

    def sized_telemetry(self) -> SizedSource:
        """Open a source of telemetry that provides the number of CPUs and their pressure.

        Raises
        ------
        InvalidConfig
            If the configured source provides neither.
        CaricoError
            If the source cannot be read.
        """
        source = self.telemetry() if self._config.telemetry != "metrics-server" else None
        if not isinstance(source, CgroupSource | ProcfsSource):
            raise InvalidConfig(
                "telemetry, variant: a metrics server provides no pressure, which the variant demand learns from: use "
                "the variant utilisation-only, or the telemetry procfs"
            )
        return source

    def pod_events(self, named: bool = False) -> PodEventSource:
        """Make the source of pod events; nothing is read before it is started.

        Parameters
        ----------
        named : bool
            Whether pods must have names, as for the variant `demand`. With control groups, a pod then counts from its
            first container on, instead of from its group.

        Raises
        ------
        InvalidConfig
            If pods must have names, and the configured source does not provide them.
        CaricoError
            If the source cannot be made.
        """
        events = self._config.pod_events
        if named:
            _require_names(events)
        if events.source == "processes":
            assert events.pattern is not None
            from carico.podevents.process_table import MatchingProcesses
            from carico.podevents.processes import ProcessEvents

            return ProcessEvents(MatchingProcesses(re.compile(events.pattern), self._config.proc), self._clock)
        if events.source == "kubernetes":
            from carico.podevents.kube_watch import KubeWatch

            pods = self._kube().pods(f"spec.nodeName={self._node}")
            return KubeWatch(pods, self._node, events.excluded_namespaces, self._clock)
        if events.source == "containerd":
            from carico.podevents.containerd import ContainerdEvents

            return ContainerdEvents(
                events.containerd_socket, events.containerd_namespace, events.excluded_namespaces, self._clock
            )
        from carico.podevents.cgroups import CgroupEvents
        from carico.podevents.folder_watch import folder_watch
        from carico.podevents.pod_logs import PodLogs

        if events.pod_logs is None:
            return CgroupEvents(events.cgroup_root, clock=self._clock)
        watch = folder_watch()
        logs = PodLogs(events.pod_logs, self._clock, events.excluded_namespaces, watch)
        counted = logs.counted_from_container if named else logs.counted_from_group
        return CgroupEvents(events.cgroup_root, counted, self._clock, watch)

    def _kube(self) -> KubeClient:
        from carico.kube.client import KubeClient

        named = self._config.kubernetes
        return KubeClient.from_config(named.kubeconfig, named.context, remedy=named.REMEDY)


def _require_names(events: PodEventsConfig) -> None:
    wanted = "pod_events: the variant demand must tell pods apart by name"
    if events.source == "processes":
        raise InvalidConfig(f"{wanted}, and processes have none: use the source cgroup, containerd or kubernetes")
    if events.source == "cgroup" and events.pod_logs is None:
        raise InvalidConfig(
            f"{wanted}, and control groups have none, got pod_logs: null: give the folder of the pods' logs, on most "
            f"nodes /var/log/pods, or use the source containerd or kubernetes"
        )
