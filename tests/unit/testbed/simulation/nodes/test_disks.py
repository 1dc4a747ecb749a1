"""Pods that read from a disk take the time that they should, and the kernel counts it."""

import numpy as np
import pytest

from carico.telemetry.counters import Counters, disk_use_between
from testbed.simulation.nodes.disks import KINDS, READ_BYTES
from testbed.simulation.nodes.fleet import NodeFleet
from testbed.simulation.nodes.tasks import ContainerWeights
from testbed.simulation.parameters import SimulationParameters
from workloads.demand import task

MIB = 2**20
QUIET = {"background_cores": 0.0, "background_cores_per_pod": 0.0, "background_memory_variation": 0.0}


class Reading:
    """A node whose pods compute for a second each, and read."""

    def __init__(self, kind="hdd", cores=16):
        parameters = SimulationParameters(**QUIET)
        self.fleet = NodeFleet(1, cores, 64 * 2**30, parameters, rng=np.random.default_rng(0), disks=[kind])
        self.ended = {}
        self.started = 0

    def start(self, pods, reads_mib, cores=1):
        demand = task(cores=cores, cpu_seconds=1, reads=f"{reads_mib}Mi")
        for _ in range(pods):
            pod, self.started = self.started, self.started + 1
            self.fleet.run_container(0, demand, 1.0, ContainerWeights(1.0, 0.0), self._note(pod))

    def run(self, pods):
        first = self._counters()
        while len(self.ended) < pods and self.fleet.now < 3600:
            self.fleet.advance(self.fleet.now + 0.1)
        return disk_use_between(first, self._counters())

    def _counters(self):
        return Counters(**{name: np.ravel(value)[0] for name, value in vars(self.fleet.counters()).items()})

    def _note(self, pod):
        return lambda at, how: self.ended.update({pod: at})


def alone_s(reads_mib, kind="hdd"):
    return 1 + reads_mib * MIB / KINDS[kind].bytes_per_s


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reads_mib", [0, 30, 150, 1500])
def test_a_pod_alone_computes_and_reads_in_turn(kind, reads_mib):
    node = Reading(kind)
    node.start(1, reads_mib)
    use = node.run(1)
    assert node.ended[0] == pytest.approx(alone_s(reads_mib, kind), rel=0.02)
    assert use.reading == pytest.approx((node.ended[0] - 1) / node.fleet.now, abs=0.03)


def test_threads_of_a_pod_compute_and_read_side_by_side():
    node = Reading("ssd")
    node.start(1, 1000, cores=4)
    node.run(1)
    assert node.ended[0] == pytest.approx(alone_s(1000, "ssd") / 4, rel=0.03)


@pytest.mark.parametrize("pods", [2, 4, 16])
def test_readers_share_what_an_arm_leaves_of_the_disk(pods):
    """If pods read nearly all the time, the disk turns to another one after each turn."""
    node = Reading()
    node.start(pods, 1500)
    node.run(pods)
    turn_s = KINDS["hdd"].turn_bytes / KINDS["hdd"].bytes_per_s
    lost_s = KINDS["hdd"].switch_s * (1 - 1 / pods)
    assert list(node.ended.values()) == pytest.approx([pods * 10 * (turn_s + lost_s) / turn_s] * pods, rel=0.1)


@pytest.mark.parametrize(("pods", "stretch"), [(4, 1.0), (8, 1.0), (16, 2.0), (32, 4.0)])
def test_streams_of_a_solid_state_disk_have_their_full_speed_until_all_are_taken(pods, stretch):
    node = Reading("ssd", cores=64)
    node.start(pods, 2500)
    use = node.run(pods)
    assert list(node.ended.values()) == pytest.approx([1 + stretch * (alone_s(2500, "ssd") - 1)] * pods, rel=0.1)
    assert use.reading == pytest.approx(pods, rel=0.15)


def test_everything_is_read_and_counted():
    node = Reading()
    node.start(3, 300)
    use = node.run(3)
    reads = 3 * 300 * MIB / READ_BYTES
    assert use.work_per_s * node.fleet.now == pytest.approx(reads * (128 + READ_BYTES / 512), rel=0.05)


def test_a_pod_that_waits_for_the_disk_leaves_its_cpu_to_others():
    node = Reading("ssd", cores=1)
    node.start(1, 2250)
    node.start(1, 0)
    node.run(2)
    assert min(node.ended.values()) < 1.3, "the pod that does not read has most of the CPU"


def test_nothing_is_counted_without_a_disk():
    node = Reading(None)
    node.start(2, 0)
    assert node.run(2) is None
