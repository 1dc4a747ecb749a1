"""Starts and stops of pods on this node (thesis §4.2.4): one protocol, sources that differ in how early they know."""
