"""Asks the metrics server in a separate thread: an answer may take seconds, and the sampling loop cannot wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from carico.errors import CaricoError

_log = logging.getLogger(__name__)

Answer = Mapping[str, object]


class MetricsPoll:
    """Repeats a call until closed, and keeps the latest answer.

    Parameters
    ----------
    ask : callable
        Returns a node's metrics. The constructor makes the first call and passes its exceptions on; later failures are
        logged and leave the latest answer in place.
    period_s : float
        Time between two calls, seconds.
    """

    def __init__(self, ask: Callable[[], Answer], period_s: float) -> None:
        self._ask = ask
        self._period_s = period_s
        self._latest = ask()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics server", daemon=True)
        self._thread.start()

    def latest(self) -> Answer:
        """Return the latest answer without waiting."""
        return self._latest

    def close(self) -> None:
        """Make no more calls, without waiting for a call in progress."""
        self._closing.set()

    def _run(self) -> None:
        answers = True
        while not self._closing.wait(self._period_s):
            try:
                self._latest = self._ask()
                answers = True
            except Exception as error:  # the thread must go on, or the usage would be frozen
                if answers:
                    _log.warning(
                        "no news from the metrics server: %s", error, exc_info=not isinstance(error, CaricoError)
                    )
                answers = False
