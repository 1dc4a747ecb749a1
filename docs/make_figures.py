"""Makes the figures of the documentation from runs: ``python docs/make_figures.py [NAME ...]`` (tox run -e figures).

Every figure is a function; the page that shows it names scenario, seed and command. The same seed, the same figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib as mpl
import msgspec

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from carico.demand.node import NodeDemand
from carico.demand.pods import PodCounts
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.model.variants import THESIS_LITERAL, THESIS_REBASED, Variant
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.request_latency import request_latencies
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from testbed.simulation.schedulers.demand import kind_of
from workloads.scenario import Scenario, load_scenario

FOLDER = Path(__file__).parent / "concepts" / "figures"
SEED = 4001
COLOURS = {"thesis-literal": "tab:red", "thesis-rebased": "tab:blue"}


def main() -> None:
    """Make the figures that are named, or all."""
    parser = argparse.ArgumentParser(description="Makes the figures of the documentation from simulated runs.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"{', '.join(FIGURES)} (default: all)")
    names = parser.parse_args().names or list(FIGURES)
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"no figure is named {', '.join(unknown)}; known: {', '.join(FIGURES)}")
    mpl.rcParams.update(
        {"svg.hashsalt": "carico", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        figure = FIGURES[name]()
        path = FOLDER / f"{name}.svg"
        # Without the date, which would make every copy differ.
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        print(path)


def run(scenario: str | Scenario, scheduler: str, observer: Variant | None = None, **settings: object) -> Repetition:
    """One repetition of a scenario."""
    loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
    return SimulatedCluster(loaded, parse_spec(scheduler), SEED, parameters_from(settings), observer=observer).run()


def mean_series(repetition: Repetition, name: str) -> np.ndarray:
    """Mean over the nodes, per second; unknown values count as not a number."""
    return np.nanmean([np.array(getattr(node, name), dtype=float) for node in repetition.nodes], axis=0)


def cumulative(axes: plt.Axes, values: list[float], **style: object) -> None:
    """Draw the share of values up to each value."""
    axes.plot(np.sort(values), np.arange(1, len(values) + 1) / len(values), **style)


def moving_unit() -> plt.Figure:
    """What one unit of k is worth while a cluster turns busy and idle again, and what that does to placement."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    observed = {
        variant: run("same-job-twice", "kube-scheduler:cpu=500m", variant)
        for variant in (THESIS_LITERAL, THESIS_REBASED)
    }
    time_s = np.array(observed[THESIS_REBASED].nodes[0].time_s)
    left.plot(
        time_s, mean_series(observed[THESIS_REBASED], "baseline"), color="black", label="k of the idle node, today"
    )
    left.plot(
        time_s,
        mean_series(observed[THESIS_LITERAL], "baseline"),
        color=COLOURS["thesis-literal"],
        label="baseline as learned (literal)",
    )
    left.set(title="The unit moves: k of an idle node", xlabel="seconds", ylabel="average workloads")
    left.set_ylim(0, 3.4)
    left.legend(frameon=False, fontsize=8, loc="upper right")
    for variant, repetition in observed.items():
        share = mean_series(repetition, "pod_cost") / mean_series(repetition, "baseline")
        middle.plot(time_s, share, color=COLOURS[variant.name], label=variant.name)
    middle.axhline(1 / 8, color="grey", linestyle=":", label="truth: 8 pods fill a node")
    middle.set(title="Estimated cost / baseline", xlabel="seconds", ylim=(0, 1))
    middle.legend(frameon=False, fontsize=8, loc="upper left")
    for variant in observed:
        repetition = run("same-job-twice", f"carico:variant={variant.name}")
        times = repetition.nodes[0].time_s
        right.plot(times, mean_series(repetition, "running_pods"), color=COLOURS[variant.name], label=variant.name)
    right.set(title="Running pods per node", xlabel="seconds")
    right.set_ylim(top=8.4)
    right.legend(frameon=False, fontsize=8, loc="upper right")
    for axes in (left, middle, right):
        for start in (0, 110):
            axes.axvline(start, color="lightgrey", linewidth=0.8, zorder=0)
    return figure


def capacity_signal() -> plt.Figure:
    """What a node sees, concludes and reports while a job runs."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    node = run("pi-2000", "carico").nodes[0]
    time_s = np.array(node.time_s)
    for name, label, style in (
        ("running_pods", "running pods / 8", {"color": "black", "linewidth": 0.8}),
        ("cpu_utilisation", "CPU utilisation", {"color": "tab:orange"}),
        ("cpu_pressure", "CPU pressure", {"color": "tab:red"}),
        ("memory_utilisation", "memory", {"color": "tab:green"}),
    ):
        scale = 8 if name == "running_pods" else 1
        left.plot(time_s, np.array(getattr(node, name)) / scale, label=label, **style)
    left.set(title="What the node sees", xlabel="seconds", ylim=(0, 1.45))
    left.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
    signal, baseline, cost = (np.array(getattr(node, of), float) for of in ("capacity_signal", "baseline", "pod_cost"))
    middle.plot(time_s, signal / baseline, color="tab:blue", label="capacity signal k / baseline")
    middle.plot(time_s, cost / baseline, color="tab:purple", label="cost of a pod / baseline")
    middle.set(title="What it concludes", xlabel="seconds", ylim=(0, 1.25))
    middle.legend(frameon=False, fontsize=8, loc="upper center")
    right.step(time_s, node.pod_capacity, color="tab:blue", where="post", label="Pod-Capacity: room for more")
    right.step(time_s, node.running_pods, color="black", where="post", linewidth=0.8, label="running pods")
    right.axhline(1, color="grey", linestyle=":", linewidth=0.8)
    right.set(title="What it reports, and gets", xlabel="seconds", ylim=(0, 13))
    right.legend(frameon=False, fontsize=8, loc="upper center")
    return figure


def learning_from_peers() -> plt.Figure:
    """The capacity signal of a node with a load of its own while its peers run another (Fig 4.6, 4.7)."""
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 3.0), layout="constrained")
    titles = {
        "conflicting-capacity": "The node and its peers need CPU",
        "complementary-capacity": "The node needs memory, its peers CPU",
    }
    for axes, (scenario, title) in zip(panels, titles.items(), strict=True):
        repetition = run(scenario, "kube-scheduler", THESIS_REBASED)
        node = repetition.nodes[0]
        axes.plot(node.time_s, node.capacity_signal, color="tab:blue", label="k of the node")
        axes.axvline(30, color="lightgrey", linewidth=0.8, zorder=0)
        axes.set(title=title, xlabel="seconds (the peers' job is published at 30)", ylabel="k, average workloads")
        axes.set_ylim(bottom=0)
    return figure


def memory_of_pods() -> plt.Figure:
    """A heavy job some time after a light one: what the idle drift of the cost does."""
    figure, axes = plt.subplots(figsize=(4.8, 3.0), layout="constrained")
    scenario = load_scenario("low-then-high")
    light, heavy = scenario.jobs
    pauses_s = (0, 15, 30, 45, 60, 75, 90, 105, 120, 150)
    means = []
    for pause_s in pauses_s:
        jobs = [light, msgspec.structs.replace(heavy, start_s=heavy.start_s + pause_s)]
        repetition = run(msgspec.structs.replace(scenario, jobs=jobs), "carico")
        means.append(np.mean(pod_completion_times(repetition.pods, heavy.name)))
    axes.plot(pauses_s, means, "o-", color="tab:blue", label="after a light job")
    cold = np.mean(pod_completion_times(run("sklearn", "carico").pods))
    axes.axhline(cold, color="grey", linestyle=":", label="on fresh nodes")
    axes.set(title="Mean PCT of sklearn", xlabel="seconds between the jobs", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    return figure


def contention() -> plt.Figure:
    """What neighbours do to a pod: on one node, and over a whole job."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
    counts = range(1, 21)
    repetitions = [
        run(load_scenario("single-node-contention").scaled(pods=count), "kube-scheduler") for count in counts
    ]
    times = [float(np.mean(pod_completion_times(one.pods))) for one in repetitions]
    left.plot(counts, times, "o-", color="black", markersize=3, label="PCT")
    jct = [one.job_completion_time_s["pi-2000"] for one in repetitions]
    left.plot(counts, np.array(jct) / np.array(counts), color="tab:green", label="JCT / pods")
    left.axvline(4, color="grey", linestyle=":", linewidth=0.8)
    left.set(title="pi-2000 pods on a node of 4 cores", xlabel="pods that start together", ylabel="seconds")
    left.set_ylim(bottom=0)
    left.set_xticks(range(0, 21, 4))
    left.legend(frameon=False, fontsize=8)
    for scheduler, colour in SCHEDULERS.items():
        repetition = run("pi-2000", scheduler)
        label = f"{scheduler.removeprefix('kube-scheduler:')}: JCT {repetition.job_completion_time_s['pi-2000']:.0f} s"
        cumulative(right, pod_completion_times(repetition.pods), color=colour, label=label)
    right.set(title="1000 pi-2000 pods on 19 nodes", xlabel="PCT, seconds", ylabel="share of the pods", ylim=(0, 1))
    right.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.17, 0.98))
    return figure


def isolation() -> plt.Figure:
    """How long a server's clients wait beside a job, and what the thesis measured."""
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    for scheduler, colour in SCHEDULERS.items():
        repetition = run("isolation", scheduler)
        during = request_latencies([repetition], "web", "during")
        cumulative(axes, [1000 * latency for latency in during], color=colour, label=scheduler)
    before = [1000 * latency for latency in request_latencies([repetition], "web", "before")]
    cumulative(axes, before, color="black", label="before the job")
    shares = (0.5, 0.9, 0.95, 0.99)
    for quantiles, colour in (
        ((3.04, 3.78, 4.00, 4.47), "black"),
        ((10.06, 18.61, 22.28, 28.82), SCHEDULERS["kube-scheduler:cpu=100m"]),
        ((2.48, 6.09, 7.82, 10.53), SCHEDULERS["carico"]),
    ):
        axes.plot(quantiles, shares, "o", color=colour, markersize=4)
    axes.set(title="Latency of requests (points: Table 5.4)", xlabel="milliseconds", ylabel="share of the requests")
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 3, 5, 10, 20, 40], labels=["1", "2", "3", "5", "10", "20", "40"])
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def limits() -> plt.Figure:
    """How the comparison changes with what the model leaves out: CPU that is lost to crowding."""
    figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.0), layout="constrained")
    losses = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    for scheduler, colour in SCHEDULERS.items():
        repetitions = [run("pi-2000", scheduler, contention_loss=loss) for loss in losses]
        jct = [one.job_completion_time_s["pi-2000"] for one in repetitions]
        pct = [np.mean(pod_completion_times(one.pods)) for one in repetitions]
        for axes, values in zip(panels, (jct, pct), strict=True):
            axes.plot(losses, values, "o-", color=colour, markersize=3, label=scheduler)
    for axes, title in zip(panels, ("JCT of 1000 pi-2000 pods", "Mean PCT"), strict=True):
        axes.set(title=title, xlabel="share of the CPU lost at full pressure", ylabel="seconds")
        axes.set_ylim(bottom=0)
    panels[1].legend(frameon=False, fontsize=8)
    return figure


def demand() -> plt.Figure:
    """What a node of the variant `demand` observes, what it learns from that, and how full it is."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    seen: list[tuple[float, float]] = []
    told: list[tuple[float, DemandReport]] = []
    pooled: list[tuple[float, Estimate]] = []
    means, report = PodCounts.means, DemandScheduler.report
    pi = kind_of(load_scenario("pi-2000").jobs[0]).workload

    def observed(node: NodeDemand, cores: float, gib: float, at: float, *rest: Any) -> None:
        with patch.object(
            PodCounts, "means", lambda counts, until: numbers.append(means(counts, until)) or numbers[-1]
        ):
            numbers: list[dict[str, float]] = []
            observe(node, cores, gib, at, *rest)
        if node.node == "node-00" and at > 0:
            seen.append((numbers[0].get(pi, 0.0), cores))

    def reported(scheduler: DemandScheduler, sent: DemandReport, now: float) -> None:
        report(scheduler, sent, now)
        if sent.node == "node-00" and now > 0:
            told.append((now, sent))
            pooled.append((now, scheduler.cost(pi)[0]))

    observe = NodeDemand.observe
    with patch.object(NodeDemand, "observe", observed), patch.object(DemandScheduler, "report", reported):
        run("pi-2000", "carico:variant=demand")
    left.plot(*zip(*seen, strict=True), ".", color="tab:blue", alpha=0.5)
    last = next(sent for _, sent in reversed(told) if pi in sent.workloads)
    cost = last.workloads[pi].cores
    baseline = last.demand_cores.mean - last.workloads[pi].pods * cost.mean
    left.plot([0, 7], [baseline, baseline + 7 * cost.mean], color="black", linewidth=1)
    left.set(title="Demand of half a second", xlabel="pods, on average", ylabel="cores")
    for label, colour, estimates in (
        ("node-00", "tab:blue", [(at, sent.workloads[pi].cores) for at, sent in told if sent.workloads]),
        ("all nodes", "black", pooled),
    ):
        times = [at for at, _ in estimates]
        mean, doubt = (
            np.array(column) for column in zip(*((e.mean, e.variance**0.5) for _, e in estimates), strict=True)
        )
        middle.plot(times, mean, color=colour, linewidth=1, label=label)
        middle.fill_between(times, mean - doubt, mean + doubt, color=colour, alpha=0.2, linewidth=0)
    middle.set(title="Cost of a pod", xlabel="seconds", ylabel="cores", xlim=(0, 40), ylim=(0, 2.2))
    middle.legend(frameon=False, fontsize=8)
    right.step([at for at, _ in told], [sent.demand_cores.mean for _, sent in told], where="post", linewidth=1)
    right.axhline(4 + DEMAND.headroom * 2, color="black", linestyle=":", linewidth=1)
    right.axhline(4 * DEMAND.threads_per_core, color="grey", linestyle=":", linewidth=1)
    right.set(title="Demand, and the two levels", xlabel="seconds", ylabel="cores", ylim=(0, 9))
    return figure


SCHEDULERS = {"kube-scheduler:cpu=100m": "tab:red", "kube-scheduler:cpu=500m": "tab:orange", "carico": "tab:blue"}
FIGURES = {
    "moving-unit": moving_unit,
    "capacity-signal": capacity_signal,
    "learning-from-peers": learning_from_peers,
    "memory-of-pods": memory_of_pods,
    "contention": contention,
    "isolation": isolation,
    "limits": limits,
    "demand": demand,
}


if __name__ == "__main__":
    main()
