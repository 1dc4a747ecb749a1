"""An extender with a clock moved by hand, and requests as kube-scheduler makes them."""

import json

import pytest
from prometheus_client import CollectorRegistry

from carico.extender.api import read_args, write_result
from carico.extender.extender import Extender
from carico.extender.metrics import ExtenderMetrics
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.report import CapacityReport
from carico.scheduling.scheduler import Scheduler
from carico.scheduling.wake_up import WakeUp
from carico.testing import ManualClock


def request(uid, nodes, name="pod"):
    """The body of a filter call, as Go writes it: all fields of the pod are there, most of no interest."""
    metadata = {"name": name, "namespace": "jobs", "uid": uid, "labels": {"a": "b"}, "creationTimestamp": None}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()


class Harness:
    """An extender and what it is asked and told."""

    def __init__(self, journal=None, stale_after_s=5.0, listed=True, until_counted=False, timeout_s=60):
        self.clock = ManualClock(100.0)
        self.registry = CollectorRegistry()
        self.plugin = CaricoPlugin(stale_after_s)
        self.woken = []
        metrics = ExtenderMetrics(self.registry)
        scheduler = Scheduler(
            self.plugin,
            reservation_timeout_s=timeout_s,
            wake_up=WakeUp(node_interval_s=5, interval_s=0.5),
            wake=lambda node, available: self.woken.append((node, available)),
            released=lambda reason: metrics.released.labels(reason).inc(),
            until_counted=until_counted,
        )
        self.extender = Extender(scheduler, journal, self.clock, metrics)
        self.extender.pods_listed(listed)

    def report(self, counted=None, **capacities):
        for node, capacity in capacities.items():
            self.extender.report(CapacityReport(node, capacity, 0, 0.0, 0, counted=counted))

    def ask(self, uid, nodes):
        return json.loads(write_result(self.extender.filter(read_args(request(uid, nodes)))))

    def choice(self, uid, nodes):
        names = self.ask(uid, nodes)["NodeNames"]
        return names[0] if names else None

    def reserved(self, node):
        return self.plugin.ledger.reserved(node)

    def metric(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def harness():
    return Harness()
