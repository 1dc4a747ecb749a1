"""Draws panels as SVG: scales, axes, lines, bands, rows with dots, grids. Pure; colours are classes of the stylesheet.

A panel is `WIDTH` units wide, about as wide as a phone, so that text keeps its size wherever it is shown. Text goes
through ElementTree, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from markupsafe import Markup

from carico.arrays import FloatArray
from testbed.report.page.aggregates import Distribution, Grid, Series

WIDTH = 340.0
LEFT, RIGHT, TOP, BOTTOM = 36.0, 10.0, 8.0, 34.0
LEVELS = 8
"""Shades of a grid."""
_ON_ONE_LINE = 50
"""Characters of a name and its figures that fit on one line."""


@dataclass(frozen=True)
class Scale:
    """Maps values to places along an axis."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside are moved to the nearest end."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values along the axis."""
        if self.log:
            return log_ticks(self.low, self.high, most)
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * n, 10) for n in range(first, int(self.high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values of a logarithmic axis.

    Examples
    --------
    >>> log_ticks(0.9, 130.0, 5)
    [1.0, 3.0, 10.0, 30.0, 100.0]
    >>> log_ticks(1.0, 20.0, 6)
    [1.0, 2.0, 5.0, 10.0, 20.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [float(f"{digit}e{power}") for power in powers for digit in digits]
        found = [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(found) <= most:
            break
    return found if len(found) > 1 else [float(f"{low:.2g}"), float(f"{high:.2g}")]


def from_zero(most: float, begin: float, end: float) -> Scale:
    """Return a scale from 0 to a little more than the largest value."""
    return Scale(0.0, most * 1.02 if most > 0 else 1.0, begin, end)


def number(value: float) -> str:
    """Return a number as axes and labels show it.

    Examples
    --------
    >>> [number(value) for value in (0.0, 0.25, 9.352, 95.92, 439.7, 1234.6)]
    ['0', '0.25', '9.35', '95.9', '440', '1235']
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Panel:
    """One SVG.

    Parameters
    ----------
    height : float
    title : str
        Stands above it.
    alt : str
        What a reader who cannot see it is told.
    """

    def __init__(self, height: float, title: str, alt: str) -> None:
        self.root = Element(
            "svg", {"viewBox": f"0 0 {WIDTH:g} {height:g}", "role": "img", "aria-label": alt, "class": "panel"}
        )
        self.height = height
        self.title = title

    def markup(self) -> Markup:
        """Return the SVG below its title, which is a paragraph so that long names break."""
        drawn = Markup(tostring(self.root, encoding="unicode", method="html"))  # noqa: S704 - ElementTree has escaped it
        return Markup('<p class="title">{}</p>').format(self.title) + drawn if self.title else drawn

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> Element:
        """Add text; `kind` is a class of the stylesheet."""
        attributes = {"x": _at(x), "y": _at(y), "class": kind}
        if anchor != "start":
            attributes["text-anchor"] = anchor
        one = SubElement(self.root, "text", attributes)
        one.text = text
        return one

    def path(self, points: str, kind: str, told: str = "") -> None:
        """Add a path, with what is told when somebody points at it."""
        one = SubElement(self.root, "path", {"d": points, "class": kind})
        if told:
            SubElement(one, "title").text = told

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str) -> None:
        """Add a straight line."""
        self.path(f"M{_at(x)} {_at(y)}L{_at(to_x)} {_at(to_y)}", kind)

    def dot(self, x: float, y: float, radius: float, kind: str, told: str = "") -> None:
        """Add a dot."""
        one = SubElement(self.root, "circle", {"cx": _at(x), "cy": _at(y), "r": f"{radius:g}", "class": kind})
        if told:
            SubElement(one, "title").text = told

    def rectangle(self, x: float, y: float, to_x: float, to_y: float, kind: str) -> None:
        """Add a rectangle."""
        size = {"width": _at(max(to_x - x, 0.8)), "height": _at(to_y - y)}
        SubElement(self.root, "rect", {"x": _at(x), "y": _at(y), "rx": "2", "class": kind, **size})

    def x_axis(self, scale: Scale, y: float, unit: str, *, top: float | None = None) -> None:
        """Add an axis below y with its unit; lines of a grid go up to `top`."""
        for tick in scale.ticks():
            x = scale(tick)
            if top is not None:
                self.line(x, top, x, y, "grid")
            self.text(x, y + 14, number(tick), "tick", "middle")
        self.text(WIDTH - RIGHT, y + 28, unit, "unit", "end")

    def y_axis(self, scale: Scale, *, percent: bool = False) -> None:
        """Add an axis at the left, with lines of a grid."""
        for tick in scale.ticks(4):
            y = scale(tick)
            self.line(LEFT, y, WIDTH - RIGHT, y, "grid")
            self.text(LEFT - 5, y + 4, f"{100 * tick:g}%" if percent else number(tick), "tick", "end")

    def curve(self, points: Sequence[tuple[float, float]], kind: str, told: str = "") -> None:
        """Add a line through points."""
        self.path(_through(points), kind, told)

    def band(self, lower: Sequence[tuple[float, float]], upper: Sequence[tuple[float, float]], kind: str) -> None:
        """Fill the space between two lines."""
        self.path(_through([*lower, *reversed(upper)]) + "Z", kind)


@dataclass(frozen=True)
class Row:
    """A labelled row with dots and a bar."""

    name: str
    color: str
    """A class of the stylesheet."""
    label: str
    """The figures as text."""
    swatch: str = ""
    """The class of the dot before the name, if it is another one."""
    dots: Sequence[float] = ()
    """Single repetitions."""
    middle: float | None = None
    bar: tuple[float, float] | None = None
    """What a thick line spans."""
    whisker: tuple[float, float] | None = None
    """What a thin line spans."""
    box: bool = False
    """Whether the bar is a box with a line at its middle."""


def rows_panel(title: str, rows: Sequence[Row], unit: str, alt: str, *, log: bool = False) -> Markup:
    """Return a panel with a row for each scheduler, along one axis."""
    values = [
        value
        for row in rows
        for value in (*row.dots, *(row.bar or ()), *(row.whisker or ()), *([] if row.middle is None else [row.middle]))
    ]
    heights = [0.0]
    for row in rows:
        heights.append(heights[-1] + (52.0 if _needs_two_lines(row) else 38.0))
    height = TOP + heights[-1] + 32.0
    panel = Panel(height, title, alt)
    left, right = 4.0, WIDTH - 16.0
    if log:
        scale = Scale(min(values) * 0.95, max(values) * 1.05, left, right, log=True)
    else:
        scale = from_zero(max(values, default=0.0), left, right)
    panel.x_axis(scale, TOP + heights[-1], unit, top=TOP - 4)
    for row, top, bottom in zip(rows, heights, heights[1:], strict=False):
        _draw_row(panel, row, scale, TOP + top, TOP + bottom - 12.0)
    return panel.markup()


def _needs_two_lines(row: Row) -> bool:
    return bool(row.name) and len(row.name) + len(row.label) > _ON_ONE_LINE


def _draw_row(panel: Panel, row: Row, scale: Scale, top: float, y: float) -> None:
    if row.name:
        panel.dot(4, top + 8, 4, f"fill {row.swatch or row.color}")
        name = row.name if len(row.name) <= 52 else f"{row.name[:51]}…"
        panel.text(12, top + 12, name, "name")
    below = 14 if _needs_two_lines(row) else 0
    panel.text(WIDTH - 4, top + 12 + below, row.label, "value", "end")
    if row.whisker:
        panel.line(scale(row.whisker[0]), y, scale(row.whisker[1]), y, f"whisker {row.color}")
    if row.bar and row.box:
        panel.rectangle(scale(row.bar[0]), y - 6, scale(row.bar[1]), y + 6, f"box {row.color}")
    elif row.bar:
        panel.line(scale(row.bar[0]), y, scale(row.bar[1]), y, f"bar {row.color}")
    for value in row.dots:
        panel.dot(scale(value), y, 3, f"ring {row.color}", number(value))
    if row.middle is not None and row.box:
        panel.line(scale(row.middle), y - 6, scale(row.middle), y + 6, f"median {row.color}")
    elif row.middle is not None:
        panel.dot(scale(row.middle), y, 4.5, f"fill {row.color}", number(row.middle))


@dataclass(frozen=True)
class Curve:
    """A distribution or a series of one scheduler."""

    name: str
    color: str
    of: Distribution | Series
    dashed: bool = False


def distribution_panel(title: str, curves: Sequence[Curve], unit: str, alt: str, *, log: bool = False) -> Markup:
    """Return a panel with cumulative distributions, each with its band."""
    from testbed.report.page.aggregates import SHARES

    height = 212.0
    panel = Panel(height, title, alt)
    lows = [float(curve.of.low[curve.of.low > 0].min(initial=math.inf)) for curve in curves]
    most = max(float(curve.of.high.max()) for curve in curves)
    low = min(lows) if math.isfinite(min(lows)) else most / 10
    x = Scale(low, most, LEFT, WIDTH - RIGHT, log=True) if log and low < most else from_zero(most, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, 1.0, height - BOTTOM, TOP)
    panel.y_axis(y, percent=True)
    panel.x_axis(x, height - BOTTOM, unit)
    for curve in curves:
        lower, upper = (_points(values, SHARES, x, y) for values in (curve.of.high, curve.of.low))
        panel.band(lower, upper, f"band {curve.color}")
    for curve in curves:
        kind = f"line {curve.color}{' dashed' * curve.dashed}"
        panel.curve(_points(curve.of.middle, SHARES, x, y), kind, curve.name)
    return panel.markup()


def series_panel(
    title: str,
    curves: Sequence[Curve],
    until_s: float,
    alt: str,
    *,
    percent: bool = False,
    most: float | None = None,
    height: float = 152.0,
) -> Markup:
    """Return a panel with quantities over time, each with its band."""
    panel = Panel(height, title, alt)
    low = min(0.0, min(float(np.min(curve.of.low)) for curve in curves))
    high = most if most is not None else max(float(np.max(curve.of.high)) for curve in curves)
    x = Scale(0.0, until_s, LEFT, WIDTH - RIGHT)
    y = Scale(low, high if high > low else low + 1.0, height - BOTTOM, TOP)
    panel.y_axis(y, percent=percent)
    panel.x_axis(x, height - BOTTOM, "s")
    for curve in curves:
        series = _as_series(curve)
        panel.band(
            _points(series.time_s, series.low, x, y), _points(series.time_s, series.high, x, y), f"band {curve.color}"
        )
    for curve in curves:
        series = _as_series(curve)
        kind = f"line {curve.color}{' dashed' * curve.dashed}"
        panel.curve(_points(series.time_s, series.middle, x, y), kind, curve.name)
    return panel.markup()


def grid_panel(title: str, grid: Grid, most: float, until_s: float, alt: str) -> Markup:
    """Return a panel with a row for each node, the darker the more."""
    cell = min(max(200.0 / len(grid.rows), 4.0), 12.0)
    bottom = TOP + cell * len(grid.rows)
    panel = Panel(bottom + BOTTOM, title, alt)
    x = Scale(0.0, until_s, LEFT, WIDTH - RIGHT)
    panel.rectangle(LEFT, TOP, WIDTH - RIGHT, bottom, "absent")
    levels = np.ceil(np.nan_to_num(grid.values, nan=-1.0) / max(most, 1e-9) * LEVELS).astype(int)
    levels = np.where(np.isnan(grid.values), -1, np.clip(levels, 0, LEVELS))
    paths: dict[int, list[str]] = {}
    for row, of_row in enumerate(levels):
        begin = 0
        for at in range(1, len(of_row) + 1):
            if at == len(of_row) or of_row[at] != of_row[begin]:
                if of_row[begin] >= 0:
                    left, right = (x(step * grid.step_s) for step in (begin, at))
                    shape = f"M{_at(left)} {_at(TOP + row * cell)}h{_at(right - left)}v{_at(cell - 0.6)}H{_at(left)}z"
                    paths.setdefault(int(of_row[begin]), []).append(shape)
                begin = at
    for level, shapes in sorted(paths.items()):
        panel.path("".join(shapes), f"h{level}")
    for row in sorted({0, len(grid.rows) - 1}):
        panel.text(LEFT - 5, TOP + (row + 0.5) * cell + 4, str(row + 1), "tick", "end")
    if len(grid.rows) > 2:
        panel.text(LEFT - 5, (TOP + bottom) / 2 + 4, "node", "tick", "end")
    panel.x_axis(x, bottom, "s")
    return panel.markup()


def effect_bar(effect: float, low: float, high: float, scale: Scale, kind: str, alt: str) -> Markup:
    """Return a small panel with an effect, its interval, and a line where nothing differs."""
    root = Element("svg", {"viewBox": "0 0 160 22", "role": "img", "aria-label": alt, "class": "effect"})
    for at in scale.ticks(3):
        SubElement(root, "path", {"d": f"M{_at(scale(at))} 0V22", "class": "grid"})
    SubElement(root, "path", {"d": f"M{_at(scale(1.0))} 0V22", "class": "neutral"})
    if math.isfinite(high) and low > 0:
        SubElement(root, "path", {"d": f"M{_at(scale(low))} 11H{_at(scale(high))}", "class": f"bar {kind}"})
    SubElement(root, "circle", {"cx": _at(scale(effect)), "cy": "11", "r": "4.5", "class": f"fill {kind}"})
    return Markup(tostring(root, encoding="unicode", method="html"))  # noqa: S704 - ElementTree has escaped it


def _as_series(curve: Curve) -> Series:
    assert isinstance(curve.of, Series)
    return curve.of


def _points(
    xs: FloatArray, ys: FloatArray, x: Callable[[float], float], y: Callable[[float], float]
) -> list[tuple[float, float]]:
    return [(x(float(one)), y(float(other))) for one, other in zip(xs, ys, strict=True)]


def _through(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_at(x)} {_at(y)}" for x, y in points)


def _at(value: float) -> str:
    """A place, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def _round_step(least: float) -> float:
    """The next round number."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))
