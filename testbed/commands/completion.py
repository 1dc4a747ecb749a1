"""``carico-testbed completion``: a script for the user's shell."""

from __future__ import annotations

import argparse
from functools import partial

from testbed.commands import HELP

SHELLS = ("bash", "zsh", "tcsh")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], whole: argparse.ArgumentParser) -> None:
    """Declare the command, which completes what the whole parser knows."""
    completion = commands.add_parser(
        "completion",
        help=HELP["completion"],
        description="Prints a script that completes commands, options and their choices. For bash: carico-testbed "
        "completion bash > ~/.local/share/bash-completion/completions/carico-testbed; for zsh put the output into a "
        "file _carico-testbed in a folder of $fpath.",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    completion.set_defaults(run=partial(_completion, whole))


def _completion(whole: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(whole, shell=options.shell))
    return 0
