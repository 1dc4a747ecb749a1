"""Counters from the metrics server's answers."""

import numpy as np
import pytest

from carico.errors import InvalidInput, TelemetryMalformed
from carico.telemetry.counters import usage_vector
from carico.telemetry.metrics_server import MetricsServerSource, parse_quantity, parse_window
from carico.telemetry.sampler import Sampler
from carico.testing import ManualClock

GIB = 2**30


class Server:
    """A metrics server that scrapes every 15 s, for a node with four CPUs and 8 GiB."""

    def __init__(self, clock):
        self.clock = clock
        self.asked = 0
        self.cpu, self.memory = "1000000000n", f"{2 * GIB // 1024}Ki"
        self.changes = {}

    def fetch(self):
        self.asked += 1
        scrapes = int(self.clock.now() // 15)
        return {
            "kind": "NodeMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "node-1", "creationTimestamp": "2026-11-20T10:15:30Z"},
            "timestamp": f"2026-11-20T10:{scrapes // 4:02d}:{scrapes % 4 * 15:02d}Z",
            "window": "15.032s",
            "usage": {"cpu": self.cpu, "memory": self.memory},
        } | self.changes


@pytest.fixture
def server():
    return Server(ManualClock(now=600.0))


def source_of(server, **options):
    return MetricsServerSource(
        server.fetch, "node-1", allocatable_cpus=4, allocatable_bytes=8 * GIB, clock=server.clock, **options
    )


def test_a_sample_for_every_scrape(server):
    with source_of(server) as source:
        assert source.period_s == 15.0
        sampler = Sampler(source, server.clock, source.period_s)
        sampler.start()
        samples = []
        for cpu, memory in [("1000000000n", "2Gi"), ("3", "4Gi"), ("5", "9Gi")]:
            server.cpu, server.memory = cpu, memory
            samples.append(sampler.next_batch(1).samples)
    assert [sample.cpu_utilisation for sample in samples] == pytest.approx([0.25, 0.75, 1.0])
    assert [sample.memory_utilisation for sample in samples] == pytest.approx([0.25, 0.5, 1.0])
    assert [sample.at_s for sample in samples] == [615.0, 630.0, 645.0]
    assert usage_vector(samples[1], "utilisation") == pytest.approx(np.array([[0.75, 0.5]]))
    assert samples[1].cpu_pressure == 0.0


def test_the_server_is_asked_every_15_s_however_often_the_source_is_read(server):
    with source_of(server) as source:
        sampler = Sampler(source, server.clock)
        sampler.start()
        batch = sampler.next_batch(301)
    assert server.asked == 3
    assert batch.samples.at_s == pytest.approx([615.0, 630.0])


def test_a_scrape_seen_before_gives_the_same_reading(server):
    with source_of(server, period_s=5.0) as source:
        first = source.read()
        server.clock.advance(5.0)
        assert source.read() is first
        server.clock.advance(10.0)
        assert source.read().at_s == 615.0
    assert server.asked == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": {"name": "node-2"}}, "must answer for the node node-1, got 'node-2'"),
        ({"metadata": {}}, "not a NodeMetrics: .*name"),
        ({"usage": {"cpu": "1"}}, "not a NodeMetrics: .*memory"),
        ({"usage": {"cpu": 1, "memory": "1Gi"}}, r"not a NodeMetrics: .*\$.usage.cpu"),
        ({"usage": {"cpu": "one", "memory": "1Gi"}}, "a quantity as in 123456789n .*, got 'one'"),
        ({"usage": {"cpu": "1", "memory": "-1Gi"}}, "got '-1Gi'"),
        ({"window": "0s"}, "a window above 0 s .*, got '0s'"),
        ({"timestamp": None}, "not a NodeMetrics: .*timestamp"),
    ],
)
def test_an_invalid_answer_is_refused_and_changes_nothing(server, changes, message):
    with source_of(server) as source:
        first = source.read()
        server.clock.advance(15.0)
        server.changes = changes
        with pytest.raises(TelemetryMalformed, match=message):
            source.read()
        server.changes = {}
        assert source.read() is first  # no request before the next period
        server.clock.advance(15.0)
        second = source.read()
    assert second.cpu_total == 2 * first.cpu_total


def test_an_answer_that_is_not_a_document_is_refused(server):
    for answer in (None, [], "404 page not found", {}):
        with pytest.raises(TelemetryMalformed, match="not a NodeMetrics"):
            MetricsServerSource(
                lambda answer=answer: answer, "node-1", allocatable_cpus=4, allocatable_bytes=GIB
            ).read()


def test_resources_and_periods_of_zero_are_refused(server):
    for cpus, memory, period_s in [(0, GIB, 15), (4, 0, 15), (4, GIB, 0), (float("nan"), GIB, 15)]:
        with pytest.raises(InvalidInput, match=r"allocatable|period_s"):
            MetricsServerSource(
                server.fetch, "node-1", allocatable_cpus=cpus, allocatable_bytes=memory, period_s=period_s
            )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("0", 0), ("2", 2), ("1.5", 1.5), ("123456789n", 0.123456789), ("7u", 7e-6), ("250m", 0.25), ("2k", 2000)],
        *[("3M", 3e6), ("1234Ki", 1234 * 1024), ("5Mi", 5 * 2**20), ("1Ei", 2**60), ("1E", 1e18)],
    ],
)
def test_quantities(text, value):
    assert parse_quantity(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "n", "-1", "+1", "1e3", "1 Ki", "1K", "1ki", "1Kib", "٣", "1\n", "nan", "9" * 300]
)
def test_an_invalid_quantity_is_refused(text):
    with pytest.raises(TelemetryMalformed, match="a quantity as in"):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("20.062s", 20.062), ("1m0s", 60), ("1h", 3600)])
def test_windows(text, seconds):
    assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "15", "s", "-15s", "1s1m", "25h", "1ms", "1e1s", "15s\n"])
def test_an_invalid_window_is_refused(text):
    with pytest.raises(TelemetryMalformed, match="a window above 0 s"):
        parse_window(text)
