"""Schedulers under test and how they are named."""

DEFAULT_SCHEDULERS = ("carico", "kube-scheduler")
"""The schedulers that are compared by default: CARICO, and kube-scheduler with the requests of the scenario."""
