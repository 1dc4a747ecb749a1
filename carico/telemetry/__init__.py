"""Telemetry of a node: cumulative counters, and the normalised usage between two readings of them.

Nothing here estimates. The same arithmetic serves the counters of real nodes and of the simulated cluster.
"""
