"""The figures of one scenario. Without data there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.report.groups import Section
from testbed.report.judgements import Judged
from testbed.report.page.completion_figures import job_times, latencies, pod_times
from testbed.report.page.figure import Detail, Drawn, Figure
from testbed.report.page.node_figures import estimates, extremes, running_pods, utilisation

TAKEN = (job_times, pod_times, latencies)
OVER_TIME = (running_pods, extremes, utilisation, estimates)
"""The figures, in the order of the page."""


def figures_of(
    section: Section, judged: Sequence[Judged], colors: Mapping[str, str], detail: Detail, prefix: str
) -> list[Figure]:
    """Return all figures of a section that have data.

    Parameters
    ----------
    section : Section
    judged : sequence of Judged
        Its jobs under each scheduler.
    colors : mapping of str to str
        The stylesheet's class of each scheduler.
    detail : Detail
    prefix : str
        What the ids of the figures begin with.
    """
    drawn = Drawn(section, judged, colors, detail, prefix)
    return [figure for make in (*TAKEN, *(OVER_TIME if detail.series else ())) if (figure := make(drawn)) is not None]
