"""Schedulers under test as plugins of the simulated framework."""
