"""The scheduler's core: decides where a pod goes, and reserves its place until it is counted (thesis §3.6, §4.4). Pure.

The extender drives it on a real cluster, with a lock around it, and the simulated framework under virtual time. Both
pass in what agents report, what the API shows, and the time.

- *A pod is filtered*: the candidates are ranked by Pod-Capacity less reservations, and a place on the best is reserved.
- *A pod is filtered twice* (by UID): the latest call wins. kube-scheduler asks again only after it gave up the earlier
  attempt, so the earlier reservation is released before the decision and does not block the pod itself. A call for a
  pod that is bound already is refused: kube-scheduler's own watch is about to show the binding. But a call that comes
  within `REPEATED_S` repeats the earlier one, whose answer may still count: see `repeated`.
- *A pod is bound*: the API shows `spec.nodeName`, and the reservation is confirmed at that node. It has no time-out
  then, because pulling an image may take minutes. *The pod has ended, or is deleted*: released.
- *A pod runs*: released at once in the thesis (§4.4). The node's last report may be older than the pod, though, and
  then nothing counts the pod until the next one. With `until_counted`, a running pod is released when the last report
  counts it, or leaves it out as it may (`uncounted`); no clock releases a pod that an agent must count. Being counted
  is not enough: Pod-Capacity is measured, and a pod that waits for its image uses nothing.
- *The API does not show* a reserved pod for `reservation_timeout_s`: released; if the pod is bound after all, it is
  reserved anew. A pod that the API shows, but not as bound, keeps its place: bindings may take long, and kube-scheduler
  asks again if one has failed.
- *A node does not report* for `stale_after_s`: it is refused; its reservations stay. After ten minutes it is forgotten,
  because nothing else shows that a node has left.
- *A node has room again while pods wait*: `wake_up` says when that is worth a change in the API, which makes
  kube-scheduler try refused pods again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from carico.errors import NotReady
from carico.scheduling.decision import Decision, NodeVerdict
from carico.scheduling.node_counts import NodeCounts
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.uncounted import Overdue, Uncounted
from carico.scheduling.wake_up import WakeUp

STALE_AFTER_S = 5.0
"""An older report is not believed: agents report once a second."""
RESERVATION_TIMEOUT_S = 660.0
"""How long a place is reserved for a pod while the API does not show it as bound. kube-scheduler itself waits for
volumes for up to 600 s before it gives up, and asks again after that."""
REPEATED_S = 1.0
"""A call that comes this soon after the last answer about the pod repeats the earlier call: after an answer that was
lost, or a binding that failed, kube-scheduler tries the pod again after a second at the earliest."""
FORGOTTEN_AFTER_S = 600.0
"""A node that has not reported for longer has left, and a refused pod that was not filtered again has ended."""
TICK_S = 1.0
"""How often the owner calls `tick`."""


class Scheduler:
    """Decides, reserves and releases; times are seconds on one clock, and never decrease from call to call.

    Parameters
    ----------
    plugin : CaricoPlugin
        Ranks nodes and counts reservations; nothing else may use it.
    reservation_timeout_s : float
        How long a reservation lasts while the API shows nothing of its pod, seconds.
    wake_up : WakeUp, optional
        Without it refused pods are never woken.
    wake : callable, optional
        Called with a node and its room in pods when refused pods should be tried again because of it; must return at
        once.
    released : callable, optional
        Called with the reason of every released reservation.
    until_counted : bool, optional
        Hold reservations of running pods until a report counts them; by default they end when the pods run.

    Examples
    --------
    >>> scheduler = Scheduler(CaricoPlugin())
    >>> scheduler.report("node-0", 1.5, now=0.0)
    >>> [scheduler.filter(pod, ["node-0"], now=0.1).best for pod in ("pod-a", "pod-b")]
    ['node-0', None]
    >>> scheduler.pod_changed("pod-a", "node-0", pending=False, now=0.5)
    >>> scheduler.filter("pod-b", ["node-0"], now=0.6).best
    'node-0'

    The last report counted neither pod:

    >>> scheduler = Scheduler(CaricoPlugin(), until_counted=True)
    >>> scheduler.report("node-0", 1.5, now=0.0)
    >>> decision = scheduler.filter("pod-a", ["node-0"], now=0.1)
    >>> scheduler.pod_changed("pod-a", "node-0", pending=False, now=0.5)
    >>> scheduler.filter("pod-b", ["node-0"], now=0.6).best
    >>> scheduler.report("node-0", 1.1, now=1.0, counted=frozenset({"pod-a"}))
    >>> scheduler.filter("pod-b", ["node-0"], now=1.1).best
    'node-0'
    """

    def __init__(
        self,
        plugin: CaricoPlugin,
        reservation_timeout_s: float = RESERVATION_TIMEOUT_S,
        wake_up: WakeUp | None = None,
        wake: Callable[[str, float], None] = lambda node, available: None,
        released: Callable[[str], None] = lambda reason: None,
        until_counted: bool = False,
    ) -> None:
        self._plugin = plugin
        self._timeout_s = reservation_timeout_s
        self._wake_up = wake_up
        self._wake = wake
        self._released = released
        self._until_counted = until_counted
        self._bound: dict[str, str] = {}
        """The node of every pod that the API shows as bound and that is not over, by UID."""
        self._counted: dict[str, frozenset[str]] = {}
        """The pods that each node's last report counts."""
        self._uncounted = Uncounted(plugin.stale_after_s)
        self._due: dict[str, float] = {}
        """When unconfirmed reservations end, by UID; the earliest first."""
        self._waiting: dict[str, float] = {}
        """When the pods that wait were last refused, by UID; the earliest first."""

    @property
    def known_nodes(self) -> int:
        """Number of nodes that have reported and were not forgotten."""
        return len(self._plugin)

    @property
    def reservations(self) -> int:
        """Number of pods on their way to a node."""
        return len(self._plugin.ledger)

    @property
    def waiting(self) -> int:
        """Number of pods that were refused and not tried again since."""
        return len(self._waiting)

    def filter(self, uid: str, nodes: Sequence[str], now: float) -> Decision:
        """Decide on a pod and reserve a place for it on the best node.

        Raises
        ------
        NotReady
            If the pod is bound already; nothing has changed then.
        """
        bound = self._bound.get(uid)
        if bound is not None:
            raise NotReady(f"the pod {uid} is bound to {bound} already: wait until the watch on pods shows it")
        self._release(uid, "asked again", now)
        self._waiting.pop(uid, None)
        decision = self._plugin.filter(nodes, now)
        best = decision.best
        if best is None:
            self._waiting[uid] = now
        else:
            self._plugin.reserve(uid, best)
            self._due[uid] = now + self._timeout_s
            self._observe(best, now)
        return decision

    def repeated(self, uid: str, nodes: Sequence[str], now: float) -> int | None:
        """Return the index of the candidate that the pod was given less than `REPEATED_S` ago; None if there is none.

        The same answer is to be given again then, because nobody knows which of the two counts.
        """
        if uid not in self._due or now - (self._due[uid] - self._timeout_s) >= REPEATED_S:
            return None
        node = self._plugin.ledger.node_of(uid)
        return nodes.index(node) if node in nodes else None

    def report(self, node: str, pod_capacity: float, now: float, counted: frozenset[str] | None = None) -> None:
        """Take in a node's report.

        Parameters
        ----------
        node : str
        pod_capacity : float
            Pods.
        now : float
        counted : frozenset of str, optional
            The UIDs of the pods that the report counts; None if it does not say.

        Raises
        ------
        InvalidInput
            If its Pod-Capacity is negative or not finite; the node's last valid report stays in force.
        """
        self._observe(node, now)  # if the last report is too old by now, this one brings the node back
        self._plugin.report(node, pod_capacity, now)
        if self._until_counted:
            self._take_counted(node, counted, now)
        self._observe(node, now)

    def pod_changed(
        self, uid: str, node: str, pending: bool, now: float, *, ended: bool = False, optional: bool = False
    ) -> None:
        """Take in what the API shows of a pod.

        Parameters
        ----------
        uid : str
        node : str
            The node that the pod is bound to; empty if it is not bound.
        pending : bool
            Whether its phase is Pending.
        now : float
        ended : bool, optional
            Whether its phase is one of a pod that has ended.
        optional : bool, optional
            Whether an agent may leave the pod out although its phase is Running, see `carico.podevents.source`.
        """
        if ended or not (pending or self._until_counted):
            self._over(uid, "ended" if ended else "running", now)
        elif node:
            reserved, first = self._plugin.ledger.node_of(uid), uid not in self._bound
            # A running pod that has been released was counted or left out, unless it is seen for the first time.
            if reserved != node and (pending or first or reserved is not None):
                self._release(uid, "elsewhere", now)
                self._plugin.reserve(uid, node)
            self._bound[uid] = node
            self._due.pop(uid, None)
            self._waiting.pop(uid, None)
            if not pending and self._plugin.ledger.node_of(uid) == node:
                self._uncounted.runs(uid, node, now, optional=optional)
                if uid in self._counted.get(node, ()):
                    self._release(uid, "counted", now)
            self._observe(node, now)

    def pod_deleted(self, uid: str, now: float) -> None:
        """Take in that a pod is gone."""
        self._over(uid, "deleted", now)

    def tick(self, now: float, shown: Container[str] = ()) -> None:
        """Release overdue reservations, and forget nodes and refused pods that have not been heard of for a long time.

        Reservations of the pods in `shown`, by UID, which the API shows at the moment, are never overdue. A node that
        comes back counts as new. kube-scheduler tries a pod again after five minutes at the latest, but a pod that
        ended before kube-scheduler asked for it gets no further watch event.
        """
        self._release_overdue(now, shown)
        while self._waiting and next(iter(self._waiting.values())) < now - FORGOTTEN_AFTER_S:
            del self._waiting[next(iter(self._waiting))]
        for node in self._plugin.silent(now, FORGOTTEN_AFTER_S):
            self._plugin.forget(node)
            self._counted.pop(node, None)
            self._uncounted.forget(node)
            if self._wake_up is not None:
                self._wake_up.forget(node)

    def overdue(self, now: float) -> Iterable[Overdue]:
        """Return the pods that hold their places because their nodes do not count them, though they should."""
        return self._uncounted.overdue(now)

    def verdicts(self, now: float) -> tuple[NodeVerdict, ...]:
        """Return what the verdict of `filter` would be now, on every node that has reported."""
        return self._plugin.filter(self._plugin.nodes, now).verdicts

    def node_counts(self, now: float) -> NodeCounts:
        """Count the nodes that have reported."""
        return self._plugin.counts(now)

    def _take_counted(self, node: str, said: frozenset[str] | None, now: float) -> None:
        """Release the running pods that a node's new report counts or leaves out; the caller observes the node."""
        counted = self._counted[node] = said or frozenset()
        self._uncounted.reported(node, now, says=said is not None)
        for uid in self._plugin.ledger.pods(node):
            if uid not in self._uncounted:
                continue
            if uid in counted or self._uncounted.left_out(uid, now):
                self._uncounted.over(uid)
                self._plugin.release(uid)
                self._released("counted" if uid in counted else "not counted")

    def _over(self, uid: str, reason: str, now: float) -> None:
        """Release a pod that needs no place any more."""
        self._release(uid, reason, now)
        self._bound.pop(uid, None)
        self._waiting.pop(uid, None)

    def _release_overdue(self, now: float, shown: Container[str]) -> None:
        while self._due:
            uid, due = next(iter(self._due.items()))
            if due > now:
                return
            if uid in shown:
                del self._due[uid]
            else:
                self._release(uid, "timeout", now)

    def _release(self, uid: str, reason: str, now: float) -> None:
        self._due.pop(uid, None)
        self._uncounted.over(uid)
        node = self._plugin.release(uid)
        if node is not None:
            self._released(reason)
            self._observe(node, now)

    def _observe(self, node: str, now: float) -> None:
        """Wake refused pods if the node has room again; called whenever its room may have changed."""
        if self._wake_up is None:
            return
        available = self._plugin.score(node, now)
        if self._wake_up.observe(node, available, now, wanted=bool(self._waiting)):
            self._wake(node, available)
