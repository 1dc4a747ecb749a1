"""The command `carico`: arguments, exit codes and what a user is told when something is wrong; no work of its own.

Exit codes: 0 done, 1 something that was to be read cannot be, 2 wrong arguments, 128 + the signal's number when ended
by one (130 Ctrl-C, 143 SIGTERM, 141 the reader of a pipe has gone).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from carico import __version__
from carico.clock import SystemClock
from carico.errors import CaricoError
from carico.processes import MatchingProcesses
from carico.telemetry.procfs import ProcfsSource
from carico.watch import Watch, show


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (the process's by default) name and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        with _unwound_by_sigterm():
            options.run(options)
            return 0
    except CaricoError as error:
        print(f"carico: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        # Python flushes standard output once more when it exits; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"carico: the output cannot be written: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="carico", description="CARICO, a Kubernetes scheduler that needs no resource requests."
    )
    parser.add_argument("--version", action="version", version=f"carico {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_watch(commands)
    return parser


def _add_watch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    watch = commands.add_parser(
        "watch",
        help="show how much more this machine could take",
        description=(
            "Samples this machine ten times a second and shows once a second: CPU utilisation, CPU pressure (the share "
            "of time in which something waited for a CPU), memory in use, the capacity signal (how many more times the "
            "usual load fits) and Pod-Capacity (how many more pods fit). What a pod takes is learned while pods run, "
            "so say which ones do. Needs Linux with pressure stall information; no Kubernetes."
        ),
    )
    pods = watch.add_mutually_exclusive_group()
    pods.add_argument(
        "--pods", metavar="N", type=_whole_number, default=0, help="that many pods run, all the time (default: 0)"
    )
    pods.add_argument(
        "--pods-matching",
        metavar="REGEX",
        type=_pattern,
        help="every process whose command line matches stands for a pod, counted once a second; '^python -m job' "
        "leaves out a shell that has the same words in its command line. This process and those it was started by "
        "never count",
    )
    watch.add_argument(
        "--duration", metavar="SECONDS", type=_seconds, default=math.inf, help="end after so long (default: never)"
    )
    watch.add_argument(
        "--json",
        action="store_true",
        help="one JSON object a second, a line each; shares are in [0, 1], an unknown signal is null",
    )
    watch.add_argument("--proc", metavar="FOLDER", default="/proc", help="the root folder of procfs (default: /proc)")
    watch.set_defaults(run=_watch)


def _watch(options: argparse.Namespace) -> None:
    clock = SystemClock()
    if options.pods_matching is None:
        title, count_pods = f"carico watch: pods fixed at {options.pods}", lambda: int(options.pods)
    else:
        title = f"carico watch: pods are the processes matching {options.pods_matching.pattern}"
        count_pods = MatchingProcesses(options.pods_matching, options.proc).count
    with ProcfsSource(options.proc, clock) as source:
        rows = Watch(source, clock, count_pods).rows(options.duration)
        show(rows, sys.stdout, title, as_json=options.json)


@contextmanager
def _unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C: as process 1 of a container Python would not react to it at all."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"a whole number from 0 on is needed, got {text!r}")
    return int(text)


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise argparse.ArgumentTypeError("a pattern is needed; an empty one matches every process")
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"a regular expression is needed, got {text!r}: {error}") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds from 1 on is needed, got {text!r}")
    return seconds
