"""The extender's core: decides where a pod goes and reserves the place in one call (thesis §3.6, §4.4).

kube-scheduler's extender protocol has no verb to reserve, adds its own scores to an extender's and binds later, when
other pods have been decided on. So `filter` decides: it ranks the candidates by Pod-Capacity less reservations,
reserves on the best and names that one node, and kube-scheduler has nothing left to choose.

- *A pod is filtered twice* (by UID): the latest call wins. kube-scheduler asks again only after it gave the earlier
  attempt up, so the earlier reservation is released before the decision and does not stand in the pod's own way. A
  call for a pod that is bound already is refused: kube-scheduler's own watch is about to show the binding.
- *A pod is bound*: the watch shows `spec.nodeName`, and the reservation is confirmed at that node. It has no time-out
  then, because pulling an image may take minutes. *The pod leaves Pending, or is deleted*: released.
- *The watch shows nothing* of a reserved pod for `reservation_timeout_s`: released; if the pod is bound after all, the
  watch reserves anew.
- *Restart*: the watch begins with a listing; pods in it that are bound and still Pending are reserved, and before the
  listing nothing is decided. Reservations of pods that were not bound yet are lost; kube-scheduler asks for them again.
- *A node does not report* for `stale_after_s`: it is refused; its reservations stay. After ten minutes it is forgotten,
  because nothing else shows that a node has left.
- *Replicas*: agents report to all of them and each watches pods; only the kube-scheduler that leads asks its own. When
  another one takes over, its replica knows all reservations but those of pods that are not bound yet.
- *Refusals* are given as failedAndUnresolvableNodes, so that a lack of capacity never evicts a pod, and only if no node
  is left: kube-scheduler does not read them otherwise.

One lock guards the plugin, its ledger and what is remembered of pods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from carico.clock import Clock
from carico.errors import InvalidInput, NotReady
from carico.extender.api import ExtenderArgs, ExtenderFilterResult, PodId, answer, candidates
from carico.extender.metrics import ExtenderMetrics
from carico.scheduling.decision import Decision, NodeVerdict
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.report import CapacityReport
from carico.scheduling.wake_up import WakeUp

FORGOTTEN_AFTER_S = 600.0
"""A node that has not reported for so long has left, and a refused pod that was not filtered again has ended."""


class DecisionLog(Protocol):
    """The journal of decisions."""

    def write(self, pod: PodId, decision: Decision) -> None:
        """Take in a decision; returns at once and raises nothing."""
        ...


class Extender:
    """Decides for kube-scheduler, from reports and a watch on pods. Any thread may call any method.

    Parameters
    ----------
    plugin : CaricoPlugin
        Ranks and reserves; nothing else may use it.
    journal : DecisionLog or None
    clock : Clock
    metrics : ExtenderMetrics
    reservation_timeout_s : float
        How long a reservation lasts while the watch shows nothing of its pod, seconds.
    wake_up : WakeUp, optional
    wake : callable, optional
        Called with a node and its room in pods when refused pods should be tried again because of it; must return at
        once.
    """

    def __init__(
        self,
        plugin: CaricoPlugin,
        journal: DecisionLog | None,
        clock: Clock,
        metrics: ExtenderMetrics,
        reservation_timeout_s: float = 60.0,
        wake_up: WakeUp | None = None,
        wake: Callable[[str, float], None] = lambda node, available: None,
    ) -> None:
        self._plugin = plugin
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._timeout_s = reservation_timeout_s
        self._wake_up = wake_up or WakeUp()
        self._wake = wake
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        """When unconfirmed reservations end, by UID; the earliest first."""
        self._waiting: dict[str, float] = {}
        """When the pods that wait were last refused, by UID; the earliest first."""
        self._why_not = "pods have not been listed yet"

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Decide on a pod and reserve.

        Raises
        ------
        InvalidRequest
            If a candidate is not a node; nothing has changed then.
        NotReady
            If pods have not been listed yet, so that reservations are not known, or if the pod is bound already;
            nothing has changed then.
        """
        if self._why_not:
            raise NotReady(self._why_not)
        began = self._clock.now()
        nodes, pod = candidates(args), args.pod.metadata
        with self._lock:
            decision = self._decide(pod.uid, nodes)
        choice = decision.best_index
        result = answer(args, choice, decision.refused if choice is None else {})
        if self._journal is not None:
            self._journal.write(pod, decision)
        outcome = "unschedulable" if choice is None else "scheduled"
        self._metrics.attempts.labels(outcome).inc()
        self._metrics.duration_s.labels(outcome).observe(self._clock.now() - began)
        return result

    def report(self, report: CapacityReport) -> None:
        """Take in a node's report; its age counts from now, for the clocks of nodes may differ.

        Raises
        ------
        InvalidInput
            If its Pod-Capacity is negative or not finite; the node's last valid report stays in force.
        """
        with self._lock:
            now, node = self._clock.now(), report.node
            self._observe(node, now)  # its last report may have become too old, so that this one brings it back
            try:
                self._plugin.report(node, report.pod_capacity, now)
            except InvalidInput:
                self._metrics.reports.labels("refused").inc()
                raise
            self._metrics.reports.labels("accepted").inc()
            self._metrics.nodes.set(len(self._plugin))
            self._observe(node, now)

    def pod_changed(self, uid: str, node: str, pending: bool) -> None:
        """Take in what the watch shows of a pod.

        Parameters
        ----------
        uid : str
        node : str
            The node that the pod is bound to; empty if it is not bound.
        pending : bool
            Whether its phase is Pending.
        """
        with self._lock:
            if not pending:
                self._release(uid, "running")
                self._waiting.pop(uid, None)
            elif node:
                if self._plugin.ledger.node_of(uid) != node:
                    self._release(uid, "elsewhere")
                    self._plugin.reserve(uid, node)
                self._due.pop(uid, None)
                self._waiting.pop(uid, None)
                self._observe(node, self._clock.now())
            self._count()

    def pod_deleted(self, uid: str) -> None:
        """Take in that a pod is gone."""
        with self._lock:
            self._release(uid, "deleted")
            self._waiting.pop(uid, None)
            self._count()

    def pods_listed(self, listed: bool) -> None:
        """Take in whether all pods are known, which is from the watch's first listing on."""
        self._why_not = "" if listed else "pods have not been listed yet"

    def release_overdue(self) -> None:
        """Release reservations that have timed out; `filter` does so, too."""
        with self._lock:
            self._release_overdue(self._clock.now())
            self._count()

    def forget_silent(self) -> None:
        """Forget nodes that have not reported for ten minutes, and refused pods that were not filtered again as long.

        A node that comes back is a new one. kube-scheduler tries a pod again after five minutes at the latest, but a
        pod that ended before kube-scheduler asked for it gets no further watch event.
        """
        with self._lock:
            now = self._clock.now()
            while self._waiting and next(iter(self._waiting.values())) < now - FORGOTTEN_AFTER_S:
                del self._waiting[next(iter(self._waiting))]
            for node in self._plugin.silent(now, FORGOTTEN_AFTER_S):
                self._plugin.forget(node)
                self._wake_up.forget(node)
            self._metrics.nodes.set(len(self._plugin))
            self._count()

    def nodes(self) -> tuple[NodeVerdict, ...]:
        """Return the verdict of `filter`, as it would be now, on every node that has reported."""
        with self._lock:
            return self._plugin.filter(self._plugin.nodes, self._clock.now()).verdicts

    def ready(self) -> str:
        """Return why nothing can be decided; an empty text means that pods can be."""
        return self._why_not

    def _decide(self, uid: str, nodes: Sequence[str]) -> Decision:
        bound = self._plugin.ledger.node_of(uid)
        if bound is not None and uid not in self._due:
            raise NotReady(f"the pod {uid} is bound to {bound} already: wait until the watch on pods shows it")
        now = self._clock.now()
        self._release_overdue(now)
        self._release(uid, "asked again")
        self._waiting.pop(uid, None)
        decision = self._plugin.filter(nodes, now)
        best = decision.best
        if best is None:
            self._waiting[uid] = now
        else:
            self._plugin.reserve(uid, best)
            self._due[uid] = now + self._timeout_s
            self._observe(best, now)
        self._count()
        return decision

    def _release_overdue(self, now: float) -> None:
        while self._due:
            uid, due = next(iter(self._due.items()))
            if due > now:
                return
            self._release(uid, "timeout")

    def _release(self, uid: str, reason: str) -> None:
        self._due.pop(uid, None)
        node = self._plugin.release(uid)
        if node is not None:
            self._metrics.released.labels(reason).inc()
            self._observe(node, self._clock.now())

    def _observe(self, node: str, now: float) -> None:
        available = self._plugin.score(node, now)
        if self._wake_up.observe(node, available, now, wanted=bool(self._waiting)):
            self._wake(node, available)

    def _count(self) -> None:
        self._metrics.reservations.set(len(self._plugin.ledger))
        self._metrics.waiting.set(len(self._waiting))
