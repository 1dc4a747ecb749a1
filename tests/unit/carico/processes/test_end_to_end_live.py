"""From this machine's /proc to the answer that kube-scheduler gets: real load, real agent, real servers."""

import os
import subprocess
import sys
import uuid
from collections import deque

import pytest

from carico.extender.journal import Entry
from carico.extender.journal_reader import read_entries

from .real_processes import Cluster, wait_for

pytestmark = [pytest.mark.machine, pytest.mark.quiet]

LOADS = 3 * (os.cpu_count() or 1)
"""Three for every CPU: all busy and others waiting on each of them, whatever else this machine does."""
IN_A_ROW = 100
"""Answers that are all the same, at least 50 ms apart: well beyond the second after a pod's start in which Pod-Capacity
is reckoned from the number of pods, and the seconds in which smoothing forgets the time before."""
IN_A_ROW_WITHIN_S = 180.0
"""Ten seconds where nobody else has the machine; who asks is but one of many there who want a CPU."""


@pytest.fixture
def mark():
    """In the command lines of this test's own load: another one beside it may compute pi as well."""
    return f"load_of={uuid.uuid4().hex}"


@pytest.fixture
def cluster(tmp_path, pki, mark):
    cluster = Cluster(tmp_path, pki)
    cluster.start("aggregator")
    cluster.start("extender").told("status_port")  # serves
    cluster.start_agent(pod_events={"source": "processes", "pattern": mark})
    yield cluster
    cluster.close()


@pytest.fixture
def load(mark):
    """Start the load; what is returned ends it."""
    running = []

    def start():
        program = [sys.executable, "-X", mark, "-m", "workloads.pi", "100000"]
        # A session each, as a pod has a control group: where the kernel shares CPUs among sessions (autogroup), all
        # of one session's processes may wait for one CPU and leave the other to somebody else's single one.
        running.extend(
            subprocess.Popen(program, stdout=subprocess.DEVNULL, start_new_session=True) for _ in range(LOADS)
        )
        return end

    def end():
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    yield start
    end()


def test_capacity_is_zero_while_the_cpu_is_saturated_and_comes_back(cluster, load):
    agent = cluster.running["agent"]

    def decision():
        """Ask, and return what the extender wrote down about it."""
        written = len(decisions())
        answer = cluster.ask("pod", "node-a")
        entry = wait_for(lambda: decisions()[written:], cluster.running["extender"])[-1]
        assert answer["NodeNames"] == [entry.choice] * (entry.choice is not None)
        return entry.candidates[0]

    def decisions():
        if not cluster.journal.exists():
            return []
        return [entry for _, entry in read_entries(cluster.journal) if isinstance(entry, Entry)]

    def shown():
        return f"{decision()}; the agent: {agent.metrics()}"

    # A node that is not full when it has just been started offers the two pods of which it knows nothing yet.
    before = wait_for(lambda: not (one := decision()).refused and one, shown).pod_capacity
    assert before >= 1

    # Less room than for half a pod is none.
    end_load = load()
    latest = deque([before], maxlen=IN_A_ROW)

    def stays_full():
        latest.append(decision().pod_capacity)
        return len(latest) == IN_A_ROW and max(latest) < 0.5

    wait_for(stays_full, shown, IN_A_ROW_WITHIN_S)
    assert agent.metrics()["carico_agent_pods"] == LOADS
    refusal = decision().refused
    assert refusal.startswith("capacity 0.")
    assert refusal.endswith("needs 1")

    end_load()
    after = wait_for(lambda: not (one := decision()).refused and one, shown).pod_capacity
    assert after >= 1
    wait_for(lambda: agent.metrics()["carico_agent_pods"] == 0, agent)
