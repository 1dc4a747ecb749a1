"""Tells people of pods that hold their places because their nodes do not count them, though they should.

Such pods keep room from others for as long as they run. Most often, the agent of the node does not learn what runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from carico.extender.metrics import ExtenderMetrics
from carico.logs import FewLines
from carico.outliers import MOST_SHOWN
from carico.scheduling.uncounted import Overdue

_log = logging.getLogger(__name__)


class OverduePods:
    """What was found last.

    Parameters
    ----------
    metrics : ExtenderMetrics
    name_of : callable
        Returns a pod's NAMESPACE/NAME by its UID.
    """

    def __init__(self, metrics: ExtenderMetrics, name_of: Callable[[str], str]) -> None:
        self._metrics = metrics
        self._name_of = name_of
        self._found: dict[str, Overdue] = {}
        self._lines = FewLines(_log, logging.WARNING, "a running pod is not counted by its node, so its place is held")

    def look(self, overdue: Iterable[Overdue]) -> None:
        """Take in what is found now; log each pod once."""
        before, self._found = self._found, {each.uid: each for each in overdue}
        self._metrics.uncounted.set(len(self._found))
        for uid, each in self._found.items():
            if uid not in before:
                self._lines.add(
                    f"{self._name_of(uid)} on {each.node}, for {each.for_s:.0f} s: see the node's agent and the log of "
                    f"its container pod-names; or `excluded_namespaces` differs between agents and extender"
                )

    def shown(self) -> list[dict[str, Any]]:
        """Return the pods for people to see, the earliest first, as far as they are shown."""
        found = islice(self._found.items(), MOST_SHOWN)
        return [{"pod": self._name_of(uid), "node": each.node, "for_s": each.for_s} for uid, each in found]
