"""Measured bursts become parameters of the simulated cluster."""

import pytest

from testbed.simulation.parameters import parameters_from
from testbed.validation.bursts import Burst, Idle, IdleNode
from testbed.validation.container_costs import ContainerCosts, costs_table

IDLE = IdleNode(Idle(20.0, 1.0), 1.1, 0.14, 0.0025)


def burst(pods, latencies, start_cpu_s, stop_cpu_s=0.5):
    """A burst whose starts, ends and sleep last 10 s each, in which the idle node uses 0.5 CPU-seconds."""
    shown = [0.3 + 0.1 * place for place in range(pods)]
    return Burst(
        pods=pods,
        start_latency_s=latencies,
        running_visible_s=shown,
        finished_visible_s=[-0.01] * pods,
        start_cpu_s=0.5 + start_cpu_s,
        start_lasted_s=10.0,
        begun_cpu_s=0.4 + start_cpu_s / 5,
        begun_lasted_s=8.0,
        start_pressure=0.4,
        stop_cpu_s=0.5 + stop_cpu_s,
        stop_lasted_s=10.0,
        held=Idle(10.0, 0.54),
    )


@pytest.fixture
def costs():
    return ContainerCosts(0.55, IDLE, [burst(1, [1.5], 0.25), burst(4, [1.6, 2.0, 2.6, 3.1], 1.2, 0.4)])


def test_the_idle_nodes_cpu_time_is_no_cost_of_a_pod(costs):
    assert costs.background_cores == pytest.approx(0.05)
    assert [costs.starts(one) for one in costs.bursts] == pytest.approx([0.25, 0.3])
    assert [costs.stops(one) for one in costs.bursts] == pytest.approx([0.5, 0.1])
    assert costs.background_cores_per_pod == pytest.approx((0.004 + 0.001) / 2)


def test_costs_become_settings_of_a_simulated_cluster(costs):
    settings = costs.settings()
    assert parameters_from(settings)
    assert (settings["background_memory"], settings["background_memory_variation"]) == (0.14, 0.0025)
    # A start takes 0.3 CPU-seconds in a burst; alone, a fifth of them after the program has begun.
    assert (settings["start_cpu_s"], settings["started_cpu_s"]) == (0.24, 0.06)
    assert settings["stop_cpu_s"] == 0.1
    assert settings["starts_per_s"] == 2.0
    # Half a CPU is left for 0.24 CPU-seconds: 0.48 of the 1.5 s are computing.
    assert (settings["start_delay_min_s"], settings["start_delay_max_s"]) == (1.02, 1.02)
    assert (settings["running_visible_min_s"], settings["running_visible_max_s"]) == (0.3, 0.3), "of the single pod"


def test_a_negative_delay_counts_as_zero(costs):
    assert (costs.settings()["finished_visible_min_s"], costs.settings()["finished_visible_max_s"]) == (0.0, 0.0)


def test_a_burst_whose_pods_began_at_the_same_time_has_a_rate():
    at_once = ContainerCosts(0.5, IDLE, [burst(1, [1.0], 0.2), burst(3, [1.0, 1.0, 1.0], 0.2)])
    assert at_once.settings()["starts_per_s"] == 3.0


def test_the_table_shows_every_burst_in_80_columns(costs):
    lines = costs_table(costs)
    assert max(map(len, lines)) <= 80
    assert lines[0] == "A node of 0.55 CPUs: 0.050 CPUs when idle, 0.0025 more for every pod,"
    assert lines[4].split() == ["4", "0.30,", "0.06", "1.60", "3.10", "0.40", "0.10", "0.45,", "-0.01"]
