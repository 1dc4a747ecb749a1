"""KWOK: a real control plane with fake nodes, on which every pod lasts for a given time."""
