"""The extender's core of the variant `demand`: `carico.demand.scheduler` for kube-scheduler, with a lock and a journal.

Like `carico.extender.extender`, it decides by answering with one node, but there are two differences. If no node has
room, the answer may be held until one has: kube-scheduler asks about one pod at a time, and would try this pod again
after a second at the earliest. And it watches all pods, not only those with its scheduler name, because it tells every
node the workloads of the node's pods.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from carico.clock import Clock
from carico.demand.decision import DemandDecision
from carico.demand.scheduler import DemandScheduler
from carico.demand.waiting import Kind
from carico.demand.workload import is_latency_critical, placement_of, workload_of
from carico.errors import InvalidState
from carico.extender.api import ExtenderArgs, ExtenderFilterResult, answer, candidates
from carico.extender.extender import DecisionLog, Readiness, conclude
from carico.extender.metrics import ExtenderMetrics
from carico.extender.overdue import OverduePods
from carico.extender.requests import LastRequests, requests_of
from carico.extender.unseen import Unseen
from carico.kube.reflector import ENDED
from carico.logs import FewLines
from carico.outliers import MOST_SHOWN, Outlier
from carico.podevents.source import PLATFORM_NAMESPACES, full_name, may_be_left_out
from carico.scheduling.report import CapacityReport

_log = logging.getLogger(__name__)


class _Pod(NamedTuple):
    kind: Kind
    node: str
    name: str
    """NAMESPACE/NAME."""


class DemandExtender(Readiness):
    """Decides for kube-scheduler, from reports and a watch on all pods. Any thread may call any method.

    Parameters
    ----------
    scheduler : DemandScheduler
        Decides; nothing else may use it.
    journal : DecisionLog or None
    clock : Clock
    metrics : ExtenderMetrics
    scheduler_name : str
        Pods with this `spec.schedulerName` will be asked for.
    unix_time : callable, optional
        The time of day, for checkpoints.
    changed : threading.Condition, optional
        Guards the scheduler, and is waited on while an answer is held; a model of time passes its own.
    excluded_namespaces : collection of str, optional
        Namespaces whose pods agents do not count.
    """

    def __init__(
        self,
        scheduler: DemandScheduler,
        journal: DecisionLog | None,
        clock: Clock,
        metrics: ExtenderMetrics,
        scheduler_name: str,
        unix_time: Callable[[], float] = time.time,
        changed: threading.Condition | None = None,
        excluded_namespaces: Collection[str] = PLATFORM_NAMESPACES,
    ) -> None:
        super().__init__()
        self._unix_time = unix_time
        self._scheduler = scheduler
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._name = scheduler_name
        self._changed = threading.Condition() if changed is None else changed
        """Guards the scheduler and all attributes below; notified when a held answer may be given."""
        self._pods: dict[str, _Pod] = {}
        """The pods that the watch shows, by UID."""
        self._requests = LastRequests()
        self._unseen = Unseen()
        self._held: set[str] = set()
        """The pods that are being decided on and have not been deleted meanwhile."""
        self._excluded = frozenset(excluded_namespaces)
        self._overdue = OverduePods(metrics, lambda uid: self._pods[uid].name if uid in self._pods else uid)
        self._told = FewLines(_log, logging.WARNING, "a node is far from the others")
        self._closed = False

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Decide on a pod; from now on, the pod is in flight to the node in the answer.

        Raises
        ------
        InvalidRequest
            If a candidate is not a node, or the pod cannot be read; nothing has changed then.
        NotReady
            If not all pods are known (see `Readiness`), or if the pod is bound already; nothing has changed then.
        """
        self.require_ready(self._clock.now())
        nodes, pod = candidates(args), args.pod.id
        with self._changed:
            shown = self._pods.get(pod.uid)
            kind = _kind(args.pod.as_object()) if shown is None else shown.kind
            repeated = self._scheduler.repeated(pod.uid, nodes, self._clock.now())
            if repeated is not None:
                return answer(args, repeated, {})
            decision, took_s = self._decide(pod.uid, kind, nodes)
            self._held.add(pod.uid)
            while decision.hold_s and not self._closed:
                looked = self._scheduler.room_appeared
                self._changed.wait_for(
                    lambda looked=looked: self._closed or self._scheduler.room_appeared != looked,  # type: ignore[misc]
                    decision.hold_s,
                )
                repeated = self._scheduler.repeated(pod.uid, nodes, self._clock.now())
                if repeated is not None:
                    return answer(args, repeated, {})  # another call for the pod was answered meanwhile
                if pod.uid not in self._held:
                    break  # the pod was deleted
                decision, took_s = self._decide(pod.uid, kind, nodes)
            self._held.discard(pod.uid)
            if pod.uid not in self._pods:
                self._unseen.asked(pod.uid, self._clock.now())
            self._count()
        return conclude(args, decision, took_s, self._journal, self._metrics)

    def report(self, report: CapacityReport) -> Mapping[str, str]:
        """Take in a node's report, and return the workloads, by UID, that the node does not know of its pods.

        The report's age counts from now, because the clocks of nodes may differ.
        """
        with self._changed:
            now = self._clock.now()
            if report.demand is None:
                self._notice(lambda: self._scheduler.report_capacity(report.node, report.pod_capacity, now))
            else:
                demand = report.demand
                self._notice(lambda: self._scheduler.report(demand, now))
            self._metrics.reports.labels("accepted").inc()
            return self._unknown_to(report)

    def pod_seen(self, pod: Mapping[str, Any]) -> None:
        """Take in a pod as the watch shows it."""
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        phase = (pod.get("status") or {}).get("phase", "Pending")
        uid, node = metadata["uid"], spec.get("nodeName") or ""
        with self._changed:
            known = self._pods.get(uid)
            # What determines workload and placement never changes, but labels do.
            kind = _kind(pod) if known is None else known.kind._replace(critical=is_latency_critical(pod))
            ended = phase in ENDED
            self._unseen.seen(uid)
            if known is None:
                self._requests.note(kind.workload, requests_of(pod))
            name = full_name(metadata.get("namespace"), metadata.get("name")) if known is None else known.name
            self._pods[uid] = _Pod(kind, node, name or uid)
            ours = spec.get("schedulerName") == self._name
            if ended or node:
                running = phase == "Running"
                self._notice(
                    lambda: self._scheduler.pod_changed(
                        uid,
                        kind.workload,
                        node,
                        ended,
                        self._clock.now(),
                        running=running,
                        critical=kind.critical,
                        at_start=bool(self.ready()),
                        # What others place may be anything: nobody has promised room for it.
                        optional=not ours or may_be_left_out(pod, self._excluded),
                    )
                )
            elif ours and not spec.get("schedulingGates"):
                self._notice(lambda: self._scheduler.pod_waits(uid, kind))

    def pod_deleted(self, uid: str) -> None:
        """Take in that a pod was deleted, or has ended."""
        with self._changed:
            self._pods.pop(uid, None)
            self._held.discard(uid)
            self._notice(lambda: self._scheduler.pod_gone(uid, self._clock.now()))

    def pods_followed(self, followed: bool) -> None:
        """See `Readiness`; a watch that is broken shows no pod, so no pod is taken for gone meanwhile."""
        with self._changed:
            super().pods_followed(followed)
            self._unseen.followed(followed, self._clock.now())

    def tick(self) -> None:
        """See `DemandScheduler.tick`; to be called once a second."""
        with self._changed:
            now = self._clock.now()
            for uid in self._unseen.gone(now):
                self._scheduler.pod_gone(uid, now)
            new: list[Outlier] = []
            self._notice(lambda: new.extend(self._scheduler.tick(now, self._pods if self._followed else ())))
            self._overdue.look(self._scheduler.overdue(now))
            self._metrics.outliers.set(len(self._scheduler.outliers.present))
            self._metrics.count_nodes(self._scheduler.node_counts(now))
        for outlier in new:
            self._told.add(str(outlier))

    def close(self) -> None:
        """Give all held answers, and hold no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def nodes(self) -> list[dict[str, Any]]:
        """Return the load of every node; see `DemandScheduler.nodes`."""
        with self._changed:
            return [node._asdict() for node in self._scheduler.nodes(self._clock.now())]

    def outliers(self) -> list[dict[str, Any]]:
        """Return the nodes whose costs have long been far from what the others report; see `carico.outliers`."""
        with self._changed:
            return [outlier._asdict() for outlier in self._scheduler.outliers.present[:MOST_SHOWN]]

    def uncounted(self) -> list[dict[str, Any]]:
        """Return the pods that hold their places because their nodes do not count them; see `OverduePods`."""
        with self._changed:
            return self._overdue.shown()

    def costs(self) -> list[dict[str, Any]]:
        """Return the costs of every workload, see `DemandScheduler.costs`, and what its last pod requested."""
        with self._changed:
            costs = self._scheduler.costs(self._clock.now())
            last = [self._requests.of(cost.workload) for cost in costs]
        return [
            cost._asdict() | {"last_requested_cores": requests.cores, "last_requested_gib": requests.gib}
            for cost, requests in zip(costs, last, strict=True)
        ]

    def workloads(self) -> dict[str, int]:
        """Return how many workloads are known; see `DemandScheduler.workloads`."""
        with self._changed:
            return self._scheduler.workloads()._asdict()

    def costs_at_nodes(self) -> list[dict[str, Any]]:
        """Return what a pod of each workload costs according to each node; doubts are standard deviations."""
        with self._changed:
            known = self._scheduler.known()
        return [
            {
                "workload": workload,
                "node": node,
                "cores": each.cores.mean,
                "cores_doubt": math.sqrt(each.cores.variance),
                "gib": each.gib.mean,
                "gib_doubt": math.sqrt(each.gib.variance),
                **({} if each.reads is None else {"reads": each.reads.mean, "reads_doubt": each.reads.variance**0.5}),
                "pods": each.pods,
            }
            for workload, nodes in sorted(known.items())
            for node, each in sorted(nodes.items())
        ]

    def state(self) -> Mapping[str, Any]:
        """Return what is remembered of workloads, to be saved; see `DemandScheduler.save`."""
        with self._changed:
            learned, requests = self._scheduler.save(self._clock.now()), self._requests.save()
        return {**learned, "requests": requests, "at_unix_s": self._unix_time()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned, here or elsewhere, as far as less is known here.

        Raises
        ------
        InvalidState
            If the state is damaged; nothing has changed then.
        """
        saved_at = state.get("at_unix_s")
        if not isinstance(saved_at, (int, float)):
            raise InvalidState("the saved state does not say when it was saved: it is damaged; delete it")
        elapsed_s = self._unix_time() - saved_at
        requests = self._requests.read(state.get("requests", {}))  # an earlier version saves none
        with self._changed:
            self._scheduler.restore(state, max(elapsed_s, 0.0), self._clock.now())
            self._requests.take_over(requests)

    def _decide(self, uid: str, kind: Kind, nodes: list[str]) -> tuple[DemandDecision, float]:
        began = self._clock.now()
        decision = self._scheduler.filter(uid, kind, nodes, began)
        return decision, self._clock.now() - began

    def _notice(self, news: Any) -> None:
        """Pass news on to the scheduler, and have a held answer reconsidered if a node has room now."""
        before = self._scheduler.room_appeared
        news()
        if self._scheduler.room_appeared != before:
            self._changed.notify_all()
        self._count()

    def _unknown_to(self, report: CapacityReport) -> dict[str, str]:
        if report.demand is None:
            return {}
        known = self._pods
        told = {
            uid: known[uid].kind.workload
            for uid, workload in report.demand.counted.items()
            if workload is not None and uid in known and known[uid].kind.workload != workload
        }
        coming = self._scheduler.loads.in_flight_to(report.node)
        return told | {uid: known[uid].kind.workload for uid in coming if uid in known}

    def _count(self) -> None:
        self._metrics.nodes.set(len(self._scheduler.loads))
        self._metrics.reservations.set(self._scheduler.loads.in_flight_count)
        self._metrics.waiting.set(len(self._scheduler.waiting))


def _kind(pod: Mapping[str, Any]) -> Kind:
    # Thousands of pods share a few texts.
    return Kind(sys.intern(workload_of(pod)), sys.intern(placement_of(pod)), is_latency_critical(pod))
