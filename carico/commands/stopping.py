"""How a process that serves ends: SIGTERM and Ctrl-C ask it to stop, and it then ends as it should, with code 0."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM or SIGINT sets; to be used in the main thread."""
    stop = threading.Event()

    def ask(*_: object) -> None:
        # In a thread: the handler may interrupt the main thread within `stop.wait`, which holds the event's lock then.
        threading.Thread(target=stop.set, name="stop").start()

    previous = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
