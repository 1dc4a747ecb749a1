"""The overhead of CARICO's agents: a job with and without them, and their own CPU and memory (thesis §5.7)."""

from __future__ import annotations

import time

import pytest

from carico.deployment.manifests import COMPONENT, NAMESPACE, SELECTOR
from testbed.comparison.difference import in_turns
from testbed.measurement.stolen_cpu import discarded_attempts
from testbed.results.schema import Repetition

from .comparisons import assert_not_worse
from .invariants import every_pod_completed_once

pytestmark = pytest.mark.cluster

SCENARIO, SCHEDULER = "pi-two-nodes", "kube-scheduler:cpu=250m"
WATCHED_S = 60.0
AIM_CPU = 0.005
"""The share of a core that an agent should use at most; shown but not asserted, because it depends on the machine."""
REQUESTED_CPU, REQUESTED_BYTES = 0.02, 64 << 20
"""An agent's requests in the DaemonSet (carico/manifests/agent.yaml): the scheduler reserves only these for it."""


@pytest.fixture
def runs(carico_experiment) -> dict[bool, list[Repetition]]:
    """The repetitions with and without agents, which take turns; finished repetitions are not run again."""
    found: dict[bool, list[Repetition]] = {}
    for turn in range(1, carico_experiment.repetitions + 1):
        for agents in (True, False) if turn % 2 else (False, True):
            settings = {"agents": agents}
            found[agents] = carico_experiment.run(SCENARIO, SCHEDULER, repetitions=turn, settings=settings)
    return found


@pytest.mark.carico_claim("§5.6, Table 5.5", "agents on all nodes lengthen a job by about 2 % at most")
def test_a_job_takes_as_long_with_agents_as_without(runs, carico_paper):
    for run in (*runs[True], *runs[False]):
        every_pod_completed_once(run)
    without, with_agents = ([run.job_completion_time_s[SCENARIO] for run in runs[agents]] for agents in (False, True))
    found = in_turns(without, with_agents)
    counts = [sum(discarded_attempts(runs[agents]).values()) for agents in (True, False)]
    note = f"{found}; attempts discarded with agents {counts[0]}, without {counts[1]}"
    carico_paper.row("JCT with agents / without", found.effect, None, note=note)
    assert_not_worse(found)


def test_an_agent_takes_no_more_than_it_requests(kind_cluster, carico_paper):
    """CPU time and memory of the pod on an idle node, as the node's control groups count them."""
    node, docker = kind_cluster.workers[0], kind_cluster.docker
    pods = kind_cluster.api.objects.list("v1", "Pod", NAMESPACE, f"{SELECTOR},{COMPONENT}=agent")
    uid = next(pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node)
    folders = docker.call("exec", node, "find", "/sys/fs/cgroup", "-type", "d", "-name", f"pod{uid}").split()

    def content(name: str) -> str:
        """Return a file of the pod's control group, from the hierarchy that has it."""
        return docker.call(
            "exec", node, "sh", "-c", " || ".join(f"cat {folder}/{name} 2>/dev/null" for folder in folders)
        )

    def cpu_s() -> float:
        if any("/cpuacct/" in folder for folder in folders):
            return int(content("cpuacct.usage")) / 1e9
        return int(content("cpu.stat").split()[1]) / 1e6

    def used_bytes() -> int:
        """Return the memory in use without files that the kernel may drop, as the kubelet counts it."""
        version_1 = any("/memory/" in folder for folder in folders)
        usage, inactive = (
            ("memory.usage_in_bytes", "total_inactive_file") if version_1 else ("memory.current", "inactive_file")
        )
        stat = dict(line.split() for line in content("memory.stat").splitlines())
        return int(content(usage)) - int(stat[inactive])

    began_s, used_s = time.monotonic(), cpu_s()
    time.sleep(WATCHED_S)
    share = (cpu_s() - used_s) / (time.monotonic() - began_s)
    carico_paper.row("CPU of an agent, of a core", share, None, note=f"aim: {AIM_CPU:g}")
    carico_paper.row("memory of an agent", used_bytes() / 2**20, None, "MiB")
    assert 0 < share <= REQUESTED_CPU
    assert 0 < used_bytes() <= REQUESTED_BYTES
