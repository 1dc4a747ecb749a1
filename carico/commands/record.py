"""``carico record``: writes this node's counters to a file, for `carico watch --replay` and for bug reports."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

from carico.clock import SystemClock
from carico.commands import Commands
from carico.commands.arguments import seconds
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.procfs import ProcfsSource


def add(commands: Commands) -> None:
    """Declare the command."""
    record = commands.add_parser(
        "record",
        help="record this node's counters",
        description=(
            "Writes what an agent would read on this node, ten times a second, as JSON lines: a header, then one "
            "reading per line of about 250 bytes. Ctrl-C ends it; however it ends, the file contains only whole lines."
        ),
    )
    record.add_argument("--out", metavar="FILE", type=Path, required=True, help="a file that does not exist yet")
    record.add_argument(
        "--source",
        choices=["procfs", "cgroup"],
        default="procfs",
        help="procfs: the machine; cgroup: the container that this runs in (default: procfs)",
    )
    record.add_argument(
        "--duration", metavar="SECONDS", type=seconds, default=math.inf, help="end after this time (default: never)"
    )
    record.add_argument("--proc", metavar="FOLDER", default="/proc", help="the root folder of procfs (default: /proc)")
    record.add_argument(
        "--cgroup",
        metavar="FOLDER",
        default="/sys/fs/cgroup",
        help="the root folder of cgroups (default: /sys/fs/cgroup)",
    )
    record.set_defaults(run=_record, extra="agent")


def _record(options: argparse.Namespace) -> None:
    from carico.telemetry.recording import Header, Recorder, record

    clock = SystemClock()
    source: ProcfsSource | CgroupSource
    if options.source == "procfs":
        source, kind = ProcfsSource(options.proc, clock), "procfs"
    else:
        source = CgroupSource(options.cgroup, proc=options.proc, clock=clock)
        kind = f"cgroup {source.hierarchy}"
    header = Header(schema_version=1, node=os.uname().nodename, source=kind, period_s=source.period_s)
    with source, Recorder(options.out, header) as recorder:
        sys.stderr.write(f"carico record: {kind} of {header.node} into {options.out}\n")
        record(source, clock, recorder, options.duration)
