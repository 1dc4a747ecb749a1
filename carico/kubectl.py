"""CARICO as a plugin of kubectl: `kubectl carico status` is `carico status`, and kubectl completes its arguments.

kubectl runs the program ``kubectl-carico`` with the arguments that follow, and ``kubectl_complete-carico`` for
completions, which it wants as cobra prints them: one a line, and last a directive.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from carico.cli import main as carico
from carico.cli import make_parser

_PROGRAM = "kubectl carico"
# argparse has no public way to look at its options, hence its private names below.
_NO_FILES, _FILES = ":4", ":0"
"""Directives of cobra: whether the shell completes names of files if nothing else is offered."""


def main() -> int:
    """Run the command of `carico` that the process's arguments name, and return its exit code."""
    return carico(sys.argv[1:], _PROGRAM)


def complete() -> int:
    """Print what may take the place of the process's last argument."""
    print("\n".join(completions(sys.argv[1:])))
    return 0


def completions(arguments: Sequence[str]) -> list[str]:
    """Return what may take the place of the last argument, and a directive.

    Examples
    --------
    >>> completions(["cost"])
    ['costs', ':4']
    >>> completions(["status", "--name"])
    ['--namespace', ':4']
    """
    *before, last = arguments or [""]
    parser = make_parser(_PROGRAM)
    for word in before:
        parser = _commands(parser).get(word, parser)
    previous = parser._option_string_actions.get(before[-1]) if before else None
    if previous is not None and previous.nargs != 0:
        offered = [str(choice) for choice in previous.choices or ()]
    elif last.startswith("-"):
        offered = [name for name in parser._option_string_actions if name.startswith("--")]
    else:
        offered = [*_commands(parser), *_choices(parser)]
    found = sorted(word for word in offered if word.startswith(last))
    return [*found, _NO_FILES if offered else _FILES]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _choices(parser: argparse.ArgumentParser) -> list[str]:
    """Return the values of arguments without an option, where these are limited."""
    arguments = [action for action in parser._actions if not action.option_strings and not _commands(parser)]
    return [str(choice) for action in arguments for choice in action.choices or ()]
