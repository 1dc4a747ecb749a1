"""Schedulers under test and how they are named."""

DEFAULT_SCHEDULERS = ("carico", "kube-scheduler")
"""What is compared where nobody says: CARICO, and the default scheduler with the requests of the scenario."""
