"""``carico watch``: how much more this machine could take."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import suppress
from pathlib import Path

from carico.agent.watch import Watch, show
from carico.clock import Clock, SystemClock
from carico.commands import Commands
from carico.commands.arguments import pattern, seconds, whole_number
from carico.commands.output import of_output, wants_json
from carico.errors import InvalidInput, RecordingEnded
from carico.podevents.process_table import MatchingProcesses
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.source import TelemetrySource


def add(commands: Commands) -> None:
    """Declare the command."""
    watch = commands.add_parser(
        "watch",
        help="show how much more this machine could take",
        description=(
            "Samples this machine ten times a second and shows once a second: CPU utilisation, CPU pressure (the share "
            "of time in which some task waited for a CPU), memory in use, the capacity signal (how many more times the "
            "usual load fits) and Pod-Capacity (how many more pods fit). What a pod takes is learned while pods run, "
            "so tell it which pods run. Needs Linux with pressure stall information, but no Kubernetes."
        ),
    )
    pods = watch.add_mutually_exclusive_group()
    pods.add_argument(
        "--pods", metavar="N", type=whole_number, default=0, help="this many pods run all the time (default: 0)"
    )
    pods.add_argument(
        "--pods-matching",
        metavar="REGEX",
        type=pattern,
        help="every process whose command line matches stands for a pod, counted once a second; '^python -m job' "
        "leaves out a shell that has the same words in its command line. This process and its parents "
        "never count",
    )
    watch.add_argument(
        "--duration", metavar="SECONDS", type=seconds, default=math.inf, help="end after this time (default: never)"
    )
    of_output(watch, "one a second, a line each; shares are in [0, 1], and null is unknown", flag=True)
    watch.add_argument("--proc", metavar="FOLDER", default="/proc", help="the root folder of procfs (default: /proc)")
    watch.add_argument(
        "--replay", metavar="FILE", type=Path, help="replay a file of `carico record` at its recorded pace"
    )
    watch.set_defaults(run=_watch, extra="agent")


def _watch(options: argparse.Namespace) -> None:
    clock = SystemClock()
    if options.pods_matching is None:
        title, count_pods = f"carico watch: pods fixed at {options.pods}", lambda: int(options.pods)
    elif options.replay is not None:
        raise InvalidInput("--pods-matching counts processes that run now, a recording has none: use --pods N")
    else:
        title = f"carico watch: pods are the processes matching {options.pods_matching.pattern}"
        count_pods = MatchingProcesses(options.pods_matching, options.proc).count
    with _source(options, clock) as source, suppress(RecordingEnded):
        rows = Watch(source, clock, count_pods).rows(options.duration)
        show(rows, sys.stdout, title, as_json=wants_json(options))


def _source(options: argparse.Namespace, clock: Clock) -> TelemetrySource:
    if options.replay is None:
        return ProcfsSource(options.proc, clock)
    from carico.telemetry.recording import ReplaySource

    return ReplaySource(options.replay, clock)
