"""What arrives at a cluster and what it consumes: programs, demand models and the catalogue of scenarios.

Knows no cluster and no pytest. Programs run as ``python -m workloads.NAME``; demand models say the same to a simulator.
"""
