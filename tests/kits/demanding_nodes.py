"""Nodes whose agents learn, and the scheduler that learns from them, step by step under virtual time."""

from __future__ import annotations

import numpy as np

from carico.demand.node import NodeDemand
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind

STEP_S = 0.5
START_S = 1.0
"""From a pod's decision to its start."""


class DemandingNodes:
    """Pods of one workload, whose true demand the test knows.

    Attributes
    ----------
    pods : dict
        The cores and GiB that each running pod demands, by node and name; a test may change them.
    """

    def __init__(self, nodes, cores=4.0, gib=16.0, idle_gib=1.0):
        self.now = 0.0
        self.scheduler = DemandScheduler(DEMAND, sees_pods=True)
        self.cores, self.gib, self.idle_gib = cores, gib, idle_gib
        self.models = {
            f"node-{number}": NodeDemand(f"node-{number}", cores, gib, DEMAND, 0.0) for number in range(nodes)
        }
        self.pods = {name: {} for name in self.models}
        self._rng = np.random.default_rng(1)
        self._coming = []
        self._made = 0
        self.run(5.0)

    def place(self, cores, gib, node=None):
        """Decide on a pod, and return its node; None if it has to wait. With `node` the pod goes there."""
        self._made += 1
        name = f"pod-{self._made}"
        if node is None:
            node = self.scheduler.filter(name, Kind("pi"), list(self.models), self.now).node
        if node is not None:
            self.scheduler.pod_changed(name, "pi", node, False, self.now)
            self._coming.append((self.now + START_S, node, name, (cores, gib)))
        return node

    def end(self, node):
        """End the oldest pod of a node."""
        name = next(iter(self.pods[node]))
        del self.pods[node][name]
        self.models[node].pod_stopped(name, self.now)
        self.scheduler.pod_gone(name, self.now)

    def used_gib(self, node):
        """Memory in use."""
        return self.idle_gib + sum(gib for _, gib in self.pods[node].values())

    def run(self, seconds):
        """Let time pass."""
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            for name, model in self.models.items():
                threads = 0.2 + sum(cores for cores, _ in self.pods[name].values()) + self._rng.normal(0, 0.1)
                model.observe(float(np.clip(threads, 0, 2 * self.cores)), self.used_gib(name), self.now)
            for pod in [pod for pod in self._coming if pod[0] <= self.now]:
                self._coming.remove(pod)
                _, node, name, demand = pod
                self.pods[node][name] = demand
                self.models[node].pod_started(name, "pi", self.now)
                self.scheduler.pod_changed(name, "pi", node, False, self.now, running=True)
            if self.now % 1.0 == 0.0:
                for model in self.models.values():
                    self.scheduler.report(model.report(self.now), self.now)
                self.scheduler.tick(self.now)
