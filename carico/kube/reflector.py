"""Follows all pods of a selection: list, then watch from there, for ever; every pod's last state is passed on.

A stream that ends is resumed where it ended. Where the API server does not remember that any more (410), pods are
listed again, and those that are gone by then are told as deleted: nothing is missed, some of it is told twice.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from carico.backoff import Backoff
from carico.clock import Clock
from carico.errors import KubeError, KubeRefused

_log = logging.getLogger(__name__)

_BACKOFF = Backoff(first_s=0.2, longest_s=30.0)
_GONE = 410
_SHORT_S = 1.0
"""A stream that brings nothing and ends sooner is a failure, or a server that closes at once would be run over."""


class Pods(Protocol):
    """A selection of pods, see `KubeClient`."""

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """Return all pods and the resource version that they are of."""
        ...

    def watch(self, version: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what happened since that version."""
        ...


class Reflector:
    """Keeps up with pods.

    Parameters
    ----------
    pods : Pods
    changed : callable
        Called with every pod that is new or different, as the API's JSON has it.
    deleted : callable
        Called with the UID of every pod that is gone.
    listed : callable
        Called after every complete listing.
    clock : Clock
    rng : random.Random
        Spreads the waits after failures, so that replicas do not come back all at once.
    """

    def __init__(
        self,
        pods: Pods,
        changed: Callable[[dict[str, Any]], None],
        deleted: Callable[[str], None],
        listed: Callable[[], None],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._pods = pods
        self._changed = changed
        self._deleted = deleted
        self._listed = listed
        self._clock = clock
        self._rng = rng
        self._known: set[str] = set()
        self._version: str | None = None
        self._failures = 0

    def run(self, stop: threading.Event) -> None:
        """Follow until `stop` is set; failures are logged and tried again, with growing waits up to 30 s."""
        while not stop.is_set():
            try:
                self.follow(stop)
            except KubeError as error:
                self._failures += 1
                if isinstance(error, KubeRefused):  # of 410, or whatever it is: start over
                    self._version = None
                if not (isinstance(error, KubeRefused) and error.status == _GONE and self._failures == 1):
                    _log.warning("pods are not followed at the moment: %s", error, extra={"failures": self._failures})
            if self._failures:
                stop.wait(_BACKOFF.wait_s(self._failures, self._rng))

    def follow(self, stop: threading.Event) -> None:
        """List if need be, and watch until the stream ends.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or breaks off.
        """
        if self._version is None:
            self._list()
        began, events = self._clock.now(), 0
        for kind, pod in self._pods.watch(self._version):
            self._take(kind, pod)
            events += 1
            self._failures = 0
            if stop.is_set():
                return
        lasted = events or self._clock.now() - began >= _SHORT_S
        self._failures = 0 if lasted else self._failures + 1

    def _list(self) -> None:
        pods, version = self._pods.list()
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in self._known - present:
            self._deleted(uid)
        for pod in pods:
            self._changed(pod)
        self._known = present
        self._version = version
        self._listed()

    def _take(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "DELETED":
            self._known.discard(pod["metadata"]["uid"])
            self._deleted(pod["metadata"]["uid"])
        elif kind != "BOOKMARK":
            self._known.add(pod["metadata"]["uid"])
            self._changed(pod)
        self._version = pod["metadata"]["resourceVersion"]
