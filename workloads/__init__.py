"""What arrives at a cluster and what it consumes: programs, demand models and the catalogue of scenarios.

Programs run as ``python -m workloads.NAME``; demand models describe the same work to a simulator. Nothing here knows of
clusters or pytest.
"""
