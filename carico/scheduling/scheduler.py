"""The scheduler's core: decides where a pod goes, and reserves its place until the pod runs (thesis §3.6, §4.4). Pure.

The extender drives it on a real cluster, with a lock around it, and the simulated framework under virtual time. Both
pass in what agents report, what the API shows, and the time.

- *A pod is filtered*: the candidates are ranked by Pod-Capacity less reservations, and a place on the best is reserved.
- *A pod is filtered twice* (by UID): the latest call wins. kube-scheduler asks again only after it gave up the earlier
  attempt, so the earlier reservation is released before the decision and does not block the pod itself. A call for a
  pod that is bound already is refused: kube-scheduler's own watch is about to show the binding.
- *A pod is bound*: the API shows `spec.nodeName`, and the reservation is confirmed at that node. It has no time-out
  then, because pulling an image may take minutes. *The pod leaves Pending, or is deleted*: released.
- *The API shows nothing* of a reserved pod for `reservation_timeout_s`: released; if the pod is bound after all, it is
  reserved anew.
- *A node does not report* for `stale_after_s`: it is refused; its reservations stay. After ten minutes it is forgotten,
  because nothing else shows that a node has left.
- *A node has room again while pods wait*: `wake_up` says when that is worth a change in the API, which makes
  kube-scheduler try refused pods again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from carico.errors import NotReady
from carico.scheduling.decision import Decision, NodeVerdict
from carico.scheduling.plugin import CaricoPlugin
from carico.scheduling.wake_up import WakeUp

STALE_AFTER_S = 5.0
"""An older report is not believed: agents report once a second."""
RESERVATION_TIMEOUT_S = 660.0
"""How long a place is reserved for a pod while the API does not show it as bound. kube-scheduler itself waits for
volumes for up to 600 s before it gives up, and asks again after that."""
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

    Examples
    --------
    >>> scheduler = Scheduler(CaricoPlugin())
    >>> scheduler.report("node-0", 1.5, now=0.0)
    >>> [scheduler.filter(pod, ["node-0"], now=0.1).best for pod in ("pod-a", "pod-b")]
    ['node-0', None]
    >>> scheduler.pod_changed("pod-a", "node-0", pending=False, now=0.5)
    >>> scheduler.filter("pod-b", ["node-0"], now=0.6).best
    'node-0'
    """

    def __init__(
        self,
        plugin: CaricoPlugin,
        reservation_timeout_s: float = RESERVATION_TIMEOUT_S,
        wake_up: WakeUp | None = None,
        wake: Callable[[str, float], None] = lambda node, available: None,
        released: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._plugin = plugin
        self._timeout_s = reservation_timeout_s
        self._wake_up = wake_up
        self._wake = wake
        self._released = released
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
        bound = self._plugin.ledger.node_of(uid)
        if bound is not None and uid not in self._due:
            raise NotReady(f"the pod {uid} is bound to {bound} already: wait until the watch on pods shows it")
        self._release_overdue(now)
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

    def report(self, node: str, pod_capacity: float, now: float) -> None:
        """Take in a node's report.

        Raises
        ------
        InvalidInput
            If its Pod-Capacity is negative or not finite; the node's last valid report stays in force.
        """
        self._observe(node, now)  # if the last report is too old by now, this one brings the node back
        self._plugin.report(node, pod_capacity, now)
        self._observe(node, now)

    def pod_changed(self, uid: str, node: str, pending: bool, now: float) -> None:
        """Take in what the API shows of a pod.

        Parameters
        ----------
        uid : str
        node : str
            The node that the pod is bound to; empty if it is not bound.
        pending : bool
            Whether its phase is Pending.
        now : float
        """
        if not pending:
            self._release(uid, "running", now)
            self._waiting.pop(uid, None)
        elif node:
            if self._plugin.ledger.node_of(uid) != node:
                self._release(uid, "elsewhere", now)
                self._plugin.reserve(uid, node)
            self._due.pop(uid, None)
            self._waiting.pop(uid, None)
            self._observe(node, now)

    def pod_deleted(self, uid: str, now: float) -> None:
        """Take in that a pod is gone."""
        self._release(uid, "deleted", now)
        self._waiting.pop(uid, None)

    def tick(self, now: float) -> None:
        """Release overdue reservations, and forget nodes and refused pods that have not been heard of for a long time.

        A node that comes back counts as new. kube-scheduler tries a pod again after five minutes at the latest, but a
        pod that ended before kube-scheduler asked for it gets no further watch event.
        """
        self._release_overdue(now)
        while self._waiting and next(iter(self._waiting.values())) < now - FORGOTTEN_AFTER_S:
            del self._waiting[next(iter(self._waiting))]
        for node in self._plugin.silent(now, FORGOTTEN_AFTER_S):
            self._plugin.forget(node)
            if self._wake_up is not None:
                self._wake_up.forget(node)

    def verdicts(self, now: float) -> tuple[NodeVerdict, ...]:
        """Return what the verdict of `filter` would be now, on every node that has reported."""
        return self._plugin.filter(self._plugin.nodes, now).verdicts

    def _release_overdue(self, now: float) -> None:
        while self._due:
            uid, due = next(iter(self._due.items()))
            if due > now:
                return
            self._release(uid, "timeout", now)

    def _release(self, uid: str, reason: str, now: float) -> None:
        self._due.pop(uid, None)
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
