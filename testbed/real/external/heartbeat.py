"""Heartbeats of runs that share a cluster: a run shows its own on its namespaces, and watches those of other runs.

A run keeps changing an annotation of its namespaces; a run whose annotation stays unchanged for too long is dead.
No clocks are compared: the observing run measures the time on its own clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from carico.clock import Clock
from carico.errors import KubeRefused, KubeUnreachable
from testbed.real.api import HEARTBEAT, RUN_LABEL, ClusterApi, Json

BEAT_S = 5.0
"""Time between two beats."""
SILENCE_S = 30.0
"""A run whose last beat is older than this is dead."""
_PASSING = (404, 409)
"""Refusals that pass: the namespace was removed, or changed, after it was listed."""


def run_of(namespace: Json) -> str:
    """Return the id of the run that a namespace belongs to."""
    return str(namespace["metadata"]["labels"][RUN_LABEL])


class Heartbeat:
    """Beats on all namespaces of a run, from `start` to `stop`.

    Parameters
    ----------
    api : ClusterApi
    run : str
        The run's id.
    beat_s : float
        Seconds between two beats.
    say : callable, optional
        Called once with a message if the cluster refuses a beat.
    """

    def __init__(
        self, api: ClusterApi, run: str, beat_s: float = BEAT_S, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._api = api
        self._run = run
        self._beat_s = beat_s
        self._say = say
        self._over = threading.Event()

    def start(self) -> None:
        """Begin, in a new thread."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._over.set()

    def _beat(self) -> None:
        is_told = False
        for number in count():
            try:
                for namespace in self._api.namespaces():
                    if run_of(namespace) == self._run:
                        self._api.show_alive(namespace["metadata"]["name"], str(number))
            except KubeUnreachable:
                pass  # the next beat comes well before `SILENCE_S`
            except KubeRefused as error:
                if not error.may_pass and error.status not in _PASSING and not is_told:
                    is_told = True
                    self._say(
                        f"run {self._run} cannot show that it is alive, so other runs on this cluster will remove its "
                        f"namespaces after {SILENCE_S:.0f} s: {error}; it must be allowed to list and patch namespaces"
                    )
            if self._over.wait(self._beat_s):
                return


class OtherRuns:
    """Observes the namespaces of other runs, and tells which runs are alive.

    Parameters
    ----------
    clock : Clock
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}

    def is_alive(self, namespace: Json) -> bool | None:
        """Return True if the heartbeat has changed since the last call, False after `SILENCE_S`, else None."""
        metadata, now = namespace["metadata"], self._clock.now()
        beat = str((metadata.get("annotations") or {}).get(HEARTBEAT))
        last, since = self._seen.setdefault(metadata["name"], (beat, now))
        if beat != last:
            self._seen[metadata["name"]] = (beat, now)
            return True
        return False if now - since >= SILENCE_S else None
