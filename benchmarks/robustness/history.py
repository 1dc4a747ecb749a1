"""What happened in a run, and what was found wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import simpy


@dataclass
class Findings:
    """What a run, or several, did and violated."""

    pods: int = 0
    faults: int = 0
    over: int = 0
    """Pods that were placed where there was no room."""
    late: int = 0
    """Pods that a former leader bound after another took over; nothing shows them before."""
    beyond: int = 0
    """Pods that were placed where there would have been no room without late ones, either."""
    worst: int = 0
    """The most pods at once that a node had too many."""
    lost: int = 0
    """Pods that were neither bound nor deleted in the end."""
    waited_s: float = 0.0
    """The longest time for which a pod waited while some node had room for it, though others may have been placed."""
    unused_s: float = 0.0
    """The longest time for which a node had room for a pod that waited, and no pod got it."""
    starved: int = 0
    """How often a pod waited, or room stayed unused, for longer than the fault allows."""
    leaks: list[str] = field(default_factory=list)
    """What an extender still held after all pods were gone."""

    def add(self, other: Findings) -> None:
        """Add the findings of another run."""
        self.pods += other.pods
        self.faults += other.faults
        self.over += other.over
        self.late += other.late
        self.beyond += other.beyond
        self.lost += other.lost
        self.starved += other.starved
        self.worst = max(self.worst, other.worst)
        self.waited_s = max(self.waited_s, other.waited_s)
        self.unused_s = max(self.unused_s, other.unused_s)
        self.leaks += other.leaks

    @property
    def clean(self) -> bool:
        """Whether no pod was placed over capacity, except for late ones, lost or starved, and nothing leaked."""
        return not (self.beyond or self.lost or self.starved or self.leaks)


class History:
    """The events of one run, in order.

    Parameters
    ----------
    env : simpy.Environment
    """

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self.lines: list[tuple[float, str]] = []
        self.violations: list[tuple[float, str]] = []
        self.findings = Findings()

    def note(self, what: str) -> None:
        """Note an event."""
        self.lines.append((self._env.now, what))

    def violation(self, what: str) -> None:
        """Note a violation of an invariant."""
        self.violations.append((self._env.now, what))
        self.note(f"VIOLATION: {what}")

    def around_first(self, before_s: float = 30.0, after_s: float = 2.0) -> list[str]:
        """Return the lines around the first violation; all lines if there is none."""
        at = self.violations[0][0] if self.violations else None
        return [
            f"{when:10.3f}  {what}" for when, what in self.lines if at is None or at - before_s <= when <= at + after_s
        ]
