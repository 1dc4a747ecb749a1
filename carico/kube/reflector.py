"""Follows a selection of objects in a thread: lists them, watches from there, and passes on each one's latest state.

They are pods, or signing requests. A stream that ends is resumed where it ended. If the API server no longer remembers
that version (410), or a callback fails, objects are listed again, and those that are gone by then are passed on as
deleted: nothing is missed, but something may be passed on twice.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, Protocol, Self

from carico.backoff import Backoff
from carico.clock import Clock
from carico.errors import KubeError, KubeRefused

_log = logging.getLogger(__name__)

_BACKOFF = Backoff(first_s=0.2, longest_s=30.0)
ENDED = ("Succeeded", "Failed")
"""The phases of pods that have ended."""
_GONE = 410
_SHORT_S = 1.0
"""A stream that brings nothing and ends sooner counts as a failure, so that its server is not flooded with requests."""
HURRIED_S = 5.0
"""How long to wait at most after a failure while somebody needs the pods; a listing of all pods is not cheap."""
SILENT_S = 1.0
"""How long ago a stream may have brought something for `Reflector.catch_up` to trust it. Whoever needs all pods has
mostly been asked about one that the stream has just brought."""
_PATIENCE_S = 5.0
"""How long to wait for the thread's end, which takes longer only if a server does not answer at all."""


class Objects(Protocol):
    """A selection of objects, see `carico.kube.client.Selection`."""

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """Return all objects and their resource version."""
        ...

    def watch(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what has happened since that version: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""
        ...

    def close(self) -> None:
        """End the watch that another thread waits in, and every later one."""
        ...


def _ignore(*_: object) -> None:
    """Do nothing."""


class Reflector:
    """Follows objects from `start` to `close`, or within a `with` block; no callback is called afterwards.

    Parameters
    ----------
    objects : Objects
        Closed with the reflector.
    changed : callable
        Called with every object that is new or different, as the API's JSON has it.
    clock : Clock
    rng : random.Random
        Spreads the waits after failures, so that replicas do not all come back at once.
    deleted : callable, optional
        Called with the UID of every object that is gone.
    listed : callable, optional
        Called after every complete listing.
    following : callable, optional
        Called with whether objects are followed at the moment, whenever that changes; at first they are not. A stream
        that was resumed counts only when it brings something: bookmarks come once a minute.
    what : str, optional
        What the objects are, for messages.
    """

    def __init__(
        self,
        objects: Objects,
        changed: Callable[[dict[str, Any]], None],
        clock: Clock,
        rng: random.Random,
        deleted: Callable[[str], None] = _ignore,
        listed: Callable[[], None] = _ignore,
        following: Callable[[bool], None] = _ignore,
        what: str = "pods",
    ) -> None:
        self._objects = objects
        self._what = what
        self._changed = changed
        self._deleted = deleted
        self._listed = listed
        self._following = following
        self._is_following = False
        self._clock = clock
        self._rng = rng
        self._known: set[str] = set()
        self._version: str | None = None
        self._failures = 0
        self._brought_at = -math.inf
        self._catching_up = threading.Lock()
        """Held by whoever catches up: of several threads, one lists."""
        self._lock = threading.Lock()
        """Guards what is known, against a thread that catches up."""
        self._brought: set[str] | None = None
        """The UIDs that the stream has brought since somebody began to catch up; None if nobody does."""
        self._stop = threading.Event()
        self._hurried = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"watch on {what}", daemon=True)

    def start(self) -> None:
        """Start following in a thread."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread still follows."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        self._hurried.set()
        self._objects.close()
        self._thread.join(_PATIENCE_S)

    def hurry(self) -> None:
        """Try again `HURRIED_S` after the last failure, if the wait is longer; for whoever needs the pods now."""
        self._hurried.set()

    def catch_up(self) -> None:
        """List objects anew, unless the stream has just brought something; for whoever must know all of them now.

        A stream that is silent may have nothing to bring, or be stuck. May be called in any thread; the stream goes on,
        and passes on what it brings late as if it were new.

        Raises
        ------
        KubeError
            If they cannot be listed.
        """
        with self._catching_up:
            if self._clock.now() - self._brought_at <= SILENT_S:
                return
            with self._lock:
                before, self._brought = set(self._known), set()
            try:
                things, _ = self._objects.list()
                with self._lock:
                    self._take_all(things, before, self._brought)
            finally:
                with self._lock:
                    self._brought = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Follow the objects in the thread; failures are logged and followed by another attempt, after up to 30 s."""
        while not self._stop.is_set():
            wait_s = self.follow()
            if wait_s:
                self._wait(wait_s)

    def follow(self) -> float:
        """List if necessary, watch until the stream ends, and return how many seconds to wait before going on."""
        try:
            self._follow()
        except KubeError as error:
            self._failures += 1
            if isinstance(error, KubeRefused):  # whatever the reason, 410 or another: start over
                self._version = None
            if not (isinstance(error, KubeRefused) and error.status == _GONE and self._failures == 1):
                _log.warning(
                    "%s are not followed at the moment: %s", self._what, error, extra={"failures": self._failures}
                )
        except Exception:  # a fault of a callback or a library must not end the thread unnoticed
            self._failures += 1
            self._version = None
            _log.exception("%s are not followed at the moment", self._what, extra={"failures": self._failures})
        if not self._failures:
            return 0.0
        self._note_whether_following(False)
        return _BACKOFF.wait_s(self._failures, self._rng)

    def _wait(self, seconds: float) -> None:
        if not self._stop.wait(min(seconds, HURRIED_S)):
            self._hurried.wait(max(seconds - HURRIED_S, 0.0))
            self._hurried.clear()

    def _follow(self) -> None:
        """List if necessary, and watch until the stream ends."""
        if self._version is None:
            self._version = self._list()
        began, events = self._clock.now(), 0
        for kind, thing in self._objects.watch(self._version):
            self._take(kind, thing)
            events += 1
            self._failures = 0
        lasted = events or self._clock.now() - began >= _SHORT_S
        self._failures = 0 if lasted else self._failures + 1

    def _list(self) -> str:
        things, version = self._objects.list()
        with self._lock:
            self._take_all(things, self._known, frozenset())
        self._tell(self._listed)
        self._note_whether_following(True)
        return version

    def _take_all(self, things: Sequence[dict[str, Any]], before: Set[str], newer: Set[str]) -> None:
        """Pass on what was listed, and which objects known before are gone, except for what the stream knows newer."""
        present = {thing["metadata"]["uid"] for thing in things}
        for uid in before - present - newer:
            self._tell(self._deleted, uid)
            self._known.discard(uid)
        for thing in things:
            if (uid := thing["metadata"]["uid"]) not in newer:
                self._tell(self._changed, thing)
                self._known.add(uid)
        self._note_brought(present)

    def _take(self, kind: str, thing: dict[str, Any]) -> None:
        uid = thing["metadata"].get("uid")
        with self._lock:
            if kind == "DELETED":
                self._known.discard(uid)
                self._tell(self._deleted, uid)
            elif kind != "BOOKMARK":
                self._known.add(uid)
                self._tell(self._changed, thing)
            self._note_brought({uid})
        self._version = thing["metadata"]["resourceVersion"]
        self._note_whether_following(True)

    def _note_brought(self, uids: Set[str]) -> None:
        self._brought_at = self._clock.now()
        if self._brought is not None:
            self._brought |= uids

    def _note_whether_following(self, following: bool) -> None:
        if following != self._is_following:
            self._is_following = following
            self._tell(self._following, following)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        if not self._stop.is_set():
            callback(*arguments)
