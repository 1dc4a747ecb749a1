"""The poller: sends one request after another on a fixed schedule, and measures how long the answers take.

Requests are due at the start and after every interval, whether or not earlier ones succeed; only one is in flight at a
time. A request that becomes due while another is in flight is sent as soon as the other has ended. A latency is
measured from when the request was due, not from when it was sent, until the last byte of the answer: if a server stalls
for a second, all requests that were due within that second are late, not only one (counting only one is the mistake
called "coordinated omission"). A latency includes the poller's own lateness, about 0.1 ms on an idle machine.

The connection is kept. After an error the next request opens a new one. If a kept connection turns out to be closed, as
servers close idle ones, it is opened again at once; that is part of the latency and not an error.
"""

from __future__ import annotations

import http.client
import itertools
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import NamedTuple
from urllib.parse import urlsplit

from workloads.histogram import LatencyHistogram

NEVER_SENT = "never sent"
"""The reason of failure of a request that was due before the end, but could not be sent until then."""

_CHUNK_BYTES = 65536
_CHECK_S = 0.1
"""How often a thread checks whether the request in flight has timed out."""


class Target(NamedTuple):
    """Where requests go."""

    text: str
    """The address as it was written."""
    host: str
    port: int
    path: str
    """With the query, if there is one."""


def parse_url(text: str) -> Target:
    """Read the address of a page.

    Raises
    ------
    ValueError
        If it is not a plain HTTP address.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # raises what the look-up of an impossible name would
    except ValueError as error:
        raise ValueError(f"{text!r} is not an address: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    plain = text.isascii() and text.isprintable() and " " not in text
    if parts.scheme != "http" or not host or parts.username is not None or not plain:
        raise ValueError(
            f"{text!r} is not an address of the form http://HOST[:PORT][/PATH] (such as http://127.0.0.1:8080/)"
        )
    return Target(text, host, port if port is not None else 80, path)


class Poller:
    """Sends requests and counts answers and failures; call `run` in one thread, and `results` in any.

    Parameters
    ----------
    target : Target
        The address.
    interval_s : float
        Seconds from one due time to the next, above 0.
    timeout_s : float
        Seconds after which a request that was sent has failed.
    duration_s : float, optional
        Seconds in which requests are due; a request that was due but has not been sent by then has failed.
    requests : int, optional
        Number of requests; all are sent.
    answered : callable, optional
        Called for every answer with the time when its request was due, seconds since 1970, and the latency, seconds.
    """

    def __init__(
        self,
        target: Target,
        *,
        interval_s: float,
        timeout_s: float,
        duration_s: float = math.inf,
        requests: int | None = None,
        answered: Callable[[float, float], None] = lambda due_unix_s, latency_s: None,
    ) -> None:
        self._target = target
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._duration_s = duration_s
        self._requests = requests
        self._answered = answered
        self._connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
        self._histogram = LatencyHistogram()
        self._errors: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._deadline_s = math.inf
        """When the request in flight times out; guarded by the lock, like its socket."""
        self._in_flight: socket.socket | None = None

    def results(self) -> tuple[LatencyHistogram, Counter[str]]:
        """Return the latencies of the answers, and how many requests failed for which reason, as of now."""
        with self._lock:
            return deepcopy(self._histogram), self._errors.copy()

    def run(self) -> None:
        """Send the requests; errors are counted, none is raised."""
        over = threading.Event()
        watch = threading.Thread(target=self._cut_off_the_overdue, args=(over,), name="deadline", daemon=True)
        watch.start()
        try:
            self._send_all()
        finally:
            over.set()
            watch.join()
            self._connection.close()

    def _send_all(self) -> None:
        start_s, start_unix_s = time.monotonic(), time.time()
        end_s = start_s + self._duration_s
        for number in itertools.count():
            due_s = start_s + number * self._interval_s
            if number == self._requests or due_s >= end_s:
                break
            time.sleep(max(0.0, due_s - time.monotonic()))
            failure = NEVER_SENT if time.monotonic() >= end_s else self._send()
            latency_s = time.monotonic() - due_s
            with self._lock:
                if failure:
                    self._errors[failure] += 1
                else:
                    self._histogram.add(latency_s)
            if not failure:
                self._answered(start_unix_s + due_s - start_s, latency_s)

    def _cut_off_the_overdue(self, over: threading.Event) -> None:
        """Shut the socket of a request that has timed out: the socket's own time-out restarts with every byte."""
        while not over.wait(_CHECK_S):
            with self._lock:
                if time.monotonic() > self._deadline_s and self._in_flight is not None:
                    with suppress(OSError):  # the request may have ended by itself
                        self._in_flight.shutdown(socket.SHUT_RDWR)

    def _send(self) -> str | None:
        """Send a request and read the answer; return why it failed, if it did."""
        kept = self._connection.sock is not None
        try:
            try:
                status = self._exchange()
            except ConnectionError:
                if not kept:
                    raise
                self._connection.close()
                status = self._exchange()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # a late answer must not be mistaken for that of the next request
            return _reason(error)
        return None if status == http.HTTPStatus.OK else f"status {status}"

    def _exchange(self) -> int:
        """Make one request on the connection, which is opened if need be; return the status."""
        end_s = time.monotonic() + self._timeout_s
        with self._lock:
            self._deadline_s = end_s
        try:
            self._connection.request("GET", self._target.path)
            with self._lock:
                # The connection drops the socket as soon as it knows that this answer is its last.
                self._in_flight = self._connection.sock
            with self._connection.getresponse() as response:
                while response.read1(_CHUNK_BYTES):
                    pass
                if response.length:
                    raise http.client.IncompleteRead(b"", response.length)
                status = response.status
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > end_s:
                raise TimeoutError from error
            raise
        finally:
            with self._lock:
                self._deadline_s, self._in_flight = math.inf, None
        if time.monotonic() > end_s:
            raise TimeoutError
        return status


def _reason(error: Exception) -> str:
    """Return in a few words why a request failed; equal reasons give equal words."""
    match error:
        case TimeoutError():
            return "timed out"
        case ConnectionRefusedError():
            return "refused"
        case ConnectionError() | http.client.IncompleteRead():
            return "connection lost"
        case socket.gaierror():
            return "host not found"
        case OSError(strerror=str() as reason):
            return reason.lower()
    return "no HTTP answer"
