"""Figures of the nodes over time: their pods, how busy they are, and what CARICO estimates of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from testbed.report.page.aggregates import (
    Series,
    bin_s,
    cluster_series,
    cost_series,
    extreme_series,
    grid,
    longest_s,
    node_series,
    typical,
    workloads_of,
)
from testbed.report.page.drawing import Curve, grid_panel, number, series_panel
from testbed.report.page.figure import Drawn, Figure
from testbed.results.schema import STOLEN

UTILISATION = {
    "cpu_utilisation": "CPU utilisation",
    "cpu_pressure": "CPU pressure",
    STOLEN: "CPU time stolen by the hypervisor",
    "memory_utilisation": "Memory in use",
}
ESTIMATES = {
    "capacity_signal": "Capacity signal k",
    "baseline": "Baseline: k of the idle node",
    "pod_cost": "Cost of a pod, in k",
    "pod_capacity": "Pod-Capacity: room for more pods",
}


SHOWN = 4
"""The most workloads whose costs are drawn; the data have all."""
COSTS = {"cores": "Cores that a pod", "gib": "Memory in GiB that a pod"}


def running_pods(drawn: Drawn) -> Figure | None:
    """The running pods of every node over time, in one repetition of each scheduler."""
    if not drawn.detail.nodes:
        return None
    taken = drawn.section.groups[0].completion_s if drawn.section.groups else lambda _: None
    shown = {name: typical(runs, taken) for name, runs in drawn.section.runs.items()}
    grids = {
        name: found for name, one in shown.items() if (found := grid(one, "running_pods", drawn.step_s)) is not None
    }
    most = max((float(np.nanmax(one.values)) for one in grids.values()), default=0.0)
    if most <= 0:
        return None
    panels = [
        grid_panel(
            f"{name}, seed {shown[name].seed}",
            one,
            most,
            drawn.until_s,
            f"Running pods by node and second under {name}: at most "
            f"{number(float(np.nanmax(one.values)))} on a node, {len(one.rows)} rows",
        )
        for name, one in grids.items()
    ]
    peaks = {name: float(np.nanmax(one.values)) for name, one in grids.items()}
    caption = (
        f"A row is a node, and the stronger the colour, the more pods run on it: {_fullest(peaks)}. All panels have "
        f"the same time axis, and each shows the repetition with the median JCT."
    )
    rows = [
        (name, shown[name].seed, node, at, value)
        for name, one in grids.items()
        for node, of_node in zip(one.rows, one.values, strict=True)
        for at, value in zip(one.begin_s, of_node, strict=True)
        if drawn.detail.data and not np.isnan(value)
    ]
    return drawn.figure(
        "pods",
        "Running pods per node",
        panels,
        caption,
        ("scheduler", "seed", "node", "from_s", "running_pods"),
        rows,
        heat=_pods(most),
    )


def extremes(drawn: Drawn) -> Figure | None:
    """The fullest and the emptiest node over time."""
    found = {
        name: [
            one
            for highest in (True, False)
            if (one := extreme_series(runs, "running_pods", drawn.step_s, highest=highest)) is not None
        ]
        for name, runs in drawn.section.runs.items()
    }
    found = {name: both for name, both in found.items() if len(both) == 2 and both[0].high.max() > 0}
    if not found or not any(len(one.nodes) > 1 for runs in drawn.section.runs.values() for one in runs):
        return None
    most = max(float(both[0].high.max()) for both in found.values())
    panels = [
        series_panel(
            name,
            [
                Curve("fullest node", drawn.colors[name], both[0]),
                Curve("emptiest node", drawn.colors[name], both[1], True),
            ],
            drawn.until_s,
            f"Running pods of the fullest and the emptiest node under {name}: at most "
            f"{number(float(both[0].middle.max()))} and {number(float(both[1].middle.max()))}",
            most=most,
        )
        for name, both in found.items()
    ]
    gaps = {name: float(np.median(both[0].middle - both[1].middle)) for name, both in found.items()}
    caption = (
        f"Pods on the fullest node (line) and on the emptiest (dashed): the closer they are, the better pods are "
        f"spread. {_furthest_apart(gaps)} Medians over the repetitions, with their extremes as bands."
    )
    return drawn.figure(
        "spread",
        "Fullest and emptiest node",
        panels,
        caption,
        ("scheduler", "node", "at_s", "running_pods", "lowest_repetition", "highest_repetition"),
        [
            row
            for name, both in found.items()
            for kind, one in zip(("fullest", "emptiest"), both, strict=True)
            for row in drawn.series_rows(one, name, kind)
        ],
    )


def utilisation(drawn: Drawn) -> Figure | None:
    """How busy the nodes are."""
    series: dict[str, dict[str, Series]] = {
        metric: {
            name: one
            for name, runs in drawn.section.runs.items()
            if (one := cluster_series(runs, metric, drawn.step_s)) is not None
        }
        for metric in UTILISATION
    }
    panels = [
        series_panel(
            UTILISATION[metric],
            [Curve(name, drawn.colors[name], one) for name, one in by_name.items()],
            drawn.until_s,
            f"{UTILISATION[metric]} over time, mean of the nodes; highest: "
            + "; ".join(f"{name} {100 * float(one.middle.max()):.0f} %" for name, one in by_name.items()),
            percent=True,
            most=1.0,
            height=172.0,
        )
        for metric, by_name in series.items()
        if by_name
    ]
    if not panels:
        return None
    busy = {name: float(one.middle.mean()) for name, one in series["cpu_utilisation"].items()}
    told = ""
    if len(busy) > 1:
        low, high = min(busy, key=busy.__getitem__), max(busy, key=busy.__getitem__)
        told = "The CPUs are equally busy under all schedulers. "
        if busy[high] > busy[low] + 0.01:
            told = (
                f"While it runs, the cluster is busiest under {high} ({100 * busy[high]:.0f} % of its CPU time) "
                f"and idlest under {low} ({100 * busy[low]:.0f} %). "
            )
    caption = (
        f"{told}Means over the nodes; pressure is the share of time in which some task waited for a CPU. Lines are "
        f"medians over the repetitions, bands their extremes."
    )
    return drawn.figure(
        "utilisation",
        "Utilisation of the cluster",
        panels,
        caption,
        ("scheduler", "metric", "at_s", "share", "lowest_repetition", "highest_repetition"),
        [
            row
            for metric, by_name in series.items()
            for name, one in by_name.items()
            for row in drawn.series_rows(one, name, metric)
        ],
        legend=True,
    )


def estimates(drawn: Drawn) -> Figure | None:
    """What CARICO's agents estimate."""
    recorded = {
        name: runs
        for name, runs in drawn.section.runs.items()
        if workloads_of(runs)
        or any(set(getattr(node, field)) - {None} for one in runs for node in one.nodes for field in ESTIMATES)
    }
    until_s = longest_s([one for runs in recorded.values() for one in runs])
    step_s = bin_s(until_s, drawn.detail.bins)
    series: dict[str, dict[str, Series]] = {
        metric: {name: one for name, runs in recorded.items() if (one := node_series(runs, metric, step_s)) is not None}
        for metric in ESTIMATES
    }
    titles = dict(ESTIMATES)
    workloads = workloads_of(one for runs in recorded.values() for one in runs)
    undrawn = {f"{quantity} {workload}" for quantity, workload in product(COSTS, workloads[SHOWN:])}
    for quantity, workload in product(COSTS, workloads):
        metric = f"{quantity} {workload}"
        titles[metric] = f"{COSTS[quantity]} of {workload} takes"
        series[metric] = {
            name: one
            for name, runs in recorded.items()
            if (one := cost_series(runs, workload, quantity, step_s)) is not None
        }
    panels = [
        series_panel(
            titles[metric],
            [Curve(name, drawn.colors[name], one) for name, one in by_name.items()],
            until_s,
            f"{titles[metric]} over time, median of the nodes; at the end: "
            + "; ".join(f"{name} {number(float(one.middle[-1]))}" for name, one in by_name.items()),
            height=172.0,
        )
        for metric, by_name in series.items()
        if by_name and metric not in undrawn
    ]
    if not panels:
        return None
    told = []
    if any(series[metric] for metric in ESTIMATES):
        told.append(
            "What nodes estimate of themselves: how many average workloads still fit (k), how many fit on the idle "
            "node, how much of k a pod takes, and so for how many more pods there is room."
        )
    if workloads:
        told.append(
            "Under the variant demand nodes learn what a pod of each workload takes: a line that no longer moves has "
            "been learned, and a narrow band means that nodes agree."
        )
    told.append("Lines are medians of all nodes of all repetitions; bands hold the middle 80 % of them.")
    caption = " ".join(told)
    return drawn.figure(
        "estimates",
        "What CARICO's nodes estimate",
        panels,
        caption,
        ("scheduler", "quantity", "at_s", "median", "p10", "p90"),
        [
            row
            for metric, by_name in series.items()
            for name, one in by_name.items()
            for row in drawn.series_rows(one, name, metric)
        ],
        legend=True,
        among=list(recorded),
    )


def _fullest(peaks: Mapping[str, float]) -> str:
    """Return how many pods a node has at most, and under which schedulers if not under all.

    Examples
    --------
    >>> _fullest({"carico": 5.0}), _fullest({"carico": 5.0, "spread": 5.0})
    ('at most 5', 'at most 5')
    >>> _fullest({"carico": 5.0, "spread": 3.0, "pack": 5.0})
    'at most 5, under carico and pack'
    """
    return f"at most {number(max(peaks.values()))}{_under(peaks, ', under ')}"


def _furthest_apart(gaps: Mapping[str, float]) -> str:
    """Return a sentence on how far apart the fullest and the emptiest node are, by scheduler.

    Examples
    --------
    >>> _furthest_apart({"spread": 0.0}), _furthest_apart({"spread": 1.0, "carico": 1.0})
    ('Typically both have the same number.', 'Typically they are 1 pod apart under all schedulers.')
    >>> _furthest_apart({"spread": 0.0, "carico": 2.0})
    'They are furthest apart under carico, typically by 2 pods.'
    """
    widest = max(gaps.values())
    everywhere = " under all schedulers" if len(gaps) > 1 else ""
    if under := _under(gaps, " under "):
        return f"They are furthest apart{under}, typically by {_pods(widest)}."
    if widest == 0:
        return f"Typically both have the same number{everywhere}."
    return f"Typically they are {_pods(widest)} apart{everywhere}."


def _under(values: Mapping[str, float], before: str) -> str:
    """Return the schedulers with the highest value; nothing if they all have it."""
    most = [name for name, value in values.items() if value == max(values.values())]
    return f"{before}{' and '.join(most)}" if len(most) < len(values) else ""


def _pods(value: float) -> str:
    text = number(value)
    return f"{text} pod{'s' * (text != '1')}"
