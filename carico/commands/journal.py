"""``carico explain`` and ``carico replay``: read the extender's journal; they need the extra `scheduler`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carico.commands import Commands
from carico.commands.cluster import connected, of_cluster
from carico.commands.output import of_output, print_json, table_width, wants_json
from carico.errors import InvalidJournal, NotReady
from carico.printable import printable

if TYPE_CHECKING:
    from carico.extender.journal import Entry

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
    of_output(explain)
    explain.set_defaults(run=_explain)
    replay = commands.add_parser(
        "replay",
        help="repeat the decisions of a journal and compare",
        description=(
            "Repeats every decision of a journal from the recorded inputs, and shows the decisions that come out "
            "differently; the exit code is 1 if there are any, or if nothing could be compared."
        ),
    )
    replay.add_argument("journal", metavar="JOURNAL", type=Path, help=f"the file, on an extender's node {JOURNAL}")
    of_output(replay)
    replay.set_defaults(run=_replay)


def _explain(options: argparse.Namespace) -> None:
    elsewhere = options.kubeconfig or options.context
    if options.journal is not None or (not elsewhere and Path(JOURNAL).exists()):
        _explain_from(options.journal or Path(JOURNAL), options)
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
    if wants_json(options):
        print_json({"decisions": [_decision(entry, by=pod) for pod, entry in found]})
        return
    width = table_width()
    print("\n\n".join(f"{reader.explain(entry, width, options.all)}\n  by {printable(pod)}" for pod, entry in found))


def _explain_from(journal: Path, options: argparse.Namespace) -> None:
    from carico.extender import journal_reader as reader

    pod, found = options.pod, 0
    decisions = []
    for _, entry in reader.entries_of(journal, _say):
        if reader.concerns(entry, pod):
            if wants_json(options):
                decisions.append(_decision(entry, by=None))
            else:
                print(("\n" if found else "") + reader.explain(entry, table_width(), options.all))
            found += 1
    if decisions:
        print_json({"decisions": decisions})
    if not found:
        raise InvalidJournal(
            f"{journal} contains no decision about a pod {pod!r}; give its name or UID. Each scheduler has a journal "
            f"of its own: outside of its pod, `carico explain {pod}` asks all of them"
        )


def _replay(options: argparse.Namespace) -> None:
    from carico.extender import journal_reader as reader

    same, differences = 0, []
    for where, entry in reader.entries_of(options.journal, _say):
        if why := reader.decide_again(entry):
            pod = f"{entry.pod.namespace}/{entry.pod.name}"
            differences.append({"where": where, "pod": pod, "difference": why})
            if not wants_json(options):
                print(f"{where}: {pod}: {why}")
        else:
            same += 1
    if wants_json(options):
        print_json({"same": same, "different": differences})
    else:
        print(f"{same} decisions come out the same, {len(differences)} differently")
    if differences:
        sys.exit(1)


def _decision(entry: Entry, by: str | None) -> dict[str, Any]:
    """Return a decision as the journal has it, and the pod whose extender made it, if somebody else's was asked."""
    return {"by": by, **{name: getattr(entry, name) for name in entry.__struct_fields__}}


def _say(what: str) -> None:
    print(f"carico: {printable(what)}", file=sys.stderr)
