"""The tables of `carico costs`: a row for each workload if the terminal is wide enough, else a few short lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from carico.demand.settings import DEMAND
from carico.deployment.costs import Cost, Known, KnownAtNode
from carico.deployment.status import table
from carico.printable import printable, shortened

_UNITS = (86400, "d"), (3600, "h"), (60, "m")
_NOTHING = "no workload is known yet: agents learn what workloads cost from running pods"
_INDENT = "  "
_GAP = 2
"""Spaces between the columns of short lines."""


def show(costs: Sequence[Cost], width: int) -> str:
    """Return the costs as a table in kubectl's style.

    Parameters
    ----------
    costs : sequence of Cost
    width : int
        How many columns there are. If the table has more, each workload has its name, its figures and the verdict on
        lines of their own.
    """
    if not costs:
        return _NOTHING
    reads = any(cost.reads for cost in costs)
    header = ["PODS", "NODES", "CORES", "REQUESTED", "GIB", "REQUESTED"]
    figures = [
        [
            cost.pods,
            cost.nodes,
            _amount(cost.cores, cost.cores_doubt),
            _shown(cost.requested_cores),
            _amount(cost.gib, cost.gib_doubt),
            _shown(cost.requested_gib),
        ]
        for cost in costs
    ]
    wide = table(
        [
            ["WORKLOAD", "OF", *header, *(["READS"] if reads else []), "RAN", "ALL PODS"],
            *(
                [cost.workload, _of(cost.owners), *row, *([_reads(cost)] if reads else []), _ran(cost), _verdict(cost)]
                for cost, row in zip(costs, figures, strict=True)
            ),
        ]
    )
    if _fits(wide, width):
        return wide
    first, *rows = table(
        [[*header, "RAN"], *([*row, _ran(cost)] for cost, row in zip(costs, figures, strict=True))], _GAP
    ).splitlines()
    lines = ["WORKLOAD   OF", _INDENT + first]
    for cost, row in zip(costs, rows, strict=True):
        lines += [*_named(cost, width), _INDENT + row]
        if cost.reads:
            lines.append(f"{_INDENT}a pod has {_reads(cost)} reads under way")
        if verdict := _verdict(cost):
            lines.append(f"{_INDENT}all pods: {verdict}")
    return "\n".join(lines)


def show_by_node(costs: Sequence[KnownAtNode], width: int) -> str:
    """Return the costs as each node knows them as a table in kubectl's style.

    Parameters
    ----------
    costs : sequence of KnownAtNode
    width : int
        How many columns there are. If the table has more, the name of each workload is on a line above its nodes.
    """
    if not costs:
        return _NOTHING
    reads = any(cost.reads for cost in costs)
    header = ["PODS", "CORES", "GIB", *(["READS"] if reads else [])]
    figures = [
        [
            cost.pods,
            _amount(cost.cores, cost.cores_doubt),
            _amount(cost.gib, cost.gib_doubt),
            *([_reads(cost)] if reads else []),
        ]
        for cost in costs
    ]
    wide = table(
        [
            ["WORKLOAD", "NODE", *header],
            *([cost.workload, cost.node, *row] for cost, row in zip(costs, figures, strict=True)),
        ]
    )
    if _fits(wide, width):
        return wide
    of_figures = max(map(len, table([header, *figures], _GAP).splitlines()))
    of_node = max(len("NODE"), width - len(_INDENT) - _GAP - of_figures)
    first, *rows = table(
        [
            ["NODE", *header],
            *([shortened(cost.node, of_node), *row] for cost, row in zip(costs, figures, strict=True)),
        ],
        _GAP,
    ).splitlines()
    of_workload: dict[str, list[str]] = {}
    for cost, row in zip(costs, rows, strict=True):
        of_workload.setdefault(cost.workload, []).append(_INDENT + row)
    lines = ["WORKLOAD", _INDENT + first]
    for workload, nodes in of_workload.items():
        lines += [shortened(workload, width), *nodes]
    return "\n".join(lines)


def _fits(text: str, width: int) -> bool:
    return max(map(len, text.splitlines())) <= width


def _named(cost: Cost, width: int) -> list[str]:
    """Return a workload's name and its owner, on one line if they fit."""
    workload, owner = printable(cost.workload), printable(_of(cost.owners))
    line = f"{workload}   {owner}"
    if len(line) <= width:
        return [line]
    return [shortened(workload, width), f"{_INDENT}of {shortened(owner, width - len(_INDENT) - len('of '))}"]


def _amount(mean: float, doubt: float) -> str:
    return f"{mean:.2f} ± {doubt:.2f}"


def _reads(cost: Known | KnownAtNode) -> str:
    return _amount(cost.reads, cost.reads_doubt) if cost.reads else "-"


def _verdict(cost: Cost) -> str:
    """Say by how much the requests of all pods together are too high or too low, where that is beyond doubt."""
    found = []
    cpu, memory = (cost.cores, cost.cores_doubt), (cost.gib, cost.gib_doubt)
    for unit, known, assumed, requested in (
        ("cores", cpu, (DEMAND.first_cores, DEMAND.first_doubt_cores), cost.requested_cores),
        ("GiB", memory, (DEMAND.first_gib, DEMAND.first_doubt_gib), cost.requested_gib),
    ):
        # What is assumed of an unknown workload is no ground for a verdict.
        if requested is None or all(map(partial(math.isclose, rel_tol=0.01), known, assumed)):
            continue
        demanded, doubt = known
        amount = cost.pods * abs(requested - demanded)
        if abs(requested - demanded) > 2 * doubt and amount >= 0.1:
            found.append(f"{amount:.1f} {unit} {'wasted' if requested > demanded else 'at risk'}")
    return ", ".join(found)


def _of(owners: Sequence[str]) -> str:
    if not owners:
        return "-"
    return owners[0] + (f" and {len(owners) - 1} more" if len(owners) > 1 else "")


def _ran(cost: Known) -> str:
    if cost.pods:
        return "now"
    if cost.idle_s is None:
        return "-"
    size, unit = next((each for each in _UNITS if cost.idle_s >= each[0]), (1, "s"))
    return f"{int(cost.idle_s // size)}{unit} ago"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
