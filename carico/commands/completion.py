"""``carico completion``: a script for the user's shell; `carico-testbed` has the same command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial

from carico.commands import Commands

SHELLS = ("bash", "zsh", "tcsh")


def add(commands: Commands, whole: argparse.ArgumentParser, functions: Mapping[str, str] | None = None) -> None:
    """Declare the command.

    Parameters
    ----------
    commands : Commands
    whole : argparse.ArgumentParser
        The parser whose commands and options are completed.
    functions : mapping, optional
        By shell: functions that the attribute `complete` of arguments names, see the package shtab.
    """
    name = whole.prog
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description=f"Prints a script that completes commands, options and their choices. For bash: {name} "
        f"completion bash > ~/.local/share/bash-completion/completions/{name}; for zsh put the output into a "
        f"file _{name} in a folder of $fpath.",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    completion.set_defaults(run=partial(_completion, whole, functions or {}))


def _completion(whole: argparse.ArgumentParser, functions: Mapping[str, str], options: argparse.Namespace) -> int:
    import shtab

    sys.stdout.write(shtab.complete(whole, shell=options.shell, preamble=functions.get(options.shell, "")) + "\n")
    return 0
