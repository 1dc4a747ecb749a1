"""`carico watch`: this machine's telemetry through a node's model, a row a second, and how rows are shown.

One node by itself, sampled at 10 Hz (`Sampler`): no aggregator, no scheduler, and nothing is kept when the watch ends.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TextIO

from carico.clock import Clock
from carico.model.node_model import NodeModel
from carico.model.report import Report
from carico.model.variants import SAMPLES_PER_S
from carico.telemetry.counters import Counters, telemetry_between, usage_vector
from carico.telemetry.sampler import Sampler
from carico.telemetry.source import TelemetrySource


@dataclass(frozen=True)
class Row:
    """What one second of watching found. `carico watch --json` prints these fields."""

    at_s: float
    """Seconds since the watch began."""
    cpu_utilisation: float
    """In the second just past, in [0, 1]; so is the pressure."""
    cpu_pressure: float
    memory_utilisation: float
    """At the end of the second, in [0, 1]."""
    pods: int
    """Running pods as counted."""
    capacity_signal: float
    """k in units of the average workload; `inf` while no workload is known."""
    pod_capacity: float
    """How many more pods fit."""

    def json(self) -> str:
        """Return one line of JSON, with null for numbers that are not finite."""
        return json.dumps(
            {name: round(value, 6) if math.isfinite(value) else None for name, value in asdict(self).items()},
            allow_nan=False,
        )


class Watch:
    """Feeds a node's model with telemetry and yields what it finds, once a second.

    Parameters
    ----------
    source : TelemetrySource
        Read ten times a second.
    clock : Clock
        The clock that dates the source's readings.
    count_pods : callable
        Returns the number of pods that run now; called once a second, because it may cost more than a sample.
    """

    def __init__(
        self,
        source: TelemetrySource,
        clock: Clock,
        count_pods: Callable[[], int] = lambda: 0,
    ) -> None:
        self.model = NodeModel()
        self._source = source
        self._clock = clock
        self._count_pods = count_pods

    def rows(self, duration_s: float = math.inf) -> Iterator[Row]:
        """Yield a row at the end of every second, for as many whole seconds as `duration_s` holds.

        A second in which the source has no newer reading has no row.

        Raises
        ------
        TelemetryError
            If the source cannot be read, or the machine was restarted.
        """
        sampler = Sampler(self._source, self._clock, 1 / SAMPLES_PER_S)
        first = last_row = latest = sampler.start()
        self.model.reconcile(self._count_pods(), at=sampler.due)
        last_tick = math.floor(duration_s) * SAMPLES_PER_S if duration_s < math.inf else math.inf
        seconds = 0
        while sampler.tick < last_tick:
            current = sampler.next_reading()
            if current is not None:
                sample = telemetry_between(latest, current)
                self.model.observe(usage_vector(sample, self.model.variant.cpu_metric), at=float(current.at_s))
                latest = current
            if sampler.tick // SAMPLES_PER_S > seconds:
                seconds = sampler.tick // SAMPLES_PER_S
                # Counts and steps are dated by the deadline: with the true times a hold-off of one second would end
                # one step earlier or later at random.
                self.model.reconcile(self._count_pods(), at=sampler.due)
                report = self.model.step(at=sampler.due)
                if sampler.last_read.at_s != last_row.at_s:
                    yield _row(last_row, sampler.last_read, report, started=float(first.at_s))
                    last_row = sampler.last_read


def _row(before: Counters, now: Counters, report: Report, started: float) -> Row:
    second = telemetry_between(before, now)
    return Row(
        at_s=float(now.at_s) - started,
        cpu_utilisation=float(second.cpu_utilisation),
        cpu_pressure=float(second.cpu_pressure),
        memory_utilisation=float(second.memory_utilisation),
        pods=int(report.pods),
        capacity_signal=float(report.capacity_signal),
        pod_capacity=float(report.pod_capacity),
    )


def show(rows: Iterable[Row], stream: TextIO, title: str, as_json: bool = False) -> None:
    """Write rows as they come: JSON lines, a display rewritten in place on a terminal, or a line each elsewhere."""
    if as_json:
        texts: Iterable[str] = (f"{row.json()}\n" for row in rows)
    elif stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        texts = _in_place(rows, title)
    else:
        texts = _lines(rows, title)
    for text in texts:
        stream.write(text)
        stream.flush()


def _lines(rows: Iterable[Row], title: str) -> Iterator[str]:
    for count, row in enumerate(rows):
        # The title comes with the first row, so that an error instead of a row is all that is printed.
        if count == 0:
            yield f"{title}\n   seconds      CPU  pressure   memory  pods   signal  Pod-Capacity\n"
        yield (
            f"{row.at_s:10.1f}  {row.cpu_utilisation:7.1%}  {row.cpu_pressure:8.1%}  {row.memory_utilisation:7.1%}"
            f"  {row.pods:4d}  {row.capacity_signal:7.2f}  {row.pod_capacity:12.2f}\n"
        )


def _in_place(rows: Iterable[Row], title: str) -> Iterator[str]:
    lines: list[str] = []
    signals: deque[float] = deque(maxlen=60)
    for row in rows:
        signals.append(row.capacity_signal)
        highest = max((k for k in signals if math.isfinite(k)), default=0.0)
        back = f"\x1b[{len(lines)}F" if lines else ""
        lines = [
            f"{title}; {row.at_s:.0f} s; Ctrl-C ends",
            f"CPU utilisation  {row.cpu_utilisation:7.1%}  {_bar(row.cpu_utilisation)}",
            f"CPU pressure     {row.cpu_pressure:7.1%}  {_bar(row.cpu_pressure)}",
            f"memory           {row.memory_utilisation:7.1%}  {_bar(row.memory_utilisation)}",
            f"capacity signal  {row.capacity_signal:7.2f}  {_bar(row.capacity_signal / highest if highest else 0.0)}"
            f"  of {highest:.2f}, best of 60 s",
            f"Pod-Capacity     {row.pod_capacity:7.2f}  {_places(row)}  # runs: {row.pods}, o fits",
        ]
        # A line wider than the terminal would wrap, and the cursor would then not go back far enough.
        width = shutil.get_terminal_size().columns - 1
        yield back + "".join(f"{line[:width]}\x1b[K\n" for line in lines)


_BAR_WIDTH = 20


def _bar(share: float) -> str:
    full = round(_BAR_WIDTH * min(share, 1.0))
    return f"[{'#' * full:-<{_BAR_WIDTH}}]"


def _places(row: Row) -> str:
    """Return a mark for every running pod and every pod that fits, up to the width of the bar."""
    marks = "#" * row.pods + "o" * int(row.pod_capacity)
    return f"[{marks[:_BAR_WIDTH]:-<{_BAR_WIDTH}}]"
