"""Asks the metrics server in a thread of its own: an answer may take seconds, and the loop that samples cannot wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from carico.errors import CaricoError

_log = logging.getLogger(__name__)

Answer = Mapping[str, object]


class MetricsPoll:
    """Keeps the latest answer of a call that is made again and again, until it is closed.

    Parameters
    ----------
    ask : callable
        Returns a node's metrics. The first answer is waited for, and what is raised instead is the caller's; later
        failures are logged, and the answer before stays the latest one.
    period_s : float
        Between two calls, seconds.
    """

    def __init__(self, ask: Callable[[], Answer], period_s: float) -> None:
        self._ask = ask
        self._period_s = period_s
        self._latest = ask()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics server", daemon=True)
        self._thread.start()

    def latest(self) -> Answer:
        """Return the latest answer, at once."""
        return self._latest

    def close(self) -> None:
        """Ask no more; an answer that is under way is not waited for."""
        self._closing.set()

    def _run(self) -> None:
        answers = True
        while not self._closing.wait(self._period_s):
            try:
                self._latest = self._ask()
                answers = True
            except Exception as error:  # a thread that ends would freeze what the node is known to use
                if answers:
                    _log.warning(
                        "no news from the metrics server: %s", error, exc_info=not isinstance(error, CaricoError)
                    )
                answers = False
