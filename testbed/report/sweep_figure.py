"""The figure of a sweep: completion times over the axis, with bands, and OOM kills marked. Needs matplotlib."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

from testbed.report.numbers import counted
from testbed.sweep.series import SweepPoint, SweepSeries
from testbed.sweep.sweep import Sweep

COLOURS = ("#1b6ca8", "#d1495b", "#2f8f5b", "#8a5fbf", "#c98a16", "#4b4b4b")
"""Distinguishable for most people, on white."""
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_QUANTITY = re.compile(r"([\d.]+)([a-zA-Z]*)")
LOG_FROM = 10.0
"""A ratio of the axis's last to its first value from which its scale is logarithmic."""


def sweep_figure(sweep: Sweep, found: Sequence[SweepSeries], kind: str = "svg") -> bytes:
    """Return the picture.

    Parameters
    ----------
    sweep : Sweep
    found : sequence of SweepSeries
        At least one.
    kind : str
        svg, png or pdf. The same numbers give the same SVG.
    """
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    herds = sweep.axis.scheduler is None
    panels: list[tuple[str, str]] = [("job_completion_s", "JCT, s"), ("pod_completion_s", "PCT, s")]
    if herds:
        panels.append(("most_pods", "most pods\non a node"))
    places = _places(sweep.values)
    with mpl.rc_context({"svg.hashsalt": "sweep", "svg.fonttype": "none", "font.size": 9.0}):
        figure, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(6.4, 2.2 * len(panels) + 0.6))
        for axis, (name, label) in zip(axes, panels, strict=True):
            for index, series in enumerate(found):
                _draw(axis, series, name, places, COLOURS[index % len(COLOURS)])
            axis.set_ylabel(label)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        _mark_kills(axes[0], found, places)
        _scale(axes[-1], sweep, places)
        handles, labels = axes[0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(
            unique.values(), unique.keys(), loc="upper center", ncols=min(3, len(unique)), frameon=False, fontsize=8
        )
        rows = math.ceil(len(unique) / 3)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.06 * rows))
        content = io.BytesIO()
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)
    return content.getvalue()


def _draw(axis: Any, series: SweepSeries, name: str, places: dict[str, float], colour: str) -> None:
    if series.is_flat:
        band = _band(series.points[0], name)
        if band is None:
            return
        low, mean, high = band
        axis.axhspan(low, high, color=colour, alpha=0.18, linewidth=0)
        axis.axhline(mean, color=colour, label=series.scheduler)
        return
    shown = [
        (places[point.value], *found)
        for point in series.points
        if point.value is not None and (found := _band(point, name)) is not None
    ]
    if shown:
        at, lows, means, highs = zip(*shown, strict=True)
        axis.fill_between(at, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axis.plot(at, means, color=colour, marker="o", markersize=3.5, label=series.scheduler)


def _band(point: SweepPoint, name: str) -> tuple[float, float, float] | None:
    found = getattr(point, name)
    if found is None:
        return None
    return (found, found, found) if isinstance(found, float) else (found.low, found.mean, found.high)


def _mark_kills(axis: Any, found: Sequence[SweepSeries], places: dict[str, float]) -> None:
    """Mark where pods were killed for memory, with their number, and where jobs did not complete."""
    top = axis.get_ylim()[1] * 1.15
    axis.set_ylim(top=top)
    marked: dict[str, bool] = {}
    for series in found:
        for point in series.points:
            troubles = [("OOM kills", "x", point.oom_killed)]
            troubles.append(("jobs did not complete", "v", float(point.repetitions - point.completed)))
            for label, marker, count in troubles:
                if not count or point.value is None:
                    continue
                one = point.job_completion_s
                height = 0.96 * top if marker == "v" else 0.84 * top if one is None else one.mean
                axis.plot(
                    [places[point.value]],
                    [height],
                    linestyle="none",
                    marker=marker,
                    markersize=8,
                    markeredgewidth=2,
                    color="black",
                    label=None if label in marked else label,
                )
                if marker == "x":
                    axis.annotate(
                        f"{count:.3g}",
                        (places[point.value], height),
                        textcoords="offset points",
                        xytext=(7, 5),
                        fontsize=8,
                    )
                marked[label] = True


def _places(values: Sequence[str]) -> dict[str, float]:
    """Return where each value is on the axis: by its number, or one after the other if they are words."""
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return {value: float(place) for place, value in enumerate(values)}
    return dict(zip(values, known, strict=True))


def _scale(axis: Any, sweep: Sweep, places: dict[str, float]) -> None:
    sizes = [counted(number, noun) for number, noun in ((sweep.pods, "pod"), (sweep.nodes, "node")) if number]
    about = ", ".join([sweep.scenario, *sizes, counted(sweep.repetitions, "repetition")])
    axis.set_xlabel(f"{sweep.over}  ({about}; bands: 95 % intervals)")
    at = list(places.values())
    if min(at) > 0 and max(at) / min(at) >= LOG_FROM and _number(sweep.values[0]) is not None:
        axis.set_xscale("log")
    if len(at) <= 12:
        axis.set_xticks(at, labels=sweep.values)
        axis.set_xticks([], minor=True)


def _number(value: str) -> float | None:
    """Return a quantity as a number.

    Examples
    --------
    >>> _number("250m"), _number("1Gi"), _number("0.5"), _number("kernel")
    (0.25, 1073741824.0, 0.5, None)
    """
    found = _QUANTITY.fullmatch(value)
    if found is None or found[2] not in _SUFFIXES:
        return None
    try:
        return float(found[1]) * _SUFFIXES[found[2]]
    except ValueError:
        return None
