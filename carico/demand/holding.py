"""How long the answer about a pod is held if no node has room for it. Pure.

Room appears many times a second, but a refused pod comes back after a second at the earliest, so it is worth while to
wait for room. As long as an answer is held, no other pod is decided on: no answer is held while another waiting pod
would find room, nor after a wait in vain, until there is room again.
"""

from __future__ import annotations

from collections.abc import Callable

_OVER_S = 1e-6
"""A shorter rest of the time is none."""


class Holding:
    """The answer that is held, if any.

    Parameters
    ----------
    hold_s : float
        The longest time for which an answer is held, seconds.

    Examples
    --------
    >>> holding = Holding(2.0)
    >>> [holding.hold_s("pod-a", lambda: False, now) for now in (0.0, 1.5, 2.0)]
    [2.0, 0.5, 0.0]
    >>> holding.hold_s("pod-b", lambda: False, 2.5)
    0.0
    >>> holding.room_appeared()
    >>> holding.hold_s("pod-b", lambda: False, 3.0), holding.hold_s("pod-b", lambda: True, 4.0)
    (2.0, 0.0)
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._held: tuple[str, float] | None = None
        """The pod whose answer is held, and until when."""
        self._may_hold = True

    def placed(self) -> None:
        """Note that a pod was given a node."""
        self._held, self._may_hold = None, True

    def room_appeared(self) -> None:
        """Note that a node has room for a waiting pod: the next wait need not be in vain."""
        self._may_hold = True

    def hold_s(self, uid: str, others_fit: Callable[[], bool], now: float) -> float:
        """Return how long the answer about a pod without room may be held; 0 gives it now.

        Parameters
        ----------
        uid : str
        others_fit : callable
            Returns whether a waiting pod of another kind would find room.
        now : float
        """
        if self._held is not None and self._held[0] == uid:
            left_s = self._held[1] - now
            if left_s > _OVER_S and not others_fit():
                return left_s
            self._held, self._may_hold = None, False
            return 0.0
        if not self._may_hold or others_fit():
            return 0.0
        self._held = uid, now + self._hold_s
        return self._hold_s
