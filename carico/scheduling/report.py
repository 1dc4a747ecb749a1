"""The report of a node to the scheduler, once a second (thesis §4.1).

It is one value from the agent, which makes it, over `carico.rpc` to the extender. A new field is declared here and in
`rpc/capacity.proto`, and gets its range in `rpc/messages.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CapacityReport:
    """How many more pods a node can take, and what is needed to judge the report.

    Parameters
    ----------
    node : str
        The node's name.
    pod_capacity : float
        Pods that the node can take on top of those that run, [0, 1e6].
    pods : int
        Pods that run on the node.
    at_unix_s : float
        When the report was made, seconds since 1970 by the node's clock.
    sequence : int
        Grows with every report of the node.
    """

    node: str
    pod_capacity: float
    pods: int
    at_unix_s: float
    sequence: int
