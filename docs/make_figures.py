"""Makes the figures of the documentation from runs: ``python docs/make_figures.py`` (tox run -e figures).

Every figure names its scenario and seed; the same seed gives the same figure.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from carico.variants import THESIS_LITERAL, THESIS_REBASED, Variant
from testbed.clusters.simulated import SimulatedCluster
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.parameters import parameters_from
from workloads.scenario import JobSpec, Scenario

FOLDER = Path(__file__).parent / "concepts" / "figures"
SEED = 4001
COLOURS = {"thesis-literal": "tab:red", "thesis-rebased": "tab:blue"}


def main() -> None:
    """Make all figures."""
    mpl.rcParams.update(
        {"svg.hashsalt": "carico", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    moving_unit()


def two_jobs() -> Scenario:
    """One job, a pause in which the nodes are idle, and the same job again."""
    jobs = [JobSpec(name=f"job-{n}", workload="pi", pods=500, start_s=start) for n, start in ((1, 0.0), (2, 110.0))]
    return Scenario(name="two-jobs", description="a job, a pause, and the same job again", jobs=jobs)


def run(scheduler: str, observer: Variant | None = None) -> Repetition:
    """One repetition of the two jobs."""
    return SimulatedCluster(two_jobs(), parse_spec(scheduler), SEED, parameters_from({}), observer=observer).run()


def mean_series(repetition: Repetition, name: str) -> np.ndarray:
    """Mean over the nodes, per second; unknown values count as not a number."""
    return np.nanmean([np.array(getattr(node, name), dtype=float) for node in repetition.nodes], axis=0)


def moving_unit() -> None:
    """What one unit of k is worth while a cluster turns busy and idle again, and what that does to placement."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    observed = {variant: run("kube-scheduler:cpu=500m", variant) for variant in (THESIS_LITERAL, THESIS_REBASED)}
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
        repetition = run(f"carico:variant={variant.name}")
        times = repetition.nodes[0].time_s
        right.plot(times, mean_series(repetition, "running_pods"), color=COLOURS[variant.name], label=variant.name)
    right.set(title="Running pods per node", xlabel="seconds")
    right.set_ylim(top=8.4)
    right.legend(frameon=False, fontsize=8, loc="upper right")
    for axes in (left, middle, right):
        for start in (0, 110):
            axes.axvline(start, color="lightgrey", linewidth=0.8, zorder=0)
    save(figure, "moving-unit")


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure as SVG, without the date that would make every copy differ."""
    path = FOLDER / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


if __name__ == "__main__":
    main()
