"""Nodes that join, leave, fail and recover, as the control plane's node life-cycle controller handles them.

A node that is removed has been drained without grace: its pods are evicted at once. A node that fails falls silent: it
counts as ready for a while (`node_grace_s`), and its pods count as running for much longer (`eviction_s`). Then the
pods are deleted. A Job without a pod failure policy counts deleted pods as failed; a Job with one waits until the pods
are known to have ended, that is, until the node is back or removed (podReplacementPolicy: Failed). A pod whose end the
failed node could not report counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simpy

from carico.arrays import BoolArray
from testbed.simulation.control_plane.api import ApiServer, Pod, Process
from testbed.simulation.nodes.kubelet import Kubelets
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import NodeChange

POD_GC_S = 20.0
"""How often the pod garbage collector looks for pods that were bound to a lost node."""

OnReady = Callable[[int, bool], None]
"""Called with a node and whether it takes pods from now on."""
OnAgent = Callable[[int, bool], None]
"""Called with a node and whether its agent runs from now on."""


class NodeLifecycleController:
    """Carries out the node changes of a scenario, and tells scheduler and agents when they would notice.

    Parameters
    ----------
    env : simpy.Environment
    api : ApiServer
    kubelets : Kubelets
    names : sequence of str
        The nodes.
    changes : sequence of NodeChange
    parameters : SimulationParameters
    on_ready : callable
        Called when the scheduler hears whether a node takes pods.
    on_agent : callable
        Called when a node's agent starts, or ends with its node.
    """

    def __init__(
        self,
        env: simpy.Environment,
        api: ApiServer,
        kubelets: Kubelets,
        *,
        names: Sequence[str],
        changes: Sequence[NodeChange],
        parameters: SimulationParameters,
        on_ready: OnReady,
        on_agent: OnAgent,
    ) -> None:
        self._env = env
        self._api = api
        self._kubelets = kubelets
        self._parameters = parameters
        self._on_ready = on_ready
        self._on_agent = on_agent
        self._evicted: BoolArray = np.zeros(len(names), dtype=np.bool_)
        """Nodes that are gone and whose pods have been deleted."""
        self._removed: BoolArray = np.zeros(len(names), dtype=np.bool_)
        self._changed_at = np.full(len(names), -np.inf)
        index = {name: number for number, name in enumerate(names)}
        first: dict[str, str] = {}
        for change in sorted(changes, key=lambda one: one.at_s):
            if first.setdefault(change.node, change.change) == change.change == "added":
                self._leave(index[change.node])
            env.process(self._change(index[change.node], change))
        if changes:
            api.watch(bound=self._bound)

    def _change(self, node: int, change: NodeChange) -> Process:
        yield self._env.timeout(change.at_s - self._env.now)
        self._changed_at[node] = self._env.now
        if change.change in ("added", "recovered"):
            self._evicted[node] = self._removed[node] = False
            self._kubelets.start_node(node)
            self._on_agent(node, True)
            self._on_ready(node, True)
        elif change.change == "removed":
            self._leave(node)
        else:
            yield from self._fail(node)

    def _leave(self, node: int) -> None:
        self._switch_off(node)
        self._on_ready(node, False)
        self._removed[node] = True
        self._evict(node)

    def _fail(self, node: int) -> Process:
        self._switch_off(node)
        failed_at = self._env.now
        yield self._env.timeout(self._parameters.node_grace_s)
        if self._changed_at[node] == failed_at:
            self._on_ready(node, False)
            yield self._env.timeout(self._parameters.eviction_s)
            if self._changed_at[node] == failed_at:
                self._evict(node)

    def _switch_off(self, node: int) -> None:
        if self._kubelets.up[node]:
            self._kubelets.stop_node(node)
            self._on_agent(node, False)

    def _evict(self, node: int) -> None:
        self._evicted[node] = True
        for pod in self._api.pods:
            if pod.node == node:
                self._delete(pod)

    def _bound(self, pod: Pod) -> None:
        """Have the garbage collector delete a pod whose node was lost while the binding was under way."""
        assert pod.node is not None
        if self._evicted[pod.node]:
            self._env.timeout(POD_GC_S).callbacks.append(lambda _event: self._delete(pod))

    def _delete(self, pod: Pod) -> None:
        assert pod.node is not None
        if pod.over or not self._evicted[pod.node]:
            return
        pod.deleted = True
        pod.outcome = "evicted"
        if self._removed[pod.node] or not pod.job.has_failure_policy:
            self._api.show_finished(pod)
