"""The agent of the thesis's variants: samples at 10 Hz, steps its model once a second, reports and exchanges.

It contains no rule of the algorithm, but connects the other modules: telemetry and pod events go into `NodeModel`,
reports to every replica of the scheduler, and the node's own subspace to the aggregator. While no server answers, it
goes on with the node's own model.

Every report says which pods it counts, so that schedulers hold the places of all others.

An agent that ends reports a Pod-Capacity of 0. Otherwise schedulers would believe its last report for some more
seconds, during which nobody measures the node.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carico.agent.loop import AgentLoop, Mailbox
from carico.arrays import FloatArray
from carico.clock import Clock
from carico.model.node_model import NodeModel
from carico.model.report import Report
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.podevents.source import PodChange, PodEventSource
from carico.scheduling.report import MOST_PODS_NAMED
from carico.telemetry.counters import usage_vector
from carico.telemetry.sampler import Batch, Sampler

_log = logging.getLogger(__name__)

_GAUGES = {
    "capacity_signal": "k, in average workloads",
    "baseline": "Estimated k of the idle node",
    "pod_cost": "Estimated drop of k per pod",
    "pods": "Running pods",
    "pod_capacity": "Pods that fit on top, as reported",
}


class Agent(AgentLoop):
    """One node's agent.

    Parameters
    ----------
    node, sampler, pods, clock, reports, checkpoints, unix_time
        See `AgentLoop`.
    aggregator : Mailbox, optional
        Takes the node's own subspaces, and answers with the aggregator's view. Without it the node learns alone.
    variant : Variant, optional
    max_pods : int, optional
        The kubelet's limit.
    knows_uids : bool, optional
        Whether the UIDs of pod events are those of the Kubernetes API. If not, reports do not say which pods they
        count, because schedulers could not recognise any.

    Attributes
    ----------
    model : NodeModel
        What the agent has learned of its node; may be restored before `run`.
    report : Report or None
        The result of the latest step.
    """

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        pods: PodEventSource,
        clock: Clock,
        *,
        aggregator: Mailbox | None = None,
        reports: Sequence[Mailbox] = (),
        checkpoints: Mailbox | None = None,
        variant: Variant = DEFAULT_VARIANT,
        max_pods: int = 110,
        knows_uids: bool = True,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            node,
            sampler,
            pods,
            clock,
            batch_size=variant.batch_size,
            reports=reports,
            checkpoints=checkpoints,
            unix_time=unix_time,
        )
        self.model = NodeModel(variant, max_pods=max_pods)
        self._aggregator = aggregator
        self._knows_uids = knows_uids
        self._events: deque[PodChange] = deque()
        self._running = 0
        """Running pods: the sum of the source's changes."""
        self._uids: set[str] = set()
        self._answered = 0
        self.report: Report | None = None

    def begin(self) -> None:
        """See `AgentLoop`."""
        self.pods.start(self._events.append)
        # By now the source has reported all running pods: their number replaces the one in a restored state.
        self._running = sum(self._take(self._events.popleft()) for _ in range(len(self._events)))
        self.model.reconcile(max(self._running, 0), self.clock.now())

    def take_in(self, batch: Batch) -> None:
        """See `AgentLoop`."""
        self._count_pods()
        if batch.samples is not None:
            self.model.observe_series(usage_vector(batch.samples, self.model.variant.cpu_metric), batch.samples.at_s)
        self._step()

    def end(self) -> None:
        """See `AgentLoop`."""
        self._report(0.0)

    def state(self) -> Mapping[str, FloatArray]:
        """See `AgentLoop`."""
        return self.model.save()

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `AgentLoop`."""
        self.model.restore(state, self.clock.now())

    def gauges(self) -> Mapping[str, tuple[str, float]]:
        """See `AgentLoop`."""
        report = self.report
        if report is None:
            return {}
        return {name: (text, float(getattr(report, name))) for name, text in _GAUGES.items()}

    def _count_pods(self) -> None:
        while self._events:
            event = self._events.popleft()
            self.pod_events += 1
            self._running += self._take(event)
            if event.change < 0 and self._running < 0:
                # A start was missed. The source's next listing corrects the sum; a listing made here would block.
                self.miscounts += 1
                _log.warning("pod events contradict the count", extra={"pods": self._running})
            self.model.reconcile(max(self._running, 0), event.at)

    def _take(self, event: PodChange) -> int:
        """Note which pods run, and return the change of their number."""
        (self._uids.add if event.change > 0 else self._uids.discard)(event.uid)
        return event.change

    def _step(self) -> None:
        now = self.clock.now()
        if self._aggregator is not None and self._aggregator.succeeded != self._answered:
            self._answered = self._aggregator.succeeded
            view = self._aggregator.latest()
            if isinstance(view, Subspace):
                self.model.adopt(view)
                self.model.exchanged(now)
        self.report = report = self.model.step(now)
        if self._aggregator is not None and bool(report.exchange_due):
            self._aggregator.submit(report.subspace)
        self._report(float(report.pod_capacity))

    def _report(self, pod_capacity: float) -> None:
        says = self._knows_uids and len(self._uids) <= MOST_PODS_NAMED
        self.send(pod_capacity, int(self.model.pods), counted=frozenset(self._uids) if says else None)
