"""Which nodes may say what a workload costs: those that run or ran a pod of it, as the Kubernetes API shows. Pure.

What a node says about another workload concerns that node alone, so it is filed under a name of the node's own, which
no pod's workload has: no node can make up the cost of a workload that it never ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from carico.demand.report import DemandReport

MOST_ENDED = 256
"""The most workloads without pods that a node may speak about: four times as many as it tells apart."""
_OWN = "@"
"""Separates a workload from the node whose own name for it this is; no workload of the API contains it."""


class Witnesses:
    """Which workloads each node runs or ran.

    Examples
    --------
    >>> witnesses = Witnesses()
    >>> witnesses.started("node-0", "pi")
    >>> witnesses.ended("node-0", "pi")
    >>> witnesses.saw("node-0", "pi"), witnesses.saw("node-1", "pi")
    (True, False)
    """

    def __init__(self) -> None:
        self._running: dict[str, Counter[str]] = {}
        """The number of running pods by node and workload."""
        self._ended: dict[str, dict[str, None]] = {}
        """The workloads whose pods have ended, by node; the one that ended longest ago comes first."""

    def started(self, node: str, workload: str) -> None:
        """Note that the API shows a pod on a node."""
        self._running.setdefault(node, Counter())[workload] += 1

    def ended(self, node: str, workload: str) -> None:
        """Note that a pod, which was shown before, is gone."""
        running = self._running[node]
        running[workload] -= 1
        if not running[workload]:
            del running[workload]
            if not running:
                del self._running[node]
            ended = self._ended.setdefault(node, {})
            ended.pop(workload, None)
            ended[workload] = None
            if len(ended) > MOST_ENDED:
                del ended[next(iter(ended))]

    def saw(self, node: str, workload: str) -> bool:
        """Return whether a node runs or ran a pod of a workload."""
        return workload in self._running.get(node, ()) or workload in self._ended.get(node, ())

    def forget(self, node: str) -> None:
        """Forget which pods have ended on a node that has left the cluster."""
        self._ended.pop(node, None)

    def checked(self, report: DemandReport, coming: Collection[str]) -> DemandReport:
        """Return a report in which workloads that its node did not run have names of the node's own.

        Parameters
        ----------
        report : DemandReport
        coming : collection of str
            The workloads of pods in flight to the node, which the API may show there a moment later.
        """
        node = report.node
        own = {name: f"{name}{_OWN}{node}" for name in report.workloads if not (self.saw(node, name) or name in coming)}
        if not own:
            return report
        return replace(
            report,
            workloads={own.get(name, name): known for name, known in report.workloads.items()},
            counted={uid: name if name is None else own.get(name, name) for uid, name in report.counted.items()},
        )


def is_own(workload: str) -> bool:
    """Return whether this is a node's own name for a workload that it did not run.

    Examples
    --------
    >>> is_own("jobs/pi-d77133f5"), is_own("jobs/pi-d77133f5@node-0")
    (False, True)
    """
    return _OWN in workload
