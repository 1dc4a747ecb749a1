"""The counters of simulated nodes tell the truth, as finely as the kernel's do."""

import numpy as np
import pytest

from carico.telemetry.counters import telemetry_between
from workloads.demand import MIB

GIB = 2**30


def test_counters_count_up_in_the_kernels_grain(make_nodes):
    nodes = make_nodes(nodes=3, cores=2, background_cores=0.3, background_cores_per_pod=0.1)
    last = nodes.fleet.counters()
    for second in range(50):
        nodes.start(second, work=0.7, node=second % 3)
        nodes.advance(0.1)
        now = nodes.fleet.counters()
        for name in ("cpu_total", "cpu_idle", "cpu_pressure_us"):
            before, after = getattr(last, name), getattr(now, name)
            assert (after >= before).all(), name
            assert (after == np.floor(after)).all(), name
        assert (now.cpu_total - last.cpu_total == 20).all()
        assert (now.cpu_idle <= now.cpu_total).all()
        last = now


def test_counters_count_from_boot(make_nodes):
    counters = make_nodes(nodes=2).fleet.counters()
    assert counters.cpu_total.tolist() == counters.cpu_idle.tolist() == counters.cpu_pressure_us.tolist() == [0, 0]


def test_a_reading_stays_what_it_was(make_nodes):
    nodes = make_nodes()
    first = nodes.fleet.counters()
    nodes.start("pod", work=10, memory_bytes=GIB)
    nodes.advance(5.0)
    assert first.cpu_total.tolist() == [0]
    assert (first.memory_free + first.memory_cached).tolist() == [8 * GIB]


@pytest.mark.parametrize(
    ("pods", "utilisation", "pressure"),
    [(0, 0.0, 0.0), (1, 0.25, 0.0), (4, 1.0, 0.0), (5, 1.0, 0.25), (8, 1.0, 1.0), (40, 1.0, 1.0)],
)
def test_telemetry_derived_from_them_is_the_truth(make_nodes, pods, utilisation, pressure):
    nodes = make_nodes(cores=4, memory=8 * GIB, background_memory=0.125)
    for pod in range(pods):
        nodes.start(pod, work=1000, memory_bytes=100 * MIB)
    nodes.advance(0.1)
    before = nodes.fleet.counters()
    for _ in range(30):
        nodes.advance(0.1)
        now = nodes.fleet.counters()
        telemetry = telemetry_between(before, now)
        # A sample has 40 jiffies.
        assert telemetry.cpu_utilisation[0] == pytest.approx(utilisation, abs=1 / 40)
        assert telemetry.cpu_pressure[0] == pytest.approx(pressure, abs=1e-4)
        assert telemetry.memory_utilisation[0] == pytest.approx(0.125 + pods * 100 / 8192)
        before = now


def test_rounding_does_not_add_up(make_nodes):
    nodes = make_nodes(cores=4)
    nodes.start("pod", work=1000, threads=0.123)
    first = nodes.fleet.counters()
    nodes.advance(100.0)
    telemetry = telemetry_between(first, nodes.fleet.counters())
    assert telemetry.cpu_utilisation[0] == pytest.approx(0.123 / 4, abs=1e-5)


def test_the_literal_reading_of_pressure(make_nodes):
    nodes = make_nodes(cores=4, pressure="at-least-one-waiting")
    for pod in range(5):
        nodes.start(pod, work=1000)
    nodes.advance(1.0)
    assert nodes.fleet.counters().cpu_pressure_us.tolist() == [pytest.approx(1e6, abs=1)]
