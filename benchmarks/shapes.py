"""Compares a variant of CARICO with the best request in hindsight, on many shapes of load.

On every shape, kube-scheduler runs with several requests. The request under which the jobs complete earliest, averaged
over the seeds, is the rival, although nobody can know it beforehand. The benchmark prints the ratios to it of the job
completion time (JCT) and the mean pod completion time (PCT), the worst first; the JCT's ratio corrected for how much
the choice of the best flatters it, with a 95 % interval (`testbed.comparison.hindsight`); where a server runs, the 99th
percentile of its clients' latencies; and how many pods were killed for memory. `--without` also measures the variant
without each of its rules in turn. A shape may also be the file of a scenario, such as a part of a trace, and `--random`
draws shapes on which nothing was tuned.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ablations import without
from benchmarks.common import parse, parser, report
from benchmarks.random_shapes import random_shape
from carico.files import write_whole
from testbed.arguments import setting
from testbed.comparison.hindsight import Hindsight, against_the_best
from testbed.measurement.completion_times import pod_completion_times
from testbed.measurement.request_latency import DURING, request_latencies
from testbed.results.schema import Repetition
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import Scenario, load_scenario, read_scenario
from workloads.traces.azure import noise_of, read_noise

CPU = ("100m", "250m", "500m", "750m", "1000m", "2000m")
SMALL = ("50m", "100m", "150m", "200m", "250m", "500m")
"""CPU requests for nodes with 0.6 cores."""


def _cpu(requests: Sequence[str], memory: str = "") -> tuple[str, ...]:
    return tuple(f"kube-scheduler:cpu={cpu}{memory}" for cpu in requests)


def _memory(requests: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"kube-scheduler:memory={memory}" for memory in requests)


@dataclass(frozen=True)
class Shape:
    """A scenario, the settings of its cluster, and kube-scheduler's requests."""

    text: str
    """A scenario of the catalogue, with the number of pods if that differs, or the YAML of another scenario."""
    rivals: tuple[str, ...] = _cpu(CPU)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        if "\n" in self.text:
            return read_scenario(self.text, "shape")
        name, _, pods = self.text.partition(" x ")
        scenario = load_scenario(name)
        return scenario.scaled(pods=int(pods)) if pods else scenario


def _jobs(name: str, *jobs: str, cluster: str = "") -> str:
    lines = [f"name: {name}", f"description: {name}"]
    lines += [f"cluster: {{{cluster}}}"] if cluster else []
    return "\n".join([*lines, "jobs:", *(f"  - {{{job}}}" for job in jobs), ""])


def _measured_noise() -> dict[str, Any]:
    """What was measured on virtual machines of kind D8s_v5 in Azure, and the stolen time that was measured here.

    The excerpt of the Azure VM Noise Dataset is part of the package; docs/reference/performance.md has the stolen time:
    up to 8 %, 2 % in the median.
    """
    with resources.as_file(resources.files("workloads.traces") / "samples" / "azure_vm_noise.csv") as sample:
        return {**noise_of(read_noise(sample)).settings, "steal": 0.08, "steal_duty": 0.25}


def _borg() -> str:
    """A few jobs do most of the work: 24 jobs with a tail like that of Google's jobs, published within a minute.

    The shape is generated, not replayed: Tirmazi et al. (*Borg: the Next Generation*, EuroSys 2020) report that the top
    1 % of jobs in the trace of 2019 consume over 99 % of the resources. The work of jobs has a Pareto tail of such a
    kind (exponent 0.69), cut off at 8 and 3,000 CPU-seconds. Widths, memory and times are made up; a pod runs for eight
    seconds and requests what it uses.
    """
    least, most, exponent = 8.0, 3000.0, 0.69
    jobs, number = [], 24
    for rank, start_s in enumerate(np.random.default_rng(0).uniform(0, 60, number)):
        left = 1 - (rank + 0.5) / number * (1 - (least / most) ** exponent)
        cores, memory = (0.25, 0.5, 1, 2)[rank % 4], (64, 256, 512)[rank % 3]
        pods = max(round(least * left ** (-1 / exponent) / (8 * cores)), 1)
        uses = f"cores: {cores}, cpu_seconds: {8 * cores:g}, memory: {memory}Mi, variation: 0.3"
        jobs.append(
            f"name: job-{rank}, workload: task, parameters: {{{uses}}}, pods: {pods}, start_s: {start_s:.1f}, "
            f"requests: {{cpu: {cores}, memory: {memory}Mi}}"
        )
    return _jobs("borg", *jobs, cluster="nodes: 8, cores: 4, memory: 8Gi")


_TASK = "name: {}, workload: task, parameters: {{{}}}, pods: {}"
_READERS = (
    "name: readers, workload: task, parameters: {{cores: 1, cpu_seconds: 1, reads: {}, variation: 0.2}}, pods: {}"
)
_CRITICAL = (
    "name: web, workload: web, parameters: {duration_s: 900, rate_per_s: 20}, pods: 1, requests: {cpu: 100m}, "
    "placement: first, disturbance: true, platform: true, latency_critical: true"
)
_SERVICE = "name: service, workload: web, parameters: {duration_s: 600, rate_per_s: 20}, pods: 19, disturbance: true"

SHAPES: dict[str, Shape] = {
    "pi-100": Shape("pi-2000 x 100"),
    "pi-250": Shape("pi-2000 x 250"),
    "pi-1000": Shape("pi-2000"),
    "sklearn": Shape(
        "sklearn",
        (*_memory(("750Mi", "1Gi", "2Gi")), *_cpu(("500m", "1000m", "2000m", "3000m"), ",memory=750Mi")),
    ),
    "mixed": Shape("pi-and-sklearn", ("kube-scheduler", *_cpu(CPU, ",memory=100Mi"), *_cpu(CPU[1:4], ",memory=750Mi"))),
    "same-job-twice": Shape("same-job-twice"),
    "low-then-high": Shape("low-then-high", ("kube-scheduler", *_cpu(CPU))),
    "long-pods": Shape("long-pods", ("kube-scheduler", *_cpu((*CPU, "3")))),
    "arriving-jobs": Shape("arriving-jobs", ("kube-scheduler", *_cpu(CPU))),
    "short-pods": Shape(
        _jobs(
            "short-pods",
            "name: short, workload: pi, parameters: {digits: 1000}, pods: 400",
            cluster="nodes: 8, cores: 16, memory: 32Gi",
        )
    ),
    "night-batch": Shape(
        _jobs(
            "night-batch",
            "name: small, workload: pi, parameters: {digits: 1000}, pods: 400, requests: {cpu: 250m}",
            "name: big, workload: mlp, parameters: {threads: 8}, pods: 20, start_s: 30, "
            "requests: {cpu: '2', memory: 1Gi}",
            cluster="nodes: 8, cores: 16, memory: 32Gi",
        ),
        ("kube-scheduler", *_cpu((*CPU, "4"))),
    ),
    "big-and-small-nodes": Shape(
        _jobs(
            "big-and-small-nodes",
            "name: pi, workload: pi, pods: 500",
            cluster="pools: [{name: big, nodes: 3, cores: 16, memory: 32Gi}, "
            "{name: small, nodes: 10, cores: 2, memory: 4Gi}]",
        )
    ),
    "heavy-memory": Shape(
        _jobs(
            "heavy-memory",
            "name: heavy, workload: task, parameters: {cores: 1, cpu_seconds: 20, memory: 1800Mi}, pods: 200",
        ),
        (*_memory(("1Gi", "1500Mi", "1900Mi", "2200Mi")), *_cpu(("500m", "1000m"), ",memory=1900Mi")),
    ),
    "growing-memory": Shape(
        _jobs("growing-memory", _TASK.format("grows", "cores: 0.5, cpu_seconds: 20, memory: 1300Mi, growth: 0.5", 200)),
        (*_memory(("500Mi", "1Gi", "1400Mi", "2Gi")), *_cpu(("250m", "500m", "1000m"), ",memory=1400Mi")),
    ),
    "slowly-growing-memory": Shape(
        _jobs(
            "slowly-growing-memory",
            _TASK.format("grows", "cores: 0.25, cpu_seconds: 15, memory: 1800Mi, growth: 0.8", 150),
        ),
        (*_memory(("500Mi", "1Gi", "1900Mi", "2500Mi")), *_cpu(("250m", "500m", "1000m"), ",memory=1900Mi")),
    ),
    "wide-pods": Shape(
        _jobs(
            "wide-pods",
            "name: wide, workload: task, parameters: {cores: 3, cpu_seconds: 60, variation: 0.2}, pods: 100",
        ),
        _cpu(("500m", "1000m", "1500m", "2000m", "3000m", "3500m")),
    ),
    "isolation": Shape("isolation"),
    "isolation-one-node": Shape("isolation-one-node", _cpu(("50m", "100m", "200m", "250m", "400m", "500m"))),
    "isolation-two-nodes": Shape("isolation-two-nodes", _cpu(SMALL), {"parameters": "kind"}),
    "latency-critical": Shape(
        _jobs(
            "latency-critical",
            _CRITICAL,
            "name: pi, workload: pi, pods: 1000, start_s: 60",
        )
    ),
    "pi-two-nodes": Shape("pi-two-nodes", _cpu(SMALL), {"parameters": "kind"}),
    "poisson-8": Shape(
        _jobs("poisson-8", "name: pi, workload: pi, pods: 600, arrivals: {pattern: poisson, rate_per_s: 8}")
    ),
    "poisson-11": Shape(
        _jobs("poisson-11", "name: pi, workload: pi, pods: 800, arrivals: {pattern: poisson, rate_per_s: 11}")
    ),
    "heavy-tail": Shape(
        _jobs(
            "heavy-tail",
            "name: tail, workload: task, parameters: {cores: 1, cpu_seconds: 10, variation: 1.5}, pods: 400",
        )
    ),
    "late-reports": Shape("pi-2000 x 500", settings={"report_delay_s": 2.0}),
    "noise": Shape("pi-2000 x 500", settings=_measured_noise()),
    "noise-burstable": Shape("pi-2000 x 500", settings={"speed_noise": 0.09, "node_speed_variation": 0.09}),
    "borg": Shape(_borg(), ("kube-scheduler", *_cpu(CPU))),
    "service-beside-jobs": Shape(
        _jobs("service-beside-jobs", _SERVICE, "name: pi, workload: pi, pods: 500, start_s: 10"),
    ),
    "readers": Shape("readers"),
    "readers-ssd": Shape(
        _jobs("readers-ssd", _READERS.format("2000Mi", 400), cluster="nodes: 8, disk: ssd"),
    ),
    "readers-and-cpu": Shape(
        _jobs(
            "readers-and-cpu",
            _READERS.format("1500Mi", 80),
            "name: cpu, workload: task, parameters: {cores: 1, cpu_seconds: 20, variation: 0.2}, pods: 300",
            cluster="nodes: 8, disk: hdd",
        ),
    ),
    "half-readers": Shape(
        _jobs(
            "half-readers",
            _TASK.format("half", "cores: 1, cpu_seconds: 5, reads: 750Mi, variation: 0.2", 200),
            cluster="nodes: 8, disk: hdd",
        ),
    ),
    "kubernetes-1.33": Shape("pi-2000 x 500", settings={"pop_from_backoff": True, "queueing_hints": True}),
}

WITHOUT = " without "
RULES: dict[str, str] = {
    "caution": ",caution=0",
    "headroom": ",headroom=0",
    "the higher level": ",threads_per_core=0",
    "patience": ",patience_s=0",
    "the limit for wide pods": ",wide=10",
    "the gap for wide pods": ",gap=0",
    "no sharing of the unknown": f"{WITHOUT}showing",
    "quiet nodes for servers": f"{WITHOUT}critical",
    "the credit for stopping pods": f"{WITHOUT}credit",
    "pods in flight": f"{WITHOUT}in-flight",
    "the held answer": ",hold_s=0",
    "pooling": f"{WITHOUT}pooling",
    "the memory of workloads": ",learned_s=1e12",
    "the disk": ",reads_from=1e9",
    "reading pods": ",pods_s=0",
    "fading": ",fade_s=1e9",
    "churn as a workload": ",churn_s=0",
    "censoring": ",saturated=10",
    "memory at its peak": ",peak_s=0.001",
    "settling": ",settling_s=0",
    "growth": ",growth_s=0",
    "reports on change": ",report_change=1e9",
}
"""What is added to the variant's name to switch off one rule, by the rule's name."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run, or the mean over runs."""

    jct_s: float
    pct_s: float
    p99_ms: float
    killed: int


def measure(shape: Shape, scheduler: str, seed: int) -> Outcome:
    """Run a shape once; after the scheduler, `WITHOUT` may name a rule of `benchmarks.ablations`."""
    spec, _, rule = scheduler.partition(WITHOUT)
    with without(rule):
        cluster = SimulatedCluster(shape.scenario, parse_spec(spec), seed, parameters_from(shape.settings))
    return outcome_of(cluster.run())


def outcome_of(run: Repetition) -> Outcome:
    """Summarise a run; jobs that are disturbances do not count."""
    completed = list(run.job_completion_time_s.values())
    times = [time for job in run.job_completion_time_s for time in pod_completion_times(run.pods, job)]
    latencies = [
        latency for job in {each.job for each in run.requests} for latency in request_latencies([run], job, DURING)
    ]
    return Outcome(
        jct_s=math.inf if None in completed else max(time for time in completed if time is not None),
        pct_s=float(np.mean(times)) if times else math.inf,
        p99_ms=1000 * float(np.percentile(latencies, 99)) if latencies else math.nan,
        killed=sum(pod.outcome == "oom_killed" for pod in run.pods),
    )


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Average over seeds."""
    columns = np.array([(one.jct_s, one.pct_s, one.p99_ms, one.killed) for one in outcomes])
    return Outcome(*columns.mean(axis=0).tolist())


class Measured:
    """Outcomes by shape, scheduler and seed; kube-scheduler's outcomes are kept in a file, if one is given."""

    def __init__(self, shapes: Mapping[str, Shape], file: Path | None, seeds: range, processes: int) -> None:
        self.shapes = shapes
        self._file = file
        self._seeds = seeds
        self._processes = processes
        self._known: dict[str, Outcome] = {}
        if file is not None and file.exists():
            self._known = {key: Outcome(**value) for key, value in json.loads(file.read_text()).items()}

    def of(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Outcome]:
        """Return the mean outcome of every pair of shape and scheduler."""
        runs = [(name, scheduler, seed) for name, scheduler in wanted for seed in self._seeds]
        missing = [run for run in runs if self._key(*run) not in self._known]
        with ProcessPoolExecutor(self._processes) as pool:
            for number, run in enumerate(missing):
                if not number % 50:
                    some = [(self.shapes[name], *rest) for name, *rest in missing[number : number + 50]]
                    outcomes = pool.map(measure, *zip(*some, strict=True))
                self._known[self._key(*run)] = next(outcomes)
                if self._file is not None and (number % 50 == 49 or run is missing[-1]):
                    self._keep(self._file)
        return {(name, scheduler): mean(list(self.by_seed(name, scheduler).values())) for name, scheduler in wanted}

    def by_seed(self, name: str, scheduler: str) -> dict[int, Outcome]:
        """Return the outcomes of what has been measured, by seed."""
        return {seed: self._known[self._key(name, scheduler, seed)] for seed in self._seeds}

    def _keep(self, file: Path) -> None:
        kept = {key: vars(outcome) for key, outcome in self._known.items() if "kube-scheduler" in key}
        write_whole(file, json.dumps(kept).encode())

    def _key(self, name: str, scheduler: str, seed: int) -> str:
        shape = self.shapes[name]
        what = hashlib.sha256(f"{shape.text} {sorted(shape.settings.items())}".encode()).hexdigest()[:12]
        return f"{name} {what} {scheduler} {seed}"


@dataclass(frozen=True)
class Comparison:
    """A shape's outcome under a variant, beside its outcome under the best request."""

    shape: str
    ours: Outcome
    best: Outcome
    request: str
    hindsight: Hindsight | None
    """The JCT's ratio, corrected for the choice; None if a job did not complete."""

    @property
    def jct(self) -> float:
        """Ratio of the job completion times."""
        return self.ours.jct_s / self.best.jct_s

    @property
    def pct(self) -> float:
        """Ratio of the mean pod completion times."""
        return self.ours.pct_s / self.best.pct_s


def compare(measured: Measured, variant: str) -> list[Comparison]:
    """Compare a variant with the best request on every shape."""
    rivals = measured.of([(name, rival) for name, shape in measured.shapes.items() for rival in shape.rivals])
    ours = measured.of([(name, variant) for name in measured.shapes])
    found = []
    for name, shape in measured.shapes.items():
        request = min(shape.rivals, key=lambda rival: (rivals[name, rival].jct_s, rivals[name, rival].pct_s))
        hindsight = _hindsight(measured, name, variant, shape.rivals)
        found.append(Comparison(name, ours[name, variant], rivals[name, request], request, hindsight))
    return found


def _hindsight(measured: Measured, name: str, variant: str, rivals: Sequence[str]) -> Hindsight | None:
    ours, *choices = (
        {seed: outcome.jct_s for seed, outcome in measured.by_seed(name, scheduler).items()}
        for scheduler in (variant, *rivals)
    )
    # A choice under which a job did not complete is not the best.
    complete = {
        rival: times for rival, times in zip(rivals, choices, strict=True) if math.isfinite(max(times.values()))
    }
    return against_the_best(ours, complete) if complete and math.isfinite(max(ours.values())) else None


def summary(found: Sequence[Comparison]) -> dict[str, float]:
    """Return the means and the worst values of the shapes whose jobs complete, and how many do not.

    A job whose pods are killed for memory again and again never completes, under the variant or under any request.
    """
    ended = [one for one in found if math.isfinite(one.ours.jct_s) and math.isfinite(one.best.jct_s)]
    jct, pct = [one.jct for one in ended], [one.pct for one in ended]
    killed = sum(max(one.ours.killed - one.best.killed, 0.0) for one in found)
    return {
        "unfinished": sum(not math.isfinite(one.ours.jct_s) for one in found),
        "unfinished_best": sum(not math.isfinite(one.best.jct_s) for one in found),
        "jct_mean": float(np.mean(jct)),
        "jct_worst": max(jct, default=math.nan),
        "pct_mean": float(np.mean(pct)),
        "pct_worst": max(pct, default=math.nan),
        "more_killed": killed,
    }


def main() -> None:
    """Measure and print the tables."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "shapes", nargs="*", metavar="SHAPE", help=f"a scenario's file, or a name (default: all of {', '.join(SHAPES)})"
    )
    arguments.add_argument(
        "--set",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="change a setting of every cluster",
    )
    arguments.add_argument("--variant", default="carico:variant=demand", help="default: %(default)s")
    arguments.add_argument("--repetitions", type=int, default=5, metavar="N", help="seeds (default: %(default)s)")
    arguments.add_argument("--first-seed", type=int, default=1001, metavar="N", help="default: %(default)s")
    arguments.add_argument("--processes", type=int, default=2, metavar="N", help="default: %(default)s")
    arguments.add_argument("--rivals", type=Path, metavar="FILE", help="keep kube-scheduler's outcomes in this file")
    arguments.add_argument(
        "--without",
        nargs="?",
        const="",
        metavar="TEXT",
        help="also measure the variant without each of its rules, or only of those whose names contain a text: "
        f"{', '.join(RULES)}",
    )
    arguments.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="N",
        help="measure N random shapes instead, on which nothing was tuned",
    )
    arguments.add_argument(
        "--large", type=int, default=0, metavar="N", help="measure N random shapes with pods of much memory instead"
    )
    options = parse(arguments)
    if min(options.random, options.large) < 0:
        arguments.error(f"--random and --large must be at least 0, got {options.random} and {options.large}")
    drawn = {f"random-{number}": Shape(*random_shape(number)) for number in range(options.random)}
    drawn |= {f"large-{number}": Shape(*random_shape(number, large=True)) for number in range(options.large)}
    files = {name: Shape(Path(name).read_text()) for name in options.shapes if Path(name).is_file()}
    known = {**SHAPES, **files, **drawn}
    unknown = sorted(set(options.shapes) - set(known))
    if unknown:
        arguments.error(f"no shape or file is named {', '.join(unknown)}; known shapes: {', '.join(SHAPES)}")
    shapes = {
        name: replace(known[name], settings={**known[name].settings, **dict(options.set)})
        for name in [*options.shapes, *drawn] or SHAPES
    }
    seeds = range(options.first_seed, options.first_seed + options.repetitions)
    measured = Measured(shapes, options.rivals, seeds, options.processes)
    found = compare(measured, options.variant)
    figures = {f"all:{name}": value for name, value in summary(found).items()}
    print("| shape | JCT, s | ratio | corrected | PCT, s | ratio | p99, of the best request | killed | best request |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in sorted(found, key=lambda one: -one.jct):
        p99 = ", ".join(f"{outcome.p99_ms:.1f}" for outcome in (one.ours, one.best) if outcome.p99_ms > 0)
        fair = one.hindsight
        corrected = "" if fair is None else f"{fair.ratio:.3f} [{fair.low:.2f}, {fair.high:.2f}]"
        request = one.request.partition(":")[2] or "as the scenario says"
        print(
            f"| {one.shape} | {one.ours.jct_s:.1f} | {one.jct:.3f} | {corrected} | {one.ours.pct_s:.2f} "
            f"| {one.pct:.3f} | {p99} | {one.ours.killed:g} | {request} |"
        )
        figures |= {f"{one.shape}:jct": one.jct, f"{one.shape}:pct": one.pct}
    print(" ".join(f"{name} {value:.3f}" for name, value in summary(found).items()), flush=True)
    if options.without is not None:
        _without(measured, options.variant, [rule for rule in RULES if options.without in rule], figures)
    report("shapes", {name: value for name, value in figures.items() if math.isfinite(value)}, options.json)


def _without(measured: Measured, variant: str, rules: Sequence[str], figures: dict[str, float]) -> None:
    print("\n| without | JCT: mean, worst | PCT: mean, worst | never end | killed | where it changes the most |")
    print("|---|---|---|---|---|---|")
    whole = {one.shape: one for one in compare(measured, variant)}
    for rule in rules:
        found = compare(measured, variant + RULES[rule])
        means = summary(found)
        figures |= {f"without {rule}:{name}": value for name, value in means.items()}
        most = sorted(found, key=lambda one: -abs(one.jct - whole[one.shape].jct))[:3]
        where = ", ".join(f"{one.shape} {whole[one.shape].jct:.2f} to {one.jct:.2f}" for one in most)
        print(
            f"| {rule} | {means['jct_mean']:.3f}, {means['jct_worst']:.2f} | {means['pct_mean']:.3f}, "
            f"{means['pct_worst']:.2f} | {means['unfinished']:g} | {means['more_killed']:g} | {where} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
