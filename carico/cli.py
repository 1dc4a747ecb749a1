"""The command `carico`: arguments, exit codes and error messages; the work is done in `carico.commands`.

docs/reference/gate.md has the table of exit codes; 141 besides: the reader of a pipe has gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from carico import __version__
from carico.commands import (
    certs,
    completion,
    deploy,
    enrol,
    helm_chart,
    journal,
    monitoring,
    processes,
    record,
    tokens,
    watch,
)
from carico.errors import CaricoError, NoCluster
from carico.help import Parser
from carico.printable import printable

NAME = "carico"
UNPREPARED = 4
"""The exit code where something is missing that a command needs; the same as the testbed's."""


def main(arguments: Sequence[str] | None = None, program: str = NAME) -> int:
    """Run the command named by the arguments (by default the process's) and return its exit code."""
    options = make_parser(program).parse_args(arguments)
    try:
        with _exit_on_sigterm():
            options.run(options)
            return 0
    except CaricoError as error:
        print(f"carico: {printable(error)}", file=sys.stderr)
        return UNPREPARED if isinstance(error, NoCluster) else 1
    except ModuleNotFoundError as error:
        package = (error.name or "carico").partition(".")[0]
        if package == "carico":
            raise
        extra = "scheduler" if package == "kubernetes" else options.extra  # agents can use the API
        print(
            f"carico: this needs {error.name}, which is not installed: pip install 'carico-testbed[{extra}]', "
            f"or in a clone pip install '.[{extra}]'",
            file=sys.stderr,
        )
        return UNPREPARED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        # Python flushes standard output again at exit, and that flush must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"carico: the output cannot be written: {printable(error)}", file=sys.stderr)
        return 1


def make_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of all commands; `program` is the name under which it was called."""
    parser: argparse.ArgumentParser = Parser(
        prog=program, description="CARICO, a Kubernetes scheduler that needs no resource requests."
    )
    parser.add_argument("--version", action="version", version=f"carico {__version__}")
    parser.set_defaults(extra="scheduler")  # the extra of every command that sets no other
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (watch, record, processes, enrol, tokens, journal, certs, deploy, helm_chart, monitoring):
        command.add(commands)
    if program == NAME:  # kubectl completes its plugins itself
        completion.add(commands, parser)
    return parser


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit; without a handler Python as process 1 of a container would ignore the signal."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
