"""Series have one row a second, from the counters."""

import numpy as np
import pytest

from carico.telemetry.counters import Counters
from testbed.results.schema import REPORTED
from testbed.simulation.recorder import MOST_WORKLOADS, Recorder


def reading(at, idle, pressure=0.0, free=80.0):
    total = np.full(2, 400.0 * at)
    return Counters(
        at_s=at,
        cpu_total=total,
        cpu_idle=np.asarray(idle, dtype=float),
        cpu_pressure_us=np.full(2, pressure * 1e6),
        memory_total=np.full(2, 100.0),
        memory_free=np.full(2, free),
        memory_buffers=np.zeros(2),
        memory_cached=np.zeros(2),
    )


def recorded():
    recorder = Recorder(["a", "b"], reading(0, [0, 0]))
    running = np.array([1, 2])
    recorder.record(1.0, reading(1, [400, 300], pressure=0.25), running, None)
    running += 1
    reported = {name: np.array([0.1234567, np.inf]) for name in REPORTED}
    recorder.record(2.0, reading(2, [400, 700], pressure=0.25, free=50.0), running, reported)
    for values in reported.values():
        values[:] = -1
    return recorder.series()


def test_a_row_is_what_happened_since_the_last_one():
    a, b = recorded()
    assert (a.name, b.name) == ("a", "b")
    assert a.time_s == b.time_s == [1.0, 2.0]
    assert (a.cpu_utilisation, b.cpu_utilisation) == ([0.0, 1.0], [0.25, 0.0])
    assert a.cpu_pressure == [0.25, 0.0]
    assert a.memory_utilisation == pytest.approx([0.2, 0.5])


def test_rows_stay_what_they_were():
    a, b = recorded()
    assert (a.running_pods, b.running_pods) == ([1, 2], [2, 3])
    assert a.pod_capacity == [None, 0.123457]


def test_what_json_does_not_know_is_none():
    _, b = recorded()
    assert b.capacity_signal == [None, None]


def test_without_a_row_the_series_are_empty():
    (node,) = Recorder(["a"], reading(0, [0, 0])).series()
    assert node.name == "a"
    assert node.time_s == node.running_pods == node.pod_capacity == []


def test_costs_are_recorded_from_when_a_node_knows_the_workload():
    recorder = Recorder(["a", "b"], reading(0, [0, 0]), {"ns/pi-1": "pi"})
    nothing, running = {}, np.array([0, 0])
    recorder.record(1.0, reading(1, [400, 400]), running, None, costs=[nothing, nothing])
    recorder.record(2.0, reading(2, [800, 800]), running, None, costs=[{"ns/pi-1": (0.5, 0.25)}, nothing])
    a, b = recorder.series()
    assert [(one.workload, one.cores, one.gib) for one in a.costs] == [("pi", [None, 0.5], [None, 0.25])]
    assert b.costs == []


def test_of_many_workloads_the_first_are_recorded():
    recorder = Recorder(["a"], reading(0, [0]))
    many = {f"w{number}": (1.0, 1.0) for number in range(MOST_WORKLOADS + 5)}
    recorder.record(1.0, reading(1, [400]), np.array([0]), None, costs=[many])
    assert [one.workload for one in recorder.series()[0].costs] == list(many)[:MOST_WORKLOADS]
