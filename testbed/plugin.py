"""pytest's side of the testbed: hooks only; everything heavy is imported when a cluster test needs it.

PYTEST_DONT_REWRITE: there is no assertion in here to explain, and pytest cannot rewrite what an editable install loads.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import TestbedError
from testbed.fixtures import carico_experiment, carico_paper, carico_provider, carico_results
from testbed.markers import check_markers, declare_markers, is_cluster
from testbed.options import add_options, options_of
from testbed.requirements import check_installed
from testbed.selection import asks_for_all, split
from testbed.session_progress import WorkersProgress
from testbed.state import STATE, State

__all__ = ["carico_experiment", "carico_paper", "carico_provider", "carico_results"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags and the ini keys."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Bring the options together; in a worker of xdist, find the folder that all processes share."""
    declare_markers(config)
    given = getattr(config, "workerinput", None)
    parts = None if given is None else Path(given["carico_parts"])
    state = config.stash[STATE] = State(options_of(config), worker=given is not None, parts=parts)
    config.pluginmanager.register(state.claims, "carico-claims")
    config.pluginmanager.register(WorkersProgress(config), "carico-progress")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder."""
    if STATE in config.stash:
        config.stash[STATE].remove_parts()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what cluster tests will run on, if they are asked for as such."""
    options = config.stash[STATE].options
    return f"carico: {options}" if asks_for_all(config, options) else None


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | None:
    """Say it now if one of them was asked for by its name."""
    options = config.stash[STATE].options
    return f"carico: {options}" if not asks_for_all(config, options) and any(map(is_cluster, items)) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cluster tests that nobody asked for, and check what the others ask for."""
    state = config.stash[STATE]
    items[:], left_out = split(config, state.options, items)
    state.left_out = len(left_out)
    state.order = {item.nodeid: place for place, item in enumerate(items)}
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    try:
        check_markers(items, left_out, state.options)
        if any(map(is_cluster, items)):
            check_installed()
            from testbed.results.store import check_writable

            check_writable(state.options.json)
    except TestbedError as error:
        if not state.worker:
            raise pytest.UsageError(f"carico: {error}") from error
        # An exception in a worker would be an internal error: the process that reports raises it.
        state.complaint = str(error)
        items.clear()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In a worker, hand over what only it knows; else write what was measured."""
    state = session.config.stash[STATE]
    if state.worker:
        output = session.config.workeroutput  # type: ignore[attr-defined]
        output["carico"] = {"left_out": state.left_out, "complaint": state.complaint}
        return
    try:
        state.save(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
    except TestbedError as error:
        state.complaint = str(error)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note on the report, which crosses processes, that the test is a cluster test."""
    report = yield
    report.carico_cluster = is_cluster(item)  # type: ignore[attr-defined]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what was measured, and say what was left out."""
    from testbed.report.terminal import summarise

    if terminalreporter.verbosity >= -1:
        summarise(terminalreporter, config.stash[STATE])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the processes of the session share what they have measured."""
    node.workerinput["carico_parts"] = str(node.config.stash[STATE].parts_folder())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Learn the order of the tests, which this process has not collected."""
    node.config.stash[STATE].order = {name: place for place, name in enumerate(ids)}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker hands over."""
    handed = getattr(node, "workeroutput", {}).get("carico")
    if handed is None:
        return
    node.config.stash[STATE].left_out = handed["left_out"]
    if handed["complaint"]:
        raise pytest.UsageError(f"carico: {handed['complaint']}")
