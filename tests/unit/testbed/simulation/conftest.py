"""Parts of the simulated cluster by themselves: nodes without load of their own, and nodes with kubelets."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import simpy

from testbed.simulation.control_plane.api import ApiServer, Pod
from testbed.simulation.nodes.fleet import NodeFleet
from testbed.simulation.nodes.kubelet import Kubelets
from testbed.simulation.nodes.servers import Servers
from testbed.simulation.nodes.tasks import ContainerWeights
from testbed.simulation.parameters import SimulationParameters
from workloads.demand import Demand, Phase
from workloads.scenario import JobSpec

GIB = 2**30
TICK_S = 0.1
QUIET = {
    "background_cores": 0,
    "background_cores_per_pod": 0,
    "background_memory": 0,
    "background_memory_variation": 0,
    "burst_processes": 1,
    "agent_cores": 0,
}


class Nodes:
    """A fleet with a clock, and how the containers that were started have ended."""

    def __init__(self, nodes=1, cores=4, memory=8 * GIB, tick_s=TICK_S, seed=0, **parameters):
        self.parameters = SimulationParameters(**QUIET | parameters)
        self.fleet = NodeFleet(nodes, cores, memory, self.parameters, rng=np.random.default_rng(seed))
        self.tick_s = tick_s
        self.tick = 0
        self.ended = {}
        self.tasks = {}

    def start(self, name, work=1.0, node=0, threads=1.0, weight=1.0, oom=1000.0, **demand):
        """Start a container; `demand` has further fields of its demand model."""
        phases = demand.pop("phases", (Phase(1.0, threads),))
        model = Demand(**{"cpu_seconds": work, "memory_bytes": 0.0, "phases": phases} | demand)
        self.tasks[name] = self.fleet.run_container(
            node,
            model,
            work,
            weights=ContainerWeights(weight, oom),
            ended=lambda at, how: self.ended.update({name: (at, how)}),
        )

    def advance(self, seconds):
        for _ in range(round(seconds / self.tick_s)):
            self.tick += 1
            self.fleet.advance(self.tick * self.tick_s)

    def until_all_ended(self, limit_s=1000.0):
        while len(self.ended) < len(self.tasks):
            assert self.fleet.now < limit_s, f"still running: {sorted(set(self.tasks) - set(self.ended))}"
            self.advance(self.tick_s)
        return {name: at for name, (at, _) in self.ended.items()}

    @property
    def busy_s(self):
        """CPU-seconds used so far, of all nodes, from the counters."""
        counters = self.fleet.counters()
        return float((counters.cpu_total - counters.cpu_idle).sum()) / 100


@pytest.fixture(scope="session")
def make_nodes():
    return Nodes


@dataclass
class Log:
    """What the API and the kubelets reported, in order, as (seconds, kind, pod or change)."""

    entries: list = field(default_factory=list)

    def of(self, *kinds):
        return [entry for entry in self.entries if entry[1] in kinds]


class Machine:
    """Nodes with kubelets and an API server under SimPy's clock; pods are bound by hand."""

    def __init__(self, nodes=1, cores=4, memory=8 * GIB, seed=0, **parameters):
        self.env = simpy.Environment()
        self.parameters = SimulationParameters(**QUIET | parameters)
        self.fleet = NodeFleet(nodes, cores, memory, self.parameters, rng=np.random.default_rng(seed))
        self.api = ApiServer(self.env)
        self.log = Log()
        self.servers = Servers(self.fleet, self.parameters, np.random.default_rng(seed))
        self.kubelets = Kubelets(
            self.env,
            self.api,
            self.fleet,
            self.parameters,
            rng=np.random.default_rng(seed),
            pod_event=self._pod_event,
            servers=self.servers,
        )
        self.api.watch(
            bound=lambda pod: self._note("bound", pod.name),
            running=lambda pod: self._note("running", pod.name),
            finished=lambda pod: self._note("finished", pod.name),
        )
        self.env.process(self._clock())

    def bind(self, *pods, node=0):
        for pod in pods:
            self.api.create(pod)
            self.api.bind(pod, node)

    def _clock(self):
        while True:
            yield self.env.timeout(TICK_S)
            self.fleet.advance(self.env.now)
            self.servers.answer()

    def _pod_event(self, pod, change, at):
        assert at == self.env.now
        self._note("event", (pod.node, change))

    def _note(self, what, detail):
        self.log.entries.append((self.env.now, what, detail))


@pytest.fixture(scope="session")
def make_machine():
    return Machine


@pytest.fixture(scope="session")
def make_pod():
    def make(name="pod", work=1.0, millicpu=0, memory_bytes=0, workload="pi", parameters=None, **job):
        spec = JobSpec(name="job", workload=workload, pods=1, parameters=parameters or {}, **job)
        return Pod(
            uid=name, name=name, job=spec, work=work, created_s=0.0, millicpu=millicpu, memory_bytes=memory_bytes
        )

    return make
