"""The command `carico-testbed`: arguments, exit codes and error messages; the work is in `testbed.commands`.

docs/reference/gate.md has the table of exit codes; 141 besides: the reader of a pipe has gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

from carico import __version__
from carico.commands import completion
from carico.errors import CaricoError
from carico.help import Parser
from carico.printable import PrintableStream
from testbed.commands import (
    DESCRIPTION,
    catalogue,
    claims,
    clean,
    compare,
    images,
    report,
    run,
    runs,
    schema,
    sweep,
    validate,
)
from testbed.commands.completion import shell_functions
from testbed.commands.recorded_run import tell
from testbed.errors import UNPREPARED, TestbedError, Unprepared, UsageError
from workloads.errors import WorkloadError

FAILED, USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, the process's by default, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # on a terminal without ± a table with ? is better than none
    given = sys.argv[1:] if arguments is None else arguments
    options = make_parser().parse_args(given, argparse.Namespace(arguments=list(given)))
    try:
        # What is printed comes from files, too, such as the results of others.
        with _interrupted_by_sigterm(), redirect_stdout(PrintableStream(sys.stdout)):
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except (UsageError, WorkloadError, CaricoError) as error:
        tell(str(error))
        return USAGE
    except Unprepared as error:
        tell(str(error))
        return UNPREPARED
    except TestbedError as error:
        tell(str(error))
        return FAILED
    except _Terminated:
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        # Python flushes standard output once more when it exits; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        # Only an error of a file has a name.
        tell(f"cannot write the output: {error.strerror}" if error.filename is None else str(error))
        return FAILED


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems send it; handled like Ctrl-C except for the exit code."""


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    def leave(_number: int, _frame: object) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser: argparse.ArgumentParser = Parser(
        prog="carico-testbed",
        description=DESCRIPTION,
    )
    parser.add_argument("--version", action="version", version=f"carico-testbed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (catalogue, run, sweep, runs, compare, report, claims, schema, images, clean, validate):
        command.add(commands)
    completion.add(commands, parser, shell_functions())
    return parser
