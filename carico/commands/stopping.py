"""Stopping a process: SIGTERM and Ctrl-C set an event, and the process then shuts down in order.

Python runs a signal's handler in the main thread, between two instructions. If the main thread is waiting for a lock
when the signal arrives, the handler does not run until the wait has ended, which may be never. Therefore a separate
thread waits for the byte that Python writes as soon as a signal arrives.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM or SIGINT sets; for use in the main thread."""
    stop = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def wait() -> None:
        os.read(reading, 1)
        stop.set()

    waiting = threading.Thread(target=wait, name="stop", daemon=True)
    waiting.start()
    previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    previous_writing = signal.set_wakeup_fd(writing)
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(previous_writing)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(writing)  # ends the thread, if no signal has
        waiting.join()
        os.close(reading)
