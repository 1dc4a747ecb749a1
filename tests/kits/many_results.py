"""Results to make reports of: simulated ones of every kind that a report shows, small and quick."""

import msgspec

from testbed.comparison import USUAL
from testbed.comparison.conditions import conditions
from testbed.comparison.gate import judge
from testbed.comparison.measured import measured
from testbed.report.kept_gate import kept
from testbed.results.gate_file import BaselineUsed
from testbed.results.outcomes import Outcome, Row, Statement
from testbed.results.reading import Reading
from testbed.results.store import merged
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import parameters_from
from workloads.scenario import load_scenario

EVIL = "<script>alert(1)</script>"
REQUESTS = ("carico", "kube-scheduler:cpu=250m", "kube-scheduler:cpu=2000m")


def simulated(scenario, scheduler="carico", seed=1, pods=None, nodes=None, **settings):
    scaled = load_scenario(str(scenario)).scaled(pods, nodes)
    return SimulatedCluster(scaled, parse_spec(scheduler), seed, parameters_from(settings)).run()


def requests_compared(seeds=(1, 2, 3), pods=12, nodes=2):
    """A job under CARICO and two requests."""
    return [simulated("pi-2000", name, seed, pods, nodes, warm_up_s=2.0) for name in REQUESTS for seed in seeds]


def isolation(seeds=(1,)):
    """A server beside a job."""
    return [simulated("isolation-one-node", name, seed, warm_up_s=2.0) for name in REQUESTS[:2] for seed in seeds]


def incomplete(repetitions):
    """The same, but one job does not complete, because one of its pods, with an evil name, was evicted."""
    first, *others = repetitions
    pod = msgspec.structs.replace(first.pods[0], name=EVIL, outcome="evicted", finished_s=None)
    times = dict.fromkeys(first.job_completion_time_s, None)
    return [msgspec.structs.replace(first, pods=[pod, *first.pods[1:]], job_completion_time_s=times), *others]


def renamed(repetitions, name=EVIL):
    """The same, of a scenario and a job with that name, on nodes with that name."""
    text = msgspec.json.encode([list(map(msgspec.to_builtins, repetitions))])
    escaped = msgspec.json.encode(name)[1:-1]
    found = msgspec.json.decode(text.replace(b'"pi-2000', b'"' + escaped).replace(b'"node-', b'"' + escaped))
    return msgspec.convert(found[0], list[type(repetitions[0])])


def reading(repetitions, name="20261120T101530Z-aaaaaa", outcomes=(), problems=(), run=None, gate=None):
    """What was read of a run; its gate as the run keeps it."""
    said = None
    if gate is not None:
        said = kept(gate, BaselineUsed("base.json", "0a" * 32) if gate.by_baseline else None)
    return Reading(name, run, merged(repetitions).repetitions, list(outcomes), list(problems), gate=said)


def failed_gate(repetitions):
    """A gate by a baseline in which everything took half the time."""
    now = measured(repetitions, [one.figure for one in conditions(USUAL)])
    halved = [
        [msgspec.structs.replace(each, values=[value / 2 for value in each.values]) for each in one.series]
        for one in now
    ]
    before = [msgspec.structs.replace(one, series=series) for one, series in zip(now, halved, strict=True)]
    return judge(before, now, conditions(USUAL))


def paper():
    """The outcomes of two tests, with the paper's figures."""
    rows = [
        Row("mean PCT, carico", [9.4, 9.6, 9.5], 9.55, "s", "with one thread a pod"),
        Row("OOM kills", [0.0], None, "pods"),
    ]
    statement = Statement("claim", "§5.1, Table 5.1", "pods take as long as with the right request", "thesis-literal")
    return [
        Outcome("tests/cluster/test_pct.py::test_mean[x]", statement, "depends on the seed", "", 2, 3, rows),
        Outcome("tests/cluster/test_pct.py::test_other", verdict="holds"),
    ]


def trace(folder, jobs=12, seeds=(1, 2, 3)):
    """Many jobs, of which only totals are shown."""
    lines = [f"  - {{name: j{n}, workload: pi, pods: 1, start_s: {n}}}" for n in range(jobs)]
    text = "name: trace\ndescription: many jobs\ncluster: {nodes: 2, cores: 4, memory: 8Gi}\njobs:\n"
    (folder / "trace.yaml").write_text(text + "\n".join(lines) + "\n")
    return [
        simulated(folder / "trace.yaml", name, seed, warm_up_s=2.0)
        for name in ("carico", "kube-scheduler:cpu=200m,memory=750Mi")
        for seed in seeds
    ]
