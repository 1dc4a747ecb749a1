"""Servers on shared nodes: how often clients ask, and what makes them wait."""

import numpy as np
import pytest

SURE = {"starts_per_s": 1000, "start_cpu_s": 0, "stop_cpu_s": 0, "start_delay_min_s": 0, "start_delay_max_s": 0}
ENDLESS = float("inf")


@pytest.fixture
def serve(make_machine, make_pod):
    """Let a server run for a while beside pods that compute, and return the latencies of its requests, seconds."""

    def run(others=0, seconds=20.0, rate=50.0, service_ms=0.2, threads=4, millicpu=0, other_millicpu=0, **parameters):
        machine = make_machine(**SURE | parameters)
        asked = {"duration_s": seconds, "rate_per_s": rate, "service_ms": service_ms, "threads": threads}
        server = make_pod("web", work=ENDLESS, workload="web", parameters=asked, millicpu=millicpu)
        hogs = [make_pod(f"hog-{n}", work=1e6, millicpu=other_millicpu) for n in range(others)]
        machine.bind(server, *hogs)
        machine.env.run(seconds + 5)
        (series,) = machine.servers.series(["node-0"])
        assert (series.pod, series.job, series.node) == ("web", "job", "node-0")
        assert len(series.sent_s) == len(series.latency_s)
        return np.array(series.sent_s), np.array(series.latency_s)

    return run


def test_requests_are_evenly_spaced_over_the_life_of_the_server(serve):
    sent, _ = serve(seconds=20, rate=50)
    assert len(sent) == pytest.approx(20 * 50, abs=6)
    assert np.diff(sent) == pytest.approx(1 / 50, abs=1e-5)


def test_a_pod_that_is_no_server_gets_no_requests(make_machine, make_pod):
    machine = make_machine()
    machine.bind(make_pod(work=1.0))
    machine.env.run(5)
    assert machine.servers.series(["node-0"]) == []


def test_an_idle_node_answers_after_network_wake_ups_and_computing(serve):
    _, latency = serve(service_ms=1.5, request_base_s=0.01, wake_ups_per_request=4, idle_wake_up_s=0.002)
    assert latency.min() > 0.01 + 0.0015
    assert latency.mean() == pytest.approx(0.01 + 0.0015 + 4 * 0.002, rel=0.05)


def test_without_wake_ups_nothing_varies(serve):
    _, latency = serve(others=40, wake_ups_per_request=0, request_base_s=0.001, service_ms=0.2)
    assert latency == pytest.approx(0.0012)


def test_the_wait_grows_with_the_runnable_threads_per_cpu(serve):
    figures = {"wake_ups_per_request": 1, "turn_s": 0.001, "idle_wake_up_s": 0.0, "request_base_s": 0.0}
    medians = [np.mean(serve(others, **figures)[1][20:]) for others in (2, 8, 40)]
    assert medians == pytest.approx([0.0002, 0.0012, 0.0092], rel=0.1), "0, 1 and 9 queue per CPU, and 0.2 ms of work"


def test_a_server_that_requests_more_cpu_waits_less(serve):
    figures = {"others": 40, "wake_ups_per_request": 1, "turn_s": 0.001, "other_millicpu": 100}
    light, heavy = (serve(**figures, millicpu=millicpu)[1].mean() for millicpu in (100, 400))
    assert heavy < light / 2


def test_a_server_that_gets_less_cpu_than_it_needs_takes_longer_to_compute(serve):
    figures = {"wake_ups_per_request": 0, "request_base_s": 0.0, "service_ms": 10, "rate": 100}
    alone, among_eight = (serve(others, **figures)[1][20:].mean() for others in (0, 7))
    assert alone == pytest.approx(0.01)
    assert among_eight == pytest.approx(0.02), "half a core of the whole one that it could use"


def test_requests_wait_for_a_thread(serve):
    figures = {"wake_ups_per_request": 0, "request_base_s": 0.0, "service_ms": 30, "rate": 20, "seconds": 10}
    _, enough = serve(threads=1, **figures)
    assert enough == pytest.approx(0.03), "each is over before the next one comes"
    _, too_few = serve(threads=1, **figures | {"request_base_s": 0.03})
    assert np.diff(too_few) == pytest.approx(0.01, abs=1e-5), "60 ms each, every 50 ms: the queue grows"
    _, more = serve(threads=2, **figures | {"request_base_s": 0.03})
    assert more == pytest.approx(0.06)


def test_servers_do_not_disturb_each_others_figures(make_machine, make_pod):
    machine = make_machine(nodes=3, cores=2, wake_ups_per_request=0, request_base_s=0.0, **SURE)
    asked = {"duration_s": 10, "rate_per_s": 10, "service_ms": 100}
    for node in range(3):
        machine.bind(make_pod(f"web-{node}", work=ENDLESS, workload="web", parameters=asked), node=node)
        machine.bind(*[make_pod(f"hog-{node}-{n}", work=1e6) for n in range(2 * node)], node=node)
    machine.env.run(12)
    means = [np.mean(series.latency_s[10:]) for series in machine.servers.series(["a", "b", "c"])]
    assert means == pytest.approx([0.1, 0.15, 0.25], rel=0.05), "1 thread, alone, with 2 and with 4 others on 2 cores"


def test_the_seed_decides(serve):
    first, second, other = (serve(10, seed=seed)[1] for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()
