"""Loads the testbed's pytest plugin (`testbed.plugin`), unless the user's own package `testbed` hides it.

Python imports one package of a name. Where the user's comes first, pytest could not even start if `testbed.plugin` were
the entry point; here the plugin is left out, and the session says why.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

PLUGIN = "testbed.plugin"


def hidden(package: str) -> str | None:
    """Return, in one sentence, which package hides one of ours; None if none does.

    Parameters
    ----------
    package : str
        ``testbed`` or ``workloads``.
    """
    found = find_spec(package)
    places = [] if found is None else list(found.submodule_search_locations or [found.origin or ""])
    ours = Path(__file__).resolve().parent / package
    if any(Path(place).resolve() == ours for place in places):
        return None
    where = places[0] if places else "nowhere"
    return (
        f"carico: the package {package} that Python finds here ({where}) hides carico-testbed's ({ours}): rename "
        f"yours, or run cluster tests from a folder without it"
    )


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin, which declares its own options."""
    if hidden("testbed") is None:
        pluginmanager.import_plugin(PLUGIN)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let conftest.py files have the plugin's hooks where it is left out: pytest refuses unknown ones."""
    if pluginmanager.is_blocked(PLUGIN) and hidden("testbed") is None:
        from testbed.plugin import hookspec

        pluginmanager.add_hookspecs(hookspec)


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Say why the plugin was left out if one of its options is given."""
    if early_config.pluginmanager.has_plugin(PLUGIN) or early_config.pluginmanager.is_blocked(PLUGIN):
        return
    if any(word.startswith("--carico-") for word in args) and (said := hidden("testbed")) is not None:
        raise pytest.UsageError(said)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which package hides the other."""
    return clash(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it here where there is no header (-q): neither a missing fixture nor a failed import explains itself."""
    with_header = terminalreporter.showheader and not terminalreporter.no_header
    if not with_header and (said := clash(config)) is not None:
        terminalreporter.write_line(said)


def clash(config: pytest.Config) -> str | None:
    """Return, in one sentence, that the plugin was left out, or that it hides the project's own package; else None."""
    if config.pluginmanager.is_blocked(PLUGIN):
        return None
    if not config.pluginmanager.has_plugin(PLUGIN):
        return hidden("testbed")
    ours = Path(__file__).resolve().parent
    theirs = [place / "testbed" for place in (config.rootpath, config.rootpath / "src") if place.resolve() != ours]
    found = next((place for place in theirs if (place / "__init__.py").exists()), None)
    if found is None:
        return None
    return (
        f"carico: carico-testbed's package testbed hides {found}: if your tests import yours, leave the plugin out "
        f"(-p no:{PLUGIN}) or rename it"
    )
