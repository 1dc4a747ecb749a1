"""Checks of a pytest session before it runs anything, and its header."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress

import pytest

from pytest_carico import hidden
from testbed.errors import TestbedError
from testbed.experiment.preflight import listed, missing_prerequisites, output_problems
from testbed.plugin.gate import gate_problems, other_machine_notices, unmeasured_problems
from testbed.plugin.marked import wrong_keys, wrong_markers
from testbed.plugin.markers import concerns_the_testbed, is_cluster
from testbed.plugin.planned import planned, reference_problems
from testbed.plugin.repetitions import repetitions_told
from testbed.plugin.report import report_problems
from testbed.plugin.selection import names_files
from testbed.plugin.state import STATE, State, provider_of
from testbed.providers import SIMULATED, missing_for
from testbed.report.numbers import wrapped
from testbed.requirements import Problem, missing_packages
from testbed.results import runs_folder


def check_session(config: pytest.Config, items: Sequence[pytest.Item]) -> list[Problem]:
    """Return every reason for not running these tests.

    With ``--carico-missing=skip`` missing prerequisites are not returned, but become the reason for skipping cluster
    tests. Invalid markers and folders that cannot be written are always returned.
    """
    state = config.stash[STATE]
    options = state.options
    cluster = any(map(is_cluster, items))
    if not any(map(concerns_the_testbed, items)):
        return state.marker_problems
    if (said := hidden("workloads")) is not None:
        return [Problem(said.removeprefix("carico: "))]
    missing = missing_prerequisites(
        lambda: provider_of(config),
        shared=state.worker,
        lacking=lambda: missing_for(options.provider, options.cluster),
    )
    # If no provider could be made, only the keys of a marker can be checked.
    provider = state.provider
    wrong = wrong_keys(items) if provider is None else wrong_markers(items, options, provider, state.extensions)
    found = state.marker_problems + wrong
    if config.option.collectonly:
        return found
    if cluster and not wrong and missing_packages() is None:
        unjudgeable = gate_problems(items, options)
        if provider is not None:
            unjudgeable += unmeasured_problems(items, options, provider.name)
            plans = planned(items, options, state.extensions)
            # The ini file's reference is for all tests, not only for those that were chosen.
            only_here = config.getoption("carico_reference") is not None or not (state.is_part or names_files(config))
            found += reference_problems(plans, options, state.extensions, only_here=only_here)
            if not unjudgeable:
                unjudgeable, state.warnings = repetitions_told(plans, options)
        found += unjudgeable
    if cluster and missing_packages() is None:
        found += output_problems(options.json, state.root) + report_problems(options)
    if missing and options.missing == "skip":
        state.skip_reason = listed(missing)
        return found
    return found + missing


def session_header(config: pytest.Config) -> list[str]:
    """Return the lines about the session's options and cluster, and about earlier runs."""
    state = config.stash[STATE]
    version = None
    if state.options.provider != SIMULATED:
        with suppress(TestbedError):  # the preflight says what is missing
            version = provider_of(config).kubernetes_version()
    kubernetes = "" if version is None else f" Kubernetes={version}"
    said = [f"{state.options}{kubernetes}"]
    if missing_packages() is None:
        said += other_machine_notices(config)
    lines = [line for each in said for line in wrapped(f"carico: {each}", indent="")]
    return [*lines, *lines_on_earlier_runs(state)]


def lines_on_earlier_runs(state: State) -> list[str]:
    """Return the lines about runs that were killed; see `testbed.results.runs.killed_run_notices`."""
    folder = runs_folder(state.root)
    if missing_packages() is not None or not folder.is_dir():
        return []
    from testbed.results.runs import killed_run_notices

    return [f"carico: {said}" for said in killed_run_notices(folder)]


def without_workers(command: Sequence[str]) -> str:
    """Return the same command line without xdist's workers.

    Examples
    --------
    >>> without_workers(["pytest", "-m", "cluster and not slow", "-n", "4", "-n2", "--numprocesses=auto"])
    "pytest -m 'cluster and not slow' -n0"
    """
    kept: list[str] = []
    arguments = iter(command)
    for argument in arguments:
        if argument in ("-n", "--numprocesses"):
            next(arguments, None)
        elif not argument.startswith(("-n", "--numprocesses=")):
            kept.append(argument)
    # The ini file may ask for workers too.
    return shlex.join([*kept, "-n0"])
