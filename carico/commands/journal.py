"""``carico explain`` and ``carico replay``: read the extender's journal; they need the extra `scheduler`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from carico.commands import Commands
from carico.errors import InvalidJournal
from carico.printable import printable

JOURNAL = "/var/log/carico/journal.jsonl"
"""The default of `journal.file` in the extender's configuration."""


def add(commands: Commands) -> None:
    """Declare the commands."""
    explain = commands.add_parser(
        "explain",
        help="show why a pod was given its node, or none",
        description=(
            "Shows every decision of the extender about a pod: the candidate nodes with their Pod-Capacity, the pods "
            "reserved on them, the room left, the age of the report, and which node was chosen. Times are UTC."
        ),
    )
    explain.add_argument("pod", metavar="POD", help="NAME, NAMESPACE/NAME or the UID")
    explain.add_argument("--journal", metavar="FILE", type=Path, default=Path(JOURNAL), help=f"(default: {JOURNAL})")
    explain.add_argument("--all", action="store_true", help="show all nodes of the journal, not only the best ten")
    explain.set_defaults(run=_explain)
    replay = commands.add_parser(
        "replay",
        help="repeat the decisions of a journal and compare",
        description=(
            "Repeats every decision of a journal from the recorded inputs, and shows the decisions that come out "
            "differently; the exit code is 1 if there are any, or if nothing could be compared."
        ),
    )
    replay.add_argument("journal", metavar="JOURNAL", type=Path)
    replay.set_defaults(run=_replay)


def _explain(options: argparse.Namespace) -> None:
    from carico.extender import journal_reader as reader

    found = 0
    for _, entry in reader.entries_of(options.journal, _say):
        if reader.concerns(entry, options.pod):
            print(("\n" if found else "") + reader.explain(entry, options.all))
            found += 1
    if not found:
        raise InvalidJournal(
            f"{options.journal} contains no decision about a pod {options.pod!r}; give its name or UID"
        )


def _replay(options: argparse.Namespace) -> None:
    from carico.extender import journal_reader as reader

    same = different = 0
    for where, entry in reader.entries_of(options.journal, _say):
        if why := reader.decide_again(entry):
            different += 1
            print(f"{where}: {entry.pod.namespace}/{entry.pod.name}: {why}")
        else:
            same += 1
    print(f"{same} decisions come out the same, {different} differently")
    if different:
        sys.exit(1)


def _say(what: str) -> None:
    print(f"carico: {printable(what)}", file=sys.stderr)
