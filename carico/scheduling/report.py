"""The report of a node to the scheduler, once a second (thesis §4.1), and the answer.

It is one value from the agent, which makes it, over `carico.rpc` to the extender. A new field is declared here and in
`rpc/capacity.proto`, and gets its range in `rpc/messages.py`. It has a default, for agents and schedulers of different
versions work together: each ignores what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carico.demand.report import DemandReport

POD_UID = r"[A-Za-z0-9._-]{1,128}"
"""What the UID of a pod looks like, wherever it comes from."""


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
    demand : DemandReport, optional
        What the variant `demand` adds, about the same node.
    version : str, optional
        The version of CARICO that the agent is of; empty if it is too old to say.
    """

    node: str
    pod_capacity: float
    pods: int
    at_unix_s: float
    sequence: int
    demand: DemandReport | None = None
    version: str = ""


@dataclass(frozen=True)
class ReportReply:
    """What the scheduler answers.

    Parameters
    ----------
    workloads : mapping of str to str
        The workloads of pods that it knows better than the node, by UID.
    version : str
        The version of CARICO that the scheduler is of; empty if it is too old to say.
    """

    workloads: Mapping[str, str]
    version: str
