"""The targets, by what they read; the name of a target begins with its module's, so that only that one is loaded."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.target import Target

MODULES = (
    *("configuration", "containers", "deployment", "enrolment", "extender", "kubernetes", "messages", "ports"),
    *("quantities", "registry", "results", "saved_state", "telemetry", "traces"),
)


def all_targets() -> list[Target]:
    """Return all targets, in the order of their names."""
    return [target for module in MODULES for target in _targets_in(module)]


def target_named(name: str) -> Target:
    """Return a target.

    Raises
    ------
    KeyError
        If there is none of that name.
    """
    module = name.partition(".")[0]
    found = [target for target in _targets_in(module) if target.name == name] if module in MODULES else []
    if not found:
        raise KeyError(name)
    return found[0]


def _targets_in(module: str) -> list[Target]:
    return import_module(f"{__name__}.{module}").TARGETS
