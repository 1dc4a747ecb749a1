"""The extender's core: `carico.scheduling.scheduler` for kube-scheduler, with a lock, a journal and metrics.

kube-scheduler's extender protocol has no verb to reserve. kube-scheduler also adds its own scores to an extender's, and
binds a pod only when other pods have been decided on already. Therefore `filter` decides: it reserves a place on the
best candidate and names that one node, so that kube-scheduler has nothing left to choose.

- *Restart*: the watch begins with a listing. Places are reserved for the pods in it that are bound and not counted yet
  (in the thesis: still Pending), and before the listing nothing is decided. Reservations for pods that were not bound
  are lost; kube-scheduler asks for these pods again.
- *Replicas*: agents report to all replicas, and each replica watches pods; only the leading kube-scheduler asks its
  extender. When another one takes over, its extender knows all reservations except those for pods that are not bound.
- *Refusals* are given as failedAndUnresolvableNodes, so that a lack of capacity never evicts a pod, and only if no node
  is left: otherwise kube-scheduler does not read them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from carico.clock import Clock
from carico.demand.decision import DemandDecision
from carico.errors import InvalidInput, KubeError, NotReady
from carico.extender.api import ExtenderArgs, ExtenderFilterResult, PodId, answer, candidates
from carico.extender.metrics import ExtenderMetrics
from carico.extender.overdue import OverduePods
from carico.extender.unseen import Unseen
from carico.kube.reflector import ENDED
from carico.podevents.source import PLATFORM_NAMESPACES, full_name, may_be_left_out
from carico.scheduling.decision import Decision
from carico.scheduling.report import CapacityReport
from carico.scheduling.scheduler import Scheduler


class DecisionLog(Protocol):
    """The journal of decisions."""

    def write(self, pod: PodId, decision: Decision | DemandDecision) -> None:
        """Take in a decision; returns at once and raises nothing."""
        ...


NEW_LEADER_S = 10.0
"""A kube-scheduler that has asked nothing for this long may have become the leader meanwhile. Another's lease lasts for
15 s by default, and who has lost it starts anew."""


class Readiness:
    """Whether pods can be decided on: only if all are known that may be on their way to a node.

    They are known from the watch on pods, or because this replica has decided on them itself.
    """

    def __init__(self) -> None:
        self.hurry: Callable[[], None] = lambda: None
        """Called when pods are asked for while the watch on pods is broken; must return at once."""
        self.catch_up: Callable[[], None] = lambda: None
        """Called when this replica may have just become the leader; returns when the API's pods are known, or raises
        KubeError."""
        self._why_not = ""
        self._followed = True
        self._asked_at = -math.inf
        self.pods_listed(False)

    def pods_listed(self, listed: bool) -> None:
        """Note whether all pods are known."""
        self._why_not = "" if listed else "pods have not been listed yet"

    def pods_followed(self, followed: bool) -> None:
        """Note whether the watch on pods works at the moment."""
        self._followed = followed

    def ready(self) -> str:
        """Return why pods cannot be decided on; an empty text means that they can."""
        return self._why_not

    def require_ready(self, now: float) -> None:
        """Check that pods can be decided on; kube-scheduler asks at `now`, seconds.

        Raises
        ------
        NotReady
            If they cannot.
        """
        if self._why_not:
            raise NotReady(self._why_not)
        if not self._followed:
            self.hurry()
        if now - self._asked_at > NEW_LEADER_S:
            if not self._followed:
                raise NotReady("the watch on pods is broken, so pods of another leader may be on their way unseen")
            try:
                self.catch_up()
            except KubeError as error:
                raise NotReady(
                    f"pods cannot be listed, so pods of another leader may be on their way unseen: {error}"
                ) from error
        self._asked_at = now


def conclude(
    args: ExtenderArgs,
    decision: Decision | DemandDecision,
    took_s: float,
    journal: DecisionLog | None,
    metrics: ExtenderMetrics,
) -> ExtenderFilterResult:
    """Record and count a decision that took `took_s` seconds, and return the answer."""
    choice = decision.best_index
    result = answer(args, choice, decision.refused if choice is None else {})
    if journal is not None:
        journal.write(args.pod.id, decision)
    outcome = "unschedulable" if choice is None else "scheduled"
    metrics.decisions.labels(outcome).inc()
    metrics.duration_s.labels(outcome).observe(took_s)
    return result


class Extender(Readiness):
    """Decides for kube-scheduler, from reports and a watch on pods. Any thread may call any method.

    Parameters
    ----------
    scheduler : Scheduler
        Decides and reserves; nothing else may use it.
    journal : DecisionLog or None
    clock : Clock
    metrics : ExtenderMetrics
    excluded_namespaces : collection of str, optional
        Namespaces whose pods agents do not count.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        journal: DecisionLog | None,
        clock: Clock,
        metrics: ExtenderMetrics,
        excluded_namespaces: Collection[str] = PLATFORM_NAMESPACES,
    ) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._lock = threading.Lock()
        """Guards the scheduler and the attributes below."""
        self._excluded = frozenset(excluded_namespaces)
        self._shown: dict[str, str] = {}
        """The names of the pods that the watch shows, by UID."""
        self._unseen = Unseen()
        self._overdue = OverduePods(metrics, lambda uid: self._shown.get(uid, uid))

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Decide on a pod and reserve.

        Raises
        ------
        InvalidRequest
            If a candidate is not a node; nothing has changed then.
        NotReady
            If not all reservations are known (see `Readiness`), or if the pod is bound already; nothing has changed
            then.
        """
        began = self._clock.now()
        self.require_ready(began)
        nodes, uid = candidates(args), args.pod.metadata.uid
        with self._lock:
            repeated = self._scheduler.repeated(uid, nodes, self._clock.now())
            if repeated is not None:
                return answer(args, repeated, {})
            decision = self._scheduler.filter(uid, nodes, self._clock.now())
            if uid not in self._shown:
                self._unseen.asked(uid, self._clock.now())
            self._count()
        return conclude(args, decision, self._clock.now() - began, self._journal, self._metrics)

    def report(self, report: CapacityReport) -> Mapping[str, str]:
        """Take in a node's report, and return no workloads; its age counts from now, because clocks may differ.

        Raises
        ------
        InvalidInput
            If its Pod-Capacity is negative or not finite; the node's last valid report stays in force.
        """
        with self._lock:
            try:
                self._scheduler.report(report.node, report.pod_capacity, self._clock.now(), report.counted)
            except InvalidInput:
                self._metrics.reports.labels("refused").inc()
                raise
            self._metrics.reports.labels("accepted").inc()
            self._count()
        return {}

    def pod_seen(self, pod: Mapping[str, Any]) -> None:
        """Take in a pod as the watch shows it."""
        phase = (pod.get("status") or {}).get("phase", "Pending")
        node = (pod.get("spec") or {}).get("nodeName") or ""
        metadata = pod["metadata"]
        self.pod_changed(
            metadata["uid"],
            node,
            phase == "Pending",
            ended=phase in ENDED,
            optional=may_be_left_out(pod, self._excluded),
            name=full_name(metadata.get("namespace"), metadata.get("name")),
        )

    def pod_changed(
        self, uid: str, node: str, pending: bool, *, ended: bool = False, optional: bool = False, name: str = ""
    ) -> None:
        """Take in what the watch shows of a pod.

        Parameters
        ----------
        uid : str
        node : str
            The node that the pod is bound to; empty if it is not bound.
        pending : bool
            Whether its phase is Pending.
        ended : bool, optional
            Whether its phase is one of a pod that has ended.
        optional : bool, optional
            Whether the node's agent may leave the pod out although it runs.
        name : str, optional
            NAMESPACE/NAME, for people.
        """
        with self._lock:
            self._shown[uid] = name or uid
            self._unseen.seen(uid)
            self._scheduler.pod_changed(uid, node, pending, self._clock.now(), ended=ended, optional=optional)
            self._count()

    def pod_deleted(self, uid: str) -> None:
        """Take in that a pod is gone."""
        with self._lock:
            self._shown.pop(uid, None)
            self._scheduler.pod_deleted(uid, self._clock.now())
            self._count()

    def pods_followed(self, followed: bool) -> None:
        """See `Readiness`; a watch that is broken shows no pod, so no pod is taken for gone meanwhile."""
        with self._lock:
            super().pods_followed(followed)
            self._unseen.followed(followed, self._clock.now())

    def tick(self) -> None:
        """See `Scheduler.tick`; to be called once a second."""
        with self._lock:
            now = self._clock.now()
            for uid in self._unseen.gone(now):
                self._scheduler.pod_deleted(uid, now)
            self._scheduler.tick(now, self._shown if self._followed else ())
            self._overdue.look(self._scheduler.overdue(now))
            self._count()
            self._metrics.count_nodes(self._scheduler.node_counts(now))

    def nodes(self) -> list[dict[str, Any]]:
        """Return what the verdict of `filter` would be now, on every node that has reported: see `NodeVerdict`."""
        with self._lock:
            return [verdict._asdict() for verdict in self._scheduler.verdicts(self._clock.now())]

    def uncounted(self) -> list[dict[str, Any]]:
        """Return the pods that hold their places because their nodes do not count them; see `OverduePods`."""
        with self._lock:
            return self._overdue.shown()

    def costs(self) -> list[dict[str, Any]]:
        """Return nothing: the thesis's variants learn what an average pod costs, not what each workload does."""
        return []

    costs_at_nodes = costs

    outliers = costs

    def workloads(self) -> None:
        """Return nothing, see `costs`."""

    def _count(self) -> None:
        self._metrics.nodes.set(self._scheduler.known_nodes)
        self._metrics.reservations.set(self._scheduler.reservations)
        self._metrics.waiting.set(self._scheduler.waiting)
