"""Telemetry between two readings (thesis §4.2.1)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.errors import CounterWentBackwards, InvalidInput
from carico.telemetry.counters import CPU_METRICS, Counters, Telemetry, cpu_left, telemetry_between, usage_vector

START = Counters(
    at_s=100.0,
    cpu_total=1000.0,
    cpu_idle=600.0,
    cpu_pressure_us=5e6,
    memory_total=1000.0,
    memory_free=400.0,
    memory_buffers=50.0,
    memory_cached=150.0,
)


def test_the_formulas_of_the_thesis():
    later = replace(
        START, at_s=100.1, cpu_total=1040.0, cpu_idle=610.0, cpu_pressure_us=5e6 + 25_000, memory_free=300.0
    )
    telemetry = telemetry_between(START, later)
    assert telemetry.at_s == 100.1
    assert telemetry.cpu_utilisation == pytest.approx(1 - 10 / 40)
    assert telemetry.cpu_pressure == pytest.approx(0.25)
    assert telemetry.memory_utilisation == pytest.approx(1 - (300 + 50 + 150) / 1000)


def test_pressure_of_memory_and_io_is_zero_unless_it_was_read():
    assert telemetry_between(START, replace(START, at_s=100.5)).memory_pressure == 0.0
    later = replace(START, at_s=100.5, memory_pressure_us=125_000, io_pressure_us=250_000)
    telemetry = telemetry_between(START, later)
    assert telemetry.memory_pressure == pytest.approx(0.25)
    assert telemetry.io_pressure == pytest.approx(0.5)
    assert telemetry.cpu_pressure == 0.0


def test_a_late_reading_does_not_look_like_pressure():
    later = replace(START, at_s=100.4, cpu_total=1160.0, cpu_pressure_us=5e6 + 100_000)
    assert telemetry_between(START, later).cpu_pressure == pytest.approx(0.25)


def test_utilisation_is_zero_when_no_tick_has_elapsed():
    assert telemetry_between(START, replace(START, at_s=100.1)).cpu_utilisation == 0.0


def test_iowait_may_fall_and_idle_may_outrun_the_total_without_leaving_the_range():
    assert telemetry_between(START, replace(START, at_s=100.1, cpu_total=1010.0, cpu_idle=599.0)).cpu_utilisation == 1.0
    assert telemetry_between(START, replace(START, at_s=100.1, cpu_total=1010.0, cpu_idle=620.0)).cpu_utilisation == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at_s": 100.0}, "times of readings must increase"),
        ({"at_s": 99.0}, "times of readings must increase"),
        ({"at_s": 101.0, "cpu_total": 999.0}, "cpu_total fell from 1000 to 999"),
        ({"at_s": 101.0, "cpu_pressure_us": 0.0}, r"cpu_pressure_us fell from 5e\+06 to 0: the machine was restarted"),
    ],
)
def test_a_cumulative_counter_that_fell_is_refused(change, message):
    with pytest.raises(CounterWentBackwards, match=message):
        telemetry_between(START, replace(START, **change))


def test_a_counter_that_fell_on_one_node_of_many_is_found():
    many = [np.array([float(value)] * 3) for value in vars(START).values()]
    before = Counters(*many)
    after = replace(before, at_s=before.at_s + 1, cpu_total=np.array([1100.0, 900.0, 1100.0]))
    with pytest.raises(CounterWentBackwards, match="from 1000 to 900"):
        telemetry_between(before, after)


def test_many_nodes_at_once_equal_each_node_alone():
    rng = np.random.default_rng(1)
    before = Counters(*(np.full(5, float(value)) for value in vars(START).values()))
    after = replace(
        before,
        at_s=before.at_s + rng.uniform(0.05, 0.2, 5),
        cpu_total=before.cpu_total + rng.uniform(20, 40, 5),
        cpu_idle=before.cpu_idle + rng.uniform(0, 20, 5),
        cpu_pressure_us=before.cpu_pressure_us + rng.uniform(0, 50_000, 5),
        memory_free=rng.uniform(0, 500, 5),
    )
    together = usage_vector(telemetry_between(before, after), "utilisation-and-pressure")
    assert together.shape == (5, 2)
    for node in range(5):
        first, second = (Counters(*(value[node] for value in vars(reading).values())) for reading in (before, after))
        alone = telemetry_between(first, second)
        assert np.array_equal(usage_vector(alone, "utilisation-and-pressure"), together[node])


def test_all_ways_to_compute_cpu_usage():
    telemetry = Telemetry(at_s=1.0, cpu_utilisation=1.0, cpu_pressure=0.5, memory_utilisation=0.2, cpu_stolen=0.25)
    assert usage_vector(telemetry, "utilisation-and-pressure").tolist() == [0.75, 0.2]
    assert usage_vector(telemetry, "utilisation").tolist() == [1.0, 0.2]
    assert usage_vector(telemetry, "utilisation-pressure-and-steal").tolist() == [0.875, 0.2]
    with pytest.raises(InvalidInput, match="'load'"):
        usage_vector(telemetry, "load")


def test_two_guests_that_spin_on_one_cpu_are_contention_only_for_the_metric_with_steal():
    """As Xen showed it: each guest had one virtual CPU, and 582 of its 1,200 ticks were stolen."""
    later = replace(START, at_s=START.at_s + 12, cpu_total=START.cpu_total + 1200, cpu_stolen=582)
    telemetry = telemetry_between(START, later)
    assert (telemetry.cpu_utilisation, telemetry.cpu_pressure) == (1.0, 0.0)
    assert usage_vector(telemetry, "utilisation-and-pressure")[0] == 0.5, "as if one pod had the CPU to itself"
    assert usage_vector(telemetry, "utilisation-pressure-and-steal")[0] == pytest.approx(0.74, abs=0.01)
    assert cpu_left(telemetry) == pytest.approx(0.515)


def test_the_hypervisor_leaves_all_of_a_cpu_that_nobody_wants():
    idle = replace(START, at_s=START.at_s + 1, cpu_total=START.cpu_total + 100, cpu_idle=START.cpu_idle + 100)
    assert cpu_left(telemetry_between(START, idle)) == 1.0


def test_steal_time_that_is_corrected_downwards_counts_as_none():
    before = replace(START, cpu_stolen=50)
    after = replace(before, at_s=START.at_s + 1, cpu_total=START.cpu_total + 100, cpu_stolen=40)
    assert telemetry_between(before, after).cpu_stolen == 0.0


amounts = st.floats(min_value=0, max_value=1e15)


@given(
    elapsed=st.floats(min_value=1e-3, max_value=1e6),
    total=amounts,
    idle=amounts,
    pressure=amounts,
    free=amounts,
    steal=amounts,
)
def test_every_share_is_in_the_unit_interval(elapsed, total, idle, pressure, free, steal):
    later = replace(
        START,
        at_s=START.at_s + elapsed,
        cpu_total=START.cpu_total + total,
        cpu_idle=START.cpu_idle + idle,
        cpu_pressure_us=START.cpu_pressure_us + pressure,
        memory_free=free,
        cpu_stolen=steal,
    )
    telemetry = telemetry_between(START, later)
    for metric in CPU_METRICS:
        usage = usage_vector(telemetry, metric)
        assert ((usage >= 0) & (usage <= 1)).all()
    assert 0 <= cpu_left(telemetry) <= 1
