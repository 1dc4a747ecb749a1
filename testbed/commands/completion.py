"""What a shell offers for an argument SCENARIO: the names of the catalogue, and YAML files."""

from __future__ import annotations

import argparse

from workloads.scenario import scenario_names

_FUNCTION = "_carico_testbed_scenario_or_file"


def offer_scenarios(argument: argparse.Action) -> None:
    """Let the command `completion` (package shtab) offer scenarios for an argument."""
    # tcsh has no functions, and takes either words or files.
    argument.complete = {"bash": _FUNCTION, "zsh": _FUNCTION, "tcsh": f"({_words()})"}  # type: ignore[attr-defined]


def shell_functions() -> dict[str, str]:
    """Return by shell the function that completes such arguments."""
    bash = f'  compgen -W "{_words()}" -- "$1"\n  compgen -f -X "!*.y*ml" -- "$1"\n  compgen -d -- "$1"'
    zsh = f"  _alternative 'scenarios:scenario:({_words()})' 'files:file:_files -g \"*.y*ml\"'"
    return {shell: f"{_FUNCTION}() {{\n{body}\n}}" for shell, body in (("bash", bash), ("zsh", zsh))}


def _words() -> str:
    return " ".join(scenario_names())
