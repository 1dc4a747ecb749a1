"""What agents get to see: late samples, and the metrics server's means."""

import numpy as np
import pytest

from testbed.errors import UsageError
from testbed.measurement.completion_times import pod_completion_times
from testbed.schedulers.spec import parse_spec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters
from testbed.simulation.provider import SimulatedProvider
from testbed.simulation.telemetry import SimulatedTelemetry
from workloads.scenario import load_scenario


@pytest.fixture
def watch(make_nodes):
    """Watch a node on which a pod computes from 20 s to 30 s; returns (time seen, time of the sample, utilisation)."""

    def run(seconds=60, **parameters):
        nodes = make_nodes(**parameters)
        source = SimulatedTelemetry(nodes.fleet.counters(), nodes.parameters, np.random.default_rng(1))
        seen = []
        for tick in range(1, 10 * seconds + 1):
            if tick == 201:
                nodes.start("pod", work=40.0, threads=4.0)
            nodes.advance(0.1)
            arrived = source.read(nodes.fleet.counters())
            assert all(received.all() for _, received in arrived)
            seen += [(nodes.fleet.now, float(one.at_s), float(one.cpu_utilisation[0])) for one, _ in arrived]
            assert float(source.now.at_s) == nodes.fleet.now
        return np.array(seen)

    return run


def test_by_default_every_sample_arrives_at_once(watch):
    seen = watch()
    assert len(seen) == 600
    assert (seen[:, 0] == seen[:, 1]).all()
    assert seen[seen[:, 2] > 0.5, 0] == pytest.approx(np.arange(20.1, 30.05, 0.1))


def test_late_samples_arrive_in_order_and_none_is_lost(watch):
    seen = watch(telemetry_delay_s=3.0)
    assert seen[:, 0] - seen[:, 1] == pytest.approx(np.full(len(seen), 3.0))
    assert len(seen) == 570
    assert seen[seen[:, 2] > 0.5, 0] == pytest.approx(np.arange(23.1, 33.05, 0.1))


def test_the_metrics_server_shows_the_mean_since_its_last_scrape_once(watch):
    seen = watch(seconds=75, telemetry="metrics-server")
    asked = seen[:, 0]
    assert 15 <= asked[0] < 30, "nothing is known before the first scrape"
    assert np.diff(asked) == pytest.approx(np.full(len(asked) - 1, 15.0)), "at a phase of the agent's own"
    assert (seen[:, 1] == asked).all(), "dated by when it was got"
    assert seen[:4, 2] == pytest.approx([0.0, 10 / 15, 0.0, 0.0], abs=0.01)


def test_agents_ask_the_metrics_server_at_phases_of_their_own(make_nodes):
    nodes = make_nodes(telemetry="metrics-server", nodes=20)
    source = SimulatedTelemetry(nodes.fleet.counters(), nodes.parameters, np.random.default_rng(1))
    received = []
    for _ in range(300):
        nodes.advance(0.1)
        received += [arrival.received for arrival in source.read(nodes.fleet.counters())]
    assert (sum(received) == 1).all()
    assert len(received) > 10


def test_a_restarted_nodes_agent_asks_at_once_and_compares_the_next_answer_to_that(make_nodes):
    nodes = make_nodes(telemetry="metrics-server", metrics_period_s=1.0)
    source = SimulatedTelemetry(nodes.fleet.counters(), nodes.parameters, np.random.default_rng(1))
    seen = []
    for tick in range(1, 51):
        nodes.advance(0.1)
        seen += [tick for _ in source.read(nodes.fleet.counters())]
        if tick == 33:
            assert source.restart(0) == pytest.approx(nodes.fleet.now)
    assert [tick for tick in seen if tick > 33] == [43]


def test_the_metrics_server_knows_no_pressure(make_nodes):
    nodes = make_nodes(telemetry="metrics-server", metrics_period_s=1.0)
    source = SimulatedTelemetry(nodes.fleet.counters(), nodes.parameters, np.random.default_rng(1))
    for name in range(8):
        nodes.start(name, work=100.0)
    samples = []
    for _ in range(30):
        nodes.advance(0.1)
        samples += source.read(nodes.fleet.counters())
    assert source.now.cpu_pressure[0] == pytest.approx(1.0)
    assert {float(sample.cpu_pressure[0]) for sample, _ in samples} == {0.0}


class TestInACluster:
    def test_what_learns_from_pressure_is_refused_without_it(self):
        scenario = load_scenario("pi-2000").scaled(pods=10, nodes=1)
        settings = {"telemetry": "metrics-server"}
        with pytest.raises(UsageError, match="provides no pressure, which the variant thesis-rebased learns from"):
            SimulatedProvider().check(scenario, parse_spec("carico"), settings)
        SimulatedProvider().check(scenario, parse_spec("kube-scheduler"), settings)
        SimulatedProvider().check(scenario, parse_spec("carico:variant=utilisation-only"), settings)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"telemetry": "metrics-server"},
            {"telemetry_delay_s": 2.0, "report_delay_s": 2.0},
            {"report_loss": 0.5, "sample_loss": 0.3},
        ],
        ids=str,
    )
    def test_a_job_completes_on_old_and_missing_news(self, parameters):
        scenario = load_scenario("pi-2000").scaled(pods=6, nodes=1)
        spec = parse_spec("carico:variant=utilisation-only")
        repetition = SimulatedCluster(scenario, spec, 1, SimulationParameters(**parameters)).run()
        assert len(pod_completion_times(repetition.pods)) == 6

    def test_reports_that_are_late_let_a_node_be_filled_beyond_its_room(self):
        scenario = load_scenario("pi-2000").scaled(pods=18, nodes=1)
        most = []
        for delay_s in (0.0, 8.0):
            parameters = SimulationParameters(report_delay_s=delay_s)
            repetition = SimulatedCluster(scenario, parse_spec("carico"), 1, parameters).run()
            most.append(max(max(node.running_pods) for node in repetition.nodes))
        assert most[1] > most[0] + 2
