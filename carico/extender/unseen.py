"""Pods that were asked for and that the watch on pods has not shown yet.

A pod may be gone before the watch shows it, and then no event ever says so. It is taken for gone if a watch that works
has not shown it for `UNSEEN_S`; a broken one shows nothing. Where nobody watches pods, none is taken for gone.
"""

from __future__ import annotations

UNSEEN_S = 60.0


class Unseen:
    """When pods that the watch does not show were asked for; times are seconds on one clock.

    Examples
    --------
    >>> pods = Unseen()
    >>> pods.followed(True, now=0.0)
    >>> pods.asked("pod-a", now=0.0)
    >>> pods.gone(now=60.0), pods.gone(now=60.1), pods.gone(now=99.0)
    ([], ['pod-a'], [])
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """The earliest first."""
        self._followed: bool | None = None
        """Whether the watch works; None before it first did."""

    def asked(self, uid: str, now: float) -> None:
        """Note that a pod was asked for."""
        if self._followed is not None:
            self._since.pop(uid, None)
            self._since[uid] = now

    def seen(self, uid: str) -> None:
        """Note that the watch shows a pod."""
        self._since.pop(uid, None)

    def followed(self, followed: bool, now: float) -> None:
        """Note whether the watch works from now on; the time counts anew."""
        self._followed = followed
        self._since = dict.fromkeys(self._since, now)

    def gone(self, now: float) -> list[str]:
        """Return the pods that a watch that works has not shown for too long, and forget them."""
        gone = []
        while self._followed and self._since and next(iter(self._since.values())) < now - UNSEEN_S:
            gone.append(next(iter(self._since)))
            del self._since[gone[-1]]
        return gone
