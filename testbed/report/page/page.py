"""Makes the page: the content through a template that escapes everything, in at most `LARGEST` bytes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from carico.files import write_whole
from testbed.errors import ResultsError
from testbed.requirements import check_installed
from testbed.results.reading import Reading

LARGEST = 5_000_000
"""Bytes of a page: it must go through mail and open on a phone."""
_SMALLER: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, ""),
    ({"bins": 60, "data": False}, "the numbers of time series are not there to download"),
    ({"bins": 30, "data": False, "nodes": False}, "heat maps and the numbers of time series are not there"),
    ({"series": False}, "nothing is shown over time"),
)
"""How less is drawn, and what a page lacks that would be too large with more."""


def page(readings: Sequence[Reading], reference: str | None = None) -> str:
    """Return the report of some runs as HTML.

    Parameters
    ----------
    readings : sequence of Reading
        The first is what the others are compared with.
    reference : str, optional
        The scheduler with which the others of a run are compared.

    Raises
    ------
    MissingExtra
        If Jinja2 is not installed.
    ResultsError
        If even the smallest page is too large.
    """
    check_installed("report")
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from testbed.report.page.content import page_of
    from testbed.report.page.figure import Detail

    environment = Environment(
        loader=PackageLoader("testbed.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html")
    style = Markup((files("testbed.report.page") / "templates" / "page.css").read_text(encoding="utf-8"))  # noqa: S704
    size = 0
    for less, left_out in _SMALLER:
        content = page_of(readings, reference, Detail(**less), left_out)
        text = template.render(page=content, style=style)
        size = len(text.encode(errors="replace"))
        if size < LARGEST:
            return text
    raise ResultsError(
        f"the report has {size / 1e6:.1f} MB, at most {LARGEST / 1e6:g} are sensible: make one of fewer runs, or run "
        f"fewer scenarios at a time"
    )


def write_page(path: Path, text: str) -> None:
    """Write a page; an earlier file is kept until it is whole.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    try:
        write_whole(path, text.encode(errors="replace"))
    except OSError as error:
        raise ResultsError(f"cannot write the report to {path}: {error.strerror}") from error
