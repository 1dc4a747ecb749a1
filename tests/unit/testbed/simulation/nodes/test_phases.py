"""Phases of a task take the time that they should, wherever they end within a tick."""

import pytest

from workloads.demand import Phase


def alternating(parallel, serial, share=0.5):
    return (Phase(share, parallel), Phase(1 - share, serial))


def test_phases_take_turns(make_nodes):
    nodes = make_nodes(cores=4)
    nodes.start("pod", work=8, phases=alternating(4, 1), cycles=1)
    assert nodes.until_all_ended()["pod"] == pytest.approx(4 / 4 + 4 / 1)


@pytest.mark.parametrize("work", [73, 5, 0.5, 1e-8])
@pytest.mark.parametrize("tick_s", [0.1, 0.01])
def test_phases_that_end_between_ticks(make_nodes, tick_s, work):
    nodes = make_nodes(cores=4, tick_s=tick_s)
    nodes.start("pod", work=work, phases=alternating(4, 1, share=0.94), cycles=25)
    exact = work * (0.94 / 4 + 0.06)
    assert nodes.until_all_ended()["pod"] == pytest.approx(exact, abs=tick_s / 2)
    assert nodes.busy_s == pytest.approx(work, abs=4 * tick_s)


def test_phases_on_a_busy_node_use_no_more_than_it_has(make_nodes):
    nodes = make_nodes(cores=4)
    for pod in range(7):
        nodes.start(pod, work=20 + pod, phases=alternating(4, 1, share=0.9), cycles=50)
    for _ in range(300):
        before = nodes.busy_s
        nodes.advance(0.1)
        assert -1e-9 <= nodes.busy_s - before <= 0.4 + 1e-9


def test_in_its_serial_phase_a_pod_leaves_cores_to_others(make_nodes):
    nodes = make_nodes(cores=4)
    nodes.start("phased", work=8, phases=alternating(4, 1))
    nodes.start("greedy", work=1000, threads=4)
    nodes.advance(2.0)  # the first half, at two cores
    before = nodes.busy_s
    nodes.advance(1.0)
    assert nodes.busy_s - before == pytest.approx(4.0)
    nodes.advance(10.0)
    assert nodes.ended["phased"][0] == pytest.approx(2.0 + 4.0, abs=0.1)
