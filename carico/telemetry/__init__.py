"""Telemetry of a node: cumulative counters, and the normalised usage between two readings of them.

Nothing is estimated here. Real nodes and the simulated cluster share the same arithmetic.
"""
