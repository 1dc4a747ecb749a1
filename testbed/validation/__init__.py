"""Validation of the simulated cluster: measures a kind cluster, and compares both."""
