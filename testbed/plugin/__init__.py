"""pytest's side of the testbed. This module has what every session pays for, and imports little.

A session that uses the testbed gets the rest, `testbed.plugin.session`, as soon as that is seen.

PYTEST_DONT_REWRITE: this module has no assertions to explain, and pytest cannot rewrite modules of an editable install.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from testbed.plugin import hookspec
from testbed.plugin.fixtures import (
    carico_cluster,
    carico_experiment,
    carico_namespace,
    carico_paper,
    carico_provider,
    carico_results,
    carico_seeds,
)
from testbed.plugin.flags import add_options, any_is_set, refuse_unknown, refuse_unknown_keys
from testbed.plugin.markers import are_asked_for, concerns_the_testbed, declare_markers

__all__ = [
    "carico_cluster",
    "carico_experiment",
    "carico_namespace",
    "carico_paper",
    "carico_provider",
    "carico_results",
    "carico_seeds",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags and the ini keys."""
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, object, object]:
    """Refuse unknown options of ours, once conftest.py files have declared theirs."""
    result = yield
    if any(word.startswith("--carico-") for word in args):
        refuse_unknown(parser, args)
    return result


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others may implement."""
    pluginmanager.add_hookspecs(hookspec)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and begin a session that the command line or the ini file makes one of the testbed's.

    Raises
    ------
    UsageError
        pytest's own (exit code 4), if the ini file has a key that only looks like one of ours.
    """
    refuse_unknown_keys(config)
    declare_markers(config)
    if _is_asked_for(config):
        from testbed.plugin.state import state_of

        state_of(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Select the session's cluster tests after everybody else, who may also have marked tests."""
    before = list(items)
    result = yield
    if _is_asked_for(config) or any(map(concerns_the_testbed, items)):
        from testbed.plugin.selection import select
        from testbed.plugin.state import state_of

        select(config, state_of(config), items, before)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the run's id and command to an xdist worker, of whose tests this process does not know yet."""
    from testbed.plugin.state import state_of
    from testbed.plugin.told import FILE, file_for_worker

    state = state_of(node.config)
    node.workerinput |= {
        "carico_run": state.run_id,
        "carico_command": list(state.command),
        FILE: file_for_worker(node.config),
    }


def _is_asked_for(config: pytest.Config) -> bool:
    return any_is_set(config) or are_asked_for(config)
