"""A figure of the report with all that stands around it, and what the figures of one scenario share."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from testbed.report.groups import Group, Section
from testbed.report.judgements import Judged
from testbed.report.numbers import counted
from testbed.report.page.aggregates import Series, bin_s, longest_s

SAME = 1.02
"""Captions call figures equal up to this ratio."""


@dataclass(frozen=True)
class Figure:
    """A figure with everything that stands around it."""

    id: str
    title: str
    panels: list[Markup]
    caption: str
    """What to see, and how to read it."""
    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Its numbers, to download."""
    legend: Sequence[tuple[str, str]] = ()
    """Schedulers and their colours; nothing if the panels name everything themselves."""
    heat: str = ""
    """What the strongest colour stands for, of a figure with shades."""
    pairs: bool = False
    """Whether every two panels belong side by side."""

    @property
    def data(self) -> str:
        """The numbers as a CSV file in a link."""
        return csv_link(self.header, self.rows)


@dataclass(frozen=True)
class Detail:
    """How much is drawn."""

    bins: int = 120
    """Of time."""
    nodes: bool = True
    """Whether single nodes are shown."""
    data: bool = True
    """Whether the numbers of long series can be downloaded."""
    series: bool = True
    """Whether anything is shown over time."""


class Drawn:
    """A section that is drawn; see `figures_of`."""

    def __init__(
        self, section: Section, judged: Sequence[Judged], colors: Mapping[str, str], detail: Detail, prefix: str
    ) -> None:
        self.section, self.judged, self.colors, self.detail, self.prefix = section, judged, colors, detail, prefix
        self.until_s = longest_s([one for runs in section.runs.values() for one in runs])
        self.step_s = bin_s(self.until_s, detail.bins) if self.until_s else 1.0

    def figure(
        self,
        name: str,
        title: str,
        panels: list[Markup],
        caption: str,
        header: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        legend: bool = False,
        among: Sequence[str] | None = None,
        heat: str = "",
        pairs: bool = False,
    ) -> Figure:
        """Return a figure of this section."""
        named = (among if among is not None else tuple(self.section.runs)) if legend else ()
        colored = [(one, self.colors[one]) for one in named]
        pairs = pairs or len(panels) in (1, 2, 4)
        return Figure(f"{self.prefix}-{name}", title, panels, caption, header, rows, colored, heat, pairs)

    def series_rows(self, series: Series, *named: str) -> Iterable[tuple[object, ...]]:
        """Return the numbers of a series, for the data of a figure."""
        if not self.detail.data:
            return
        for at, middle, low, high in zip(series.time_s, series.middle, series.low, series.high, strict=True):
            yield (*named, at, middle, low, high)

    def job_title(self, group: Group) -> str:
        """Return what a panel on one of several jobs is called; empty if there is only one."""
        return "" if len(self.section.groups) == 1 else f"{group.job} · {counted(group.pods_of_job, 'pod')}"


def csv_link(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as a CSV file in a link."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return f"data:text/csv;charset=utf-8,{quote(text.getvalue(), safe=',./:=')}"


def _cell(value: object) -> object:
    return f"{value:.5g}" if isinstance(value, float) else value
