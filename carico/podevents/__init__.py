"""Pods that start and stop on this node (thesis §4.2.4): one protocol, sources that differ in how early they tell."""
