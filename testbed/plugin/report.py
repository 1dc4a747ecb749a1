"""What a pytest session leaves to look at: the page of --carico-html, and the verdicts in the summary of a CI job."""

from __future__ import annotations

import os

from testbed.errors import TestbedError
from testbed.plugin.options import Options
from testbed.plugin.state import State
from testbed.requirements import Problem, missing_packages


def report_problems(options: Options) -> list[Problem]:
    """Return why the page or the table of claims could not be written, before anything runs; needs msgspec."""
    from testbed.results.store import check_writable

    lacking = None if options.html is None else missing_packages("report")
    found = [] if lacking is None else [lacking]
    for file, what in ((options.html, "the report"), (options.claims, "the table of claims")):
        try:
            if file is not None:
                check_writable(file, what)
        except TestbedError as error:
            found.append(Problem(str(error)))
    return found


def write_report(state: State) -> None:
    """Write the page if one was asked for, and add the verdicts to the job's summary if there is one.

    Raises
    ------
    ResultsError
        If one of them cannot be written.
    """
    page_file = state.options.html
    if state.ended is None:
        if page_file is not None:
            state.messages.append(f"no report in {page_file}: nothing was measured")
        return
    from testbed.report.markdown import VARIABLE, add_to_step_summary
    from testbed.results.reading import read_all

    measured = state.results is not None and bool(state.results.repetitions)
    if page_file is None and not (measured and os.environ.get(VARIABLE)):
        return
    if not measured and not state.outcomes.in_order(state.order):
        state.messages.append(f"no report in {page_file}: nothing was measured")
        return
    readings = read_all([state.run_path], state.root)
    if measured:
        add_to_step_summary(readings, os.environ, state.options.reference)
    if page_file is not None:
        from testbed.report.page.page import page, write_page

        write_page(page_file, page(readings, state.options.reference))
        state.messages.append(f"report: {page_file}")
