"""The report of a node to the scheduler, once a second (thesis §4.1), and the answer.

The same value goes from the agent, which makes it, over `carico.rpc` to the extender. To add a field, declare it here
and in `rpc/capacity.proto`, and give it a range in `rpc/messages.py`. It needs a default, because agents and schedulers
of different versions work together: each ignores fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carico.demand.report import DemandReport

POD_UID = r"[A-Za-z0-9._-]{1,128}"
"""The pattern of a pod's UID."""
MOST_PODS_NAMED = 1_000
"""The most pods that a report counts, or that an answer names: far more than run on any node."""


@dataclass(frozen=True)
class CapacityReport:
    """How many more pods a node can take, and what is needed to judge the report.

    Parameters
    ----------
    node : str
        The node's name.
    pod_capacity : float
        Pods that the node can take on top of the running ones, [0, 1e6].
    pods : int
        Pods that run on the node.
    at_unix_s : float
        When the report was made, seconds since 1970 by the node's clock.
    sequence : int
        Grows with every report of the node.
    demand : DemandReport, optional
        The same node's demand, under the variant `demand`.
    version : str, optional
        The agent's version of CARICO; empty if the agent is too old to send it.
    counted : frozenset of str, optional
        The UIDs of the pods that `pod_capacity` counts. None if the agent does not say, because it is older or counts
        more pods than a message names. Under the variant `demand`, `demand` says so instead.
    """

    node: str
    pod_capacity: float
    pods: int
    at_unix_s: float
    sequence: int
    demand: DemandReport | None = None
    version: str = ""
    counted: frozenset[str] | None = None


@dataclass(frozen=True)
class ReportReply:
    """The scheduler's answer.

    Parameters
    ----------
    workloads : mapping of str to str
        The workloads, by UID, of pods that the scheduler knows better than the node.
    version : str
        The scheduler's version of CARICO; empty if the scheduler is too old to send it.
    """

    workloads: Mapping[str, str]
    version: str
