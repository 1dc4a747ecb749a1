"""CARICO: a Kubernetes scheduler that needs no resource requests.

Every node learns from its own telemetry how many more pods it can take and says so once a second. The package holds
the algorithm as ordinary classes (numpy only, no I/O) and the sources that feed it; it knows nothing of the testbed.
"""

__version__ = "0.1.0"
