"""Memory of simulated nodes grows and is freed as it should; where it runs out, the right containers are killed."""

import math

import pytest

from workloads.demand import MIB

GIB = 2**30


def resident(nodes):
    """Memory in use, from the counters, less what the idle node uses."""
    counters = nodes.fleet.counters()
    free = counters.memory_free + counters.memory_buffers + counters.memory_cached
    return (counters.memory_total - free).tolist()


def killed(nodes):
    return {name for name, (_, how) in nodes.ended.items() if how == "oom_killed"}


def test_memory_grows_with_the_work_done_and_is_freed_at_the_end(make_nodes):
    nodes = make_nodes()
    nodes.start("pod", work=10, memory_bytes=1000 * MIB, initial_memory_bytes=200 * MIB, memory_ramp=0.5)
    seen = []
    for _ in range(11):
        nodes.advance(1.0)
        seen.append(resident(nodes)[0] / MIB)
    assert seen == pytest.approx([360, 520, 680, 840, 1000, 1000, 1000, 1000, 1000, 0, 0])


def test_without_a_ramp_memory_is_there_at_once(make_nodes):
    nodes = make_nodes(nodes=2)
    nodes.start("pod", work=math.inf, duration_s=60, memory_bytes=GIB, node=1)
    nodes.advance(0.1)
    assert resident(nodes) == [0, GIB]


def test_memory_is_freed_when_a_container_is_stopped(make_nodes):
    nodes = make_nodes()
    nodes.start("pod", work=10, memory_bytes=GIB)
    nodes.advance(1.0)
    nodes.fleet.stop(nodes.tasks["pod"])
    assert resident(nodes) == [0]


def test_the_page_cache_gives_way(make_nodes):
    nodes = make_nodes(memory=10 * GIB, background_memory=0.1)
    for size, cached in ((0, 2), (6, 2), (8, 1), (9, 0)):
        if size:
            nodes.start(size, work=1e6, memory_bytes=size * GIB)
        nodes.advance(0.1)
        counters = nodes.fleet.counters()
        assert counters.memory_cached[0] / GIB == pytest.approx(cached)
        assert resident(nodes)[0] / GIB == pytest.approx(1 + size)
        if size:
            nodes.fleet.stop(nodes.tasks[size])


def test_a_node_that_is_exactly_full_kills_no_container(make_nodes):
    nodes = make_nodes(memory=8 * GIB)
    for pod in range(8):
        nodes.start(pod, work=5, memory_bytes=GIB)
    nodes.until_all_ended()
    assert not killed(nodes)


def test_best_effort_goes_before_burstable(make_nodes):
    nodes = make_nodes(memory=8 * GIB)
    nodes.start("burstable", work=50, memory_bytes=5 * GIB, oom=900)
    nodes.start("best-effort", work=50, memory_bytes=4 * GIB, oom=1000)
    nodes.advance(0.1)
    # Badness 900 + 625 against 1000 + 500: memory counts as well, and here it counts for more.
    assert killed(nodes) == {"burstable"}
    nodes.start("smaller", work=50, memory_bytes=4.5 * GIB, oom=900)
    nodes.advance(0.1)
    assert killed(nodes) == {"burstable", "best-effort"}


def test_only_as_many_go_as_needed(make_nodes):
    nodes = make_nodes(memory=8 * GIB)
    for pod, size in enumerate([1, 2, 3, 4]):
        nodes.start(pod, work=50, memory_bytes=size * GIB)
    nodes.advance(0.2)
    assert killed(nodes) == {3}
    nodes.start("large", work=50, memory_bytes=6 * GIB)
    nodes.advance(0.2)
    assert killed(nodes) == {3, "large"}


def test_nodes_with_room_kill_no_container(make_nodes):
    nodes = make_nodes(nodes=2, memory=8 * GIB)
    for node, pods in enumerate([9, 8]):
        for pod in range(pods):
            nodes.start((node, pod), work=50, node=node, memory_bytes=GIB)
    nodes.advance(0.5)
    assert killed(nodes) == {(0, 0)}


def test_the_memory_of_a_pod_that_has_just_ended_is_free(make_nodes):
    nodes = make_nodes(cores=4, memory=8 * GIB)
    nodes.start("ends", work=1.0, memory_bytes=4 * GIB)
    # Reaches 4.4 GiB in the tick in which the other one ends.
    nodes.start("grows", work=10.0, memory_bytes=44 * GIB, initial_memory_bytes=0, memory_ramp=1.0)
    nodes.advance(1.0)
    assert nodes.ended == {"ends": (pytest.approx(1.0), "done")}


def test_a_killed_container_runs_no_longer(make_nodes):
    nodes = make_nodes(cores=1, memory=GIB)
    nodes.start("killed", work=50, memory_bytes=2 * GIB)
    nodes.start("other", work=1)
    assert nodes.until_all_ended() == {"killed": pytest.approx(0.1), "other": pytest.approx(1.05)}


def test_a_full_node_without_pods_is_left_alone(make_nodes):
    nodes = make_nodes(background_memory=1.0)
    nodes.advance(1.0)
    assert resident(nodes) == [8 * GIB]
    nodes.start("pod", work=1, memory_bytes=1)
    nodes.advance(0.1)
    assert killed(nodes) == {"pod"}
