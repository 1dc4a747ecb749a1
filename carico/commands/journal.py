"""``carico explain`` and ``carico replay``: read the extender's journal; they need the extra `scheduler`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from carico.commands import Commands
from carico.commands.cluster import connected, of_cluster
from carico.errors import InvalidJournal, NotReady
from carico.printable import printable

JOURNAL = "/var/log/carico/journal.jsonl"
"""The default of `journal.file` in the extender's configuration."""


def add(commands: Commands) -> None:
    """Declare the commands."""
    explain = commands.add_parser(
        "explain",
        help="show why a pod was given its node, or none",
        description=(
            "Shows the decisions of the extender about a pod: the candidate nodes with their Pod-Capacity, the pods "
            "reserved on them, the room left, the age of the report, and which node was chosen. Times are UTC. Beside "
            "an extender, as in its pod, all decisions in its journal are shown; elsewhere, or with an option that "
            "names a cluster, the schedulers of the cluster are asked for their last ones, through the API server."
        ),
    )
    explain.add_argument("pod", metavar="POD", help="NAME, NAMESPACE/NAME or the UID")
    explain.add_argument(
        "--journal", metavar="FILE", type=Path, help=f"read this journal (default: {JOURNAL}, if there is one)"
    )
    of_cluster(explain)
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
    elsewhere = options.kubeconfig or options.context
    if options.journal is not None or (not elsewhere and Path(JOURNAL).exists()):
        _explain_from(options.journal or Path(JOURNAL), options.pod, options.all)
        return
    from carico.deployment.decisions import read_decisions
    from carico.extender import journal_reader as reader

    with connected(options) as kube:
        found = read_decisions(kube, options.namespace, options.pod, _say)
    if not found:
        raise NotReady(
            f"no scheduler of CARICO has decided about a pod {options.pod!r} lately: give NAME, NAMESPACE/NAME or the "
            f"UID of a pod with `schedulerName: carico`"
        )
    print("\n\n".join(f"{reader.explain(entry, options.all)}\n  by {printable(pod)}" for pod, entry in found))


def _explain_from(journal: Path, pod: str, show_all: bool) -> None:
    from carico.extender import journal_reader as reader

    found = 0
    for _, entry in reader.entries_of(journal, _say):
        if reader.concerns(entry, pod):
            print(("\n" if found else "") + reader.explain(entry, show_all))
            found += 1
    if not found:
        raise InvalidJournal(
            f"{journal} contains no decision about a pod {pod!r}; give its name or UID. Each scheduler has a journal "
            f"of its own: outside of its pod, `carico explain {pod}` asks all of them"
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
