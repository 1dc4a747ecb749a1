"""KWOK: a real control plane with fake nodes; every pod lasts for a given time."""
