"""Readers of public traces: pods and nodes (`alibaba`), noise between and within machines (`azure`).

The user gives the path of a file that they have; what is read becomes a scenario or settings of the simulated cluster.
"""
