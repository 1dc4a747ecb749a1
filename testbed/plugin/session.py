"""The hooks of sessions that use the testbed; `state_of` registers them."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest

from testbed.errors import ResultsError, TestbedError
from testbed.experiment.preflight import listed
from testbed.plugin.fixtures import diagnose
from testbed.plugin.gate import NOT_PASSED, Sentences, judge_noise, judge_session, judge_test, tell_test_gates
from testbed.plugin.markers import is_cluster
from testbed.plugin.outcomes import statement_of
from testbed.plugin.report import write_report
from testbed.plugin.saving import save_baseline
from testbed.plugin.selection import asks_for_all
from testbed.plugin.session_checks import check_session, lines_on_earlier_runs, session_header, without_workers
from testbed.plugin.state import STATE, State, provider_of
from testbed.plugin.told import tell, told
from testbed.report.numbers import wrapped

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider

AFTER_TESTS = "carico_after_tests"
"""Marks a report while it is logged that no test has made."""
HANDED_OVER = ("left_out", "for_other_providers", "is_part", "error")
"""The fields of its `State` that an xdist worker sends to the process that reports."""


@pytest.hookimpl(trylast=True)
def pytest_carico_provider(config: pytest.Config) -> ClusterProvider:
    """Return the provider that the options name."""
    from testbed.cluster_options import ClusterOptions
    from testbed.providers import provider_named

    state = config.stash[STATE]
    options = ClusterOptions(
        state.run_id,
        session=os.environ.get("TOX_PARALLEL_ENV", ""),
        diagnostics=state.run_path / "diagnostics",
        say=state.messages.append,
        **state.options.cluster,
    )
    return provider_named(state.options.provider, options)


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Describe the session, and what killed runs left, if cluster tests in general are asked for."""
    state = config.stash[STATE]
    return session_header(config) if asks_for_all(config, state.options) else None


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str] | None:
    """Describe the session if tests are asked for by name; else report killed runs if a quiet session has no header.

    Warnings are shown here, where the tests are known and a quiet session shows them, too.
    """
    state = config.stash[STATE]
    if not any(map(is_cluster, items)):
        return None
    lines = lines_on_earlier_runs(state) if asks_for_all(config, state.options) else session_header(config)
    return [*lines, *_lines(state.warnings)]


def _lines(warnings: Sequence[str]) -> list[str]:
    return [line for said in warnings for line in wrapped(f"carico: {said}", indent="")]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check everything that would fail later, before anything is created."""
    state = session.config.stash[STATE]
    problems = check_session(session.config, session.items)
    if not problems:
        if state.worker:
            tell(session.config, state.warnings)
        return
    if not state.worker:
        raise pytest.UsageError(f"carico: {listed(problems)}")
    # An exception in a worker would count as an internal error, so the process that reports raises this one.
    state.error = listed(problems)
    session.items.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip cluster tests whose prerequisites are missing, and refuse parallel runs on shared hardware."""
    if not is_cluster(item):
        return
    state = item.config.stash[STATE]
    if state.skip_reason:
        pytest.skip(state.skip_reason)
    if state.worker and provider_of(item.config).shared_hardware:
        pytest.fail(
            f"runs on the provider {provider_of(item.config).name} would disturb one another in xdist's workers: "
            f"{without_workers(state.command)}",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge what a test measured, if its marker says what fails it."""
    result = yield
    judge_test(item)
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
    """Write the results and judge them, before other plugins end; an xdist worker sends its state instead."""
    state = session.config.stash[STATE]
    try:
        if state.worker:
            output = session.config.workeroutput  # type: ignore[attr-defined]
            output["carico"] = {name: getattr(state, name) for name in HANDED_OVER}
        else:
            _end(session, state, exitstatus)
    finally:
        result = yield
    return result


def _end(session: pytest.Session, state: State, exitstatus: int) -> None:
    try:
        # After -x, pytest's exit status is that of failed tests without xdist, and of an interruption with it.
        state.save(pytest.ExitCode.INTERRUPTED if session.shouldfail else exitstatus)
        tell_test_gates(state)
        reports = [*judge_session(session.config, state), *judge_noise(state)]
        for report in reports:
            setattr(report, AFTER_TESTS, True)
            session.config.hook.pytest_runtest_logreport(report=report)
            delattr(report, AFTER_TESTS)  # the summary has its word
        session.testsfailed += len(reports)
        if reports and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        save_baseline(session.config, state, passed=session.exitstatus == pytest.ExitCode.OK)
        write_report(state)
    except TestbedError as error:
        state.error = str(error)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Count what failed and is no test without a letter in the line of tests: it has ended by then."""
    return ("failed", "", "") if getattr(report, AFTER_TESTS, False) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Let what a test's gate says be wrapped on the terminal: another process sends it as plain text."""
    if getattr(report, "carico_sentences", False):
        report.longrepr = Sentences(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the reports of cluster tests, also for other processes, and collect diagnostics of failed tests.

    The test's namespace still exists at this point.
    """
    report = yield
    report.carico_statement = astuple(statement_of(item)) if is_cluster(item) else None  # type: ignore[attr-defined]
    if report.failed and call.excinfo is not None:
        if isinstance(call.excinfo.value, ResultsError):
            report.longrepr = str(call.excinfo.value)  # where it was raised would help nobody
        elif call.when == "call" and NOT_PASSED in item.stash:
            report.longrepr = item.stash[NOT_PASSED]
            report.carico_sentences = True  # type: ignore[attr-defined]
        diagnose(item, call.excinfo.value)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the measurements, and say which tests were left out."""
    from testbed.plugin.summary import summarise

    if terminalreporter.verbosity >= -1:
        summarise(terminalreporter, config.stash[STATE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Take the order of the tests and the warnings from a worker, because this process collects no tests."""
    state = node.config.stash[STATE]
    state.order = {name: place for place, name in enumerate(ids)}
    reporter: pytest.TerminalReporter | None = node.config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or state.warnings:
        return  # all workers collect the same
    state.warnings = told(node)
    if state.warnings and node.config.get_terminal_writer().width_of_current_line:
        reporter.write_line("")  # on a terminal, xdist is in the middle of a line
    for line in _lines(state.warnings):
        reporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the state that a worker has sent."""
    handed = getattr(node, "workeroutput", {}).get("carico")
    if handed is None:
        return
    state = node.config.stash[STATE]
    for name in HANDED_OVER[:-1]:
        setattr(state, name, handed[name])
    if handed["error"]:
        raise pytest.UsageError(f"carico: {handed['error']}")
