"""How long a process's certificates remain valid: gauges, and a warning a day when one of them expires soon."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Self

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from carico.config import TlsFiles
from carico.errors import InvalidConfig
from carico.rpc.tls import Signature, signature_of
from carico.rpc.validity import valid_between

_log = logging.getLogger(__name__)

DAY_S = 86_400.0
WARN_S = 14 * DAY_S
"""How long before its end a certificate is warned of, seconds. A certificate that is renewed by itself, after two
thirds of its life, may live for less than that: it is warned of in the last quarter of its life."""
_LOOK_EVERY_S = 3600.0


class Expiry:
    """Looks once an hour how long certificates remain valid, until it is closed.

    Parameters
    ----------
    files : TlsFiles or None
        None has no certificates: there are no gauges, and no thread.
    registry : prometheus_client.CollectorRegistry
        Gets the gauges; the files are read again when they have changed.
    unix_time : callable, optional
        Returns the time, seconds since 1970; the machine's by default.
    """

    def __init__(
        self, files: TlsFiles | None, registry: CollectorRegistry, unix_time: Callable[[], float] = time.time
    ) -> None:
        self._files = files
        self._unix_time = unix_time
        self._seen: Signature = ()
        self._valid: dict[str, tuple[float, float]] = {}
        """From when until when the certificates are valid that could be read last."""
        self._warned_at = -math.inf
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="expiry", daemon=True)
        if files is not None:
            registry.register(self)
            self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        gauge = GaugeMetricFamily(
            "carico_certificate_expiry_seconds",
            "Seconds until the process's certificate, and its CAs', expire; negative afterwards.",
            labels=["of"],
        )
        for of, left_s in self._left_s().items():
            gauge.add_metric([of], left_s)
        yield gauge
        lifetime = GaugeMetricFamily(
            "carico_certificate_lifetime_seconds",
            "How long the process's certificate, and its CAs', are valid in all, from their first second on.",
            labels=["of"],
        )
        for of, (begin, end) in self._valid.items():
            lifetime.add_metric([of], end - begin)
        yield lifetime

    def look(self) -> None:
        """Warn if a certificate expires soon, unless there was a warning within the last day."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        assert self._files is not None
        near = {of: left_s for of, left_s in self._left_s().items() if left_s <= self._warn_s(of)}
        if not near or self._unix_time() < self._warned_at + DAY_S:
            return
        self._warned_at = self._unix_time()
        of, left_s = min(near.items(), key=lambda each: each[1])
        end = datetime.fromtimestamp(self._valid[of][1], UTC)
        _log.warning(
            "%s %s at %s, and nobody is trusted without it: %s",
            getattr(self._files, of),
            "expires" if left_s > 0 else "has expired",
            f"{end:%Y-%m-%d %H:%M} UTC",
            "renew it, with `carico deploy` or as it was made"
            if self._warn_s(of) == WARN_S
            else "it is renewed by itself, and the log of the pod's container `certificate` says why it is not",
            extra={"days_left": math.floor(left_s / DAY_S)},
        )

    def _warn_s(self, of: str) -> float:
        """Return how long before its end a certificate is warned of; only nodes' are renewed by themselves."""
        begin, end = self._valid[of]
        by_itself = of == "certificate" and self._files is not None and self._files.nodes_ca is not None
        return min(WARN_S, (end - begin) / 4) if by_itself else WARN_S

    def _left_s(self) -> dict[str, float]:
        assert self._files is not None
        signature = signature_of(self._files)
        if signature != self._seen:
            try:
                self._valid, self._seen = valid_between(self._files), signature
            except InvalidConfig as error:  # being replaced, or damaged: the previous ones stay in force
                _log.debug("certificates cannot be read: %s", error)
        now = self._unix_time()
        return {of: end - now for of, (_, end) in self._valid.items()}

    def _run(self) -> None:
        self.look()
        while not self._stop.wait(_LOOK_EVERY_S):
            self.look()
