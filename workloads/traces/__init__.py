"""Readers of public traces: pods and nodes (`alibaba`), and noise between and within machines (`azure`).

The user gives the path of a downloaded file; the readers turn it into a scenario or settings of the simulated cluster.
"""
