"""Schedulers under test: how they are named, and the interface of one's own."""

from testbed.schedulers.interface import ClusterView, Node, NodeTelemetry, Pod, Scheduler

__all__ = ["DEFAULT_SCHEDULERS", "ClusterView", "Node", "NodeTelemetry", "Pod", "Scheduler"]

DEFAULT_SCHEDULERS = ("carico", "kube-scheduler")
"""The schedulers that are compared by default: CARICO, and kube-scheduler with the requests of the scenario."""
