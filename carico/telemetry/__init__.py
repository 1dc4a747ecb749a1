"""Where samples come from: cumulative counters read from the node, and the normalised telemetry between two of them.

Sources read; nothing here estimates. The same arithmetic serves the real `/proc` and the simulated cluster's counters.
"""
