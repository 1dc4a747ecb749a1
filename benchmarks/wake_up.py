"""Measures what waking refused pods and a shorter back-off gain: CARICO with either, with both and with neither.

Fills a table of `docs/design.md`. Each is measured twice: with a kube-scheduler that retries refused pods whenever a
pod ends (`end`, the emulation's default), and with one that retries them after any change of any pod (`any`, as the
real one does from Kubernetes 1.32 on).
"""

from __future__ import annotations

import numpy as np

from benchmarks.common import parse, parser, report
from testbed.comparison.difference import difference
from testbed.measurement.completion_times import mean_job_completion_s, pod_completion_times
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import load_scenario

SCENARIOS = ("pi-2000", "sklearn", "pi-and-sklearn", "long-pods")
SETTINGS: dict[str, dict[str, object]] = {
    "neither": {"wake_up": False, "carico_backoff_max_s": 10.0},
    "wake_up": {"carico_backoff_max_s": 10.0},
    "backoff_1s": {"wake_up": False},
    "both": {},
}
"""CARICO is deployed with both."""
EVENTS = {"end": False, "any": True}
"""After which events of pods refused ones are tried again, and the setting `queueing_hints` that stands for it."""


def main() -> None:
    """Measure and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5, metavar="N", help="seeds, from 1 on (default: 5)")
    options = parse(arguments)
    figures: dict[str, float] = {}
    print("| scenario | refused pods are tried again at | | PCT, s | JCT, s | | attempts | wake-ups |")
    print("|---|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        for events in EVENTS:
            _rows(figures, scenario, events, range(1, options.repetitions + 1))
    report("wake_up", figures, options.json)


def _rows(figures: dict[str, float], scenario: str, events: str, seeds: range) -> None:
    reference: dict[int, float] = {}
    for name, settings in SETTINGS.items():
        jct: dict[int, float] = {}
        pct: list[float] = []
        attempts, wake_ups = [], []
        parameters = parameters_from({**settings, "queueing_hints": EVENTS[events]})
        for seed in seeds:
            cluster = SimulatedCluster(load_scenario(scenario), parse_spec("carico"), seed, parameters)
            run = cluster.run()
            jct[seed] = max(mean_job_completion_s([run], job) for job in run.job_completion_time_s)
            pct += [time for job in run.job_completion_time_s for time in pod_completion_times(run.pods, job)]
            attempts.append(cluster.scheduling_attempts)
            wake_ups.append(cluster.wake_ups)
        found = {
            "pct_s": float(np.mean(pct)),
            "jct_s": float(np.mean(list(jct.values()))),
            "attempts": float(np.mean(attempts)),
            "wake_ups": float(np.mean(wake_ups)),
        }
        figures |= {f"{scenario}:{events}:{name}:{figure}": round(value, 3) for figure, value in found.items()}
        reference = reference or jct
        change = "" if jct is reference else str(difference(reference, jct))
        print(
            f"| {scenario} | {events} | {name} | {found['pct_s']:.1f} | {found['jct_s']:.0f} | {change} "
            f"| {found['attempts']:.0f} | {found['wake_ups']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
