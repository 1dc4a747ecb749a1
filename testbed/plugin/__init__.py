"""pytest's side of the testbed: hooks only; everything heavy is imported when a cluster test needs it.

PYTEST_DONT_REWRITE: this module has no assertions to explain, and pytest cannot rewrite modules of an editable install.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from testbed.errors import ResultsError, TestbedError, did_you_mean
from testbed.experiment.preflight import listed
from testbed.measurement.metrics import registered
from testbed.plugin import hookspec
from testbed.plugin.fixtures import (
    carico_cluster,
    carico_experiment,
    carico_namespace,
    carico_paper,
    carico_provider,
    carico_results,
    carico_seeds,
    diagnose,
)
from testbed.plugin.gate import judge_noise, judge_session, judge_test, save_baseline
from testbed.plugin.markers import declare_markers, is_cluster, providers_of, wrong_keys, wrong_providers
from testbed.plugin.options import add_options, options_of
from testbed.plugin.outcomes import statement_of
from testbed.plugin.report import write_report
from testbed.plugin.selection import asks_for_all, count_providers, names_a_part, of_this_provider, split
from testbed.plugin.session_checks import check_session, lines_on_earlier_runs, session_header, without_workers
from testbed.plugin.session_progress import WorkersProgress
from testbed.plugin.state import STATE, State, extensions_of, provider_name, provider_of
from testbed.results.run_id import new_run_id

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider

__all__ = [
    "carico_cluster",
    "carico_experiment",
    "carico_namespace",
    "carico_paper",
    "carico_provider",
    "carico_results",
    "carico_seeds",
]

AFTER_TESTS = "carico_after_tests"
"""Marks a report while it is logged that no test has made."""
HANDED_OVER = ("left_out", "for_other_providers", "is_part", "error")
"""The fields of its `State` that an xdist worker sends to the process that reports."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags and the ini keys."""
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, object, object]:
    """Ask which option was meant by an unknown one of ours, once conftest.py files have declared theirs."""
    result = yield
    known, unknown = parser.parse_known_and_unknown_args(args)
    ours = [f"--{name.replace('_', '-')}" for name in vars(known) if name.startswith("carico_")]
    for option in (word.partition("=")[0] for word in unknown):
        if option.startswith("--carico-"):
            raise pytest.UsageError(
                f"carico: there is no option {option}{did_you_mean(option, ours)}; 'pytest --help' lists all of them "
                f"under 'CARICO testbed'"
            )
    return result


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others may implement."""
    pluginmanager.add_hookspecs(hookspec)


def pytest_configure(config: pytest.Config) -> None:
    """Make the session's state; an xdist worker takes the run's id from the process that reports."""
    declare_markers(config)
    own = ExitStack()
    config.add_cleanup(own.close)
    try:
        extensions = extensions_of(config)
        own.enter_context(registered(one.metric for one in extensions.measurements))
    except TestbedError as error:
        raise pytest.UsageError(f"carico: {error}") from error
    given = getattr(config, "workerinput", None)
    state = config.stash[STATE] = State(
        options_of(config),
        worker=given is not None,
        root=config.rootpath,
        command=["pytest", *config.invocation_params.args] if given is None else given["carico_command"],
        run_id=new_run_id(datetime.now(UTC), secrets.token_hex(3)) if given is None else given["carico_run"],
        extensions=extensions,
    )
    config.pluginmanager.register(state.outcomes, "carico-outcomes")
    config.pluginmanager.register(WorkersProgress(config), "carico-progress")


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
    """Describe the session if tests are asked for by name; else report killed runs if a quiet session has no header."""
    state = config.stash[STATE]
    if not any(map(is_cluster, items)):
        return None
    return lines_on_earlier_runs(state) if asks_for_all(config, state.options) else session_header(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Deselect the cluster tests that were not asked for, or that are for other providers; note if others did so."""
    state = config.stash[STATE]
    found = {item for item in items if is_cluster(item)}
    result = yield
    state.is_part = names_a_part(config) or not found.issubset(items)
    items[:], left_out = split(config, state.options, items)
    state.left_out = len(left_out)
    items[:], for_others = of_this_provider(items, lambda: provider_name(config))
    state.for_other_providers = count_providers(for_others)
    state.marker_problems = wrong_keys([*left_out, *for_others])
    naming = [item for item in [*items, *for_others] if is_cluster(item) and providers_of(item)]
    if state.provider is not None:  # else none names a provider, or the session's could not be made
        state.marker_problems += wrong_providers(naming, state.provider.name)
    state.order = {item.nodeid: place for place, item in enumerate(items)}
    if left_out or for_others:
        config.hook.pytest_deselected(items=[*left_out, *for_others])
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check everything that would fail later, before anything is created."""
    state = session.config.stash[STATE]
    problems = check_session(session.config, session.items)
    if not problems:
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
        reports = [*judge_session(session.config, state), *judge_noise(state)]
        for report in reports:
            setattr(report, AFTER_TESTS, True)
            session.config.hook.pytest_runtest_logreport(report=report)
            delattr(report, AFTER_TESTS)  # the summary has its word
        session.testsfailed += len(reports)
        if reports and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        save_baseline(state, passed=session.exitstatus == pytest.ExitCode.OK)
        write_report(state)
    except TestbedError as error:
        state.error = str(error)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Count what failed and is no test without a letter in the line of tests: it has ended by then."""
    return ("failed", "", "") if getattr(report, AFTER_TESTS, False) else None


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
        diagnose(item, call.excinfo.value)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the measurements, and say which tests were left out."""
    from testbed.plugin.summary import summarise

    if terminalreporter.verbosity >= -1:
        summarise(terminalreporter, config.stash[STATE])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the run's id and command to an xdist worker."""
    state = node.config.stash[STATE]
    node.workerinput |= {"carico_run": state.run_id, "carico_command": list(state.command)}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Take the order of the tests from a worker, because this process collects none."""
    node.config.stash[STATE].order = {name: place for place, name in enumerate(ids)}


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
