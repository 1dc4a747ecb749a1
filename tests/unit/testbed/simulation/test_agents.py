"""Agents feed CARICO's own classes from counters, and survive lost samples and reports."""

import numpy as np
import pytest

from carico.model.node_model import NodeModel
from carico.model.variants import DEFAULT_VARIANT
from carico.telemetry.counters import telemetry_between, usage_vector
from testbed.measurement.completion_times import pod_completion_times
from testbed.schedulers.spec import parse_spec
from testbed.simulation.agents import AgentFleet
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters
from workloads.scenario import load_scenario

NAMES = [f"node-{index}" for index in range(5)]


class Agents:
    """Agents on nodes whose pods come and go, and what they reported."""

    def __init__(self, make_nodes, seed=0, **parameters):
        self.nodes = make_nodes(nodes=len(NAMES), background_cores=0.2, background_memory=0.14, **parameters)
        self.reports = []
        self.agents = AgentFleet(
            NAMES,
            DEFAULT_VARIANT,
            self.nodes.parameters,
            rng=np.random.default_rng(seed),
            first=self.nodes.fleet.counters(),
            on_report=lambda node, capacity, _: self.reports.append((round(self.nodes.fleet.now, 6), node, capacity)),
        )

    def run(self, seconds, pods_per_s=0.0):
        for tick in range(round(10 * seconds)):
            if pods_per_s and tick % round(10 / pods_per_s) == 0:
                node = len(self.nodes.tasks) % len(NAMES)
                self.agents.pod_event(node, str(tick), "pi", +1, self.nodes.fleet.now)
                self.nodes.start((node, tick), work=3.0, node=node)
            before = set(self.nodes.ended)
            self.nodes.advance(0.1)
            for node, started in set(self.nodes.ended) - before:
                self.agents.pod_event(node, str(started), "pi", -1, self.nodes.fleet.now)
            self.agents.sample(self.nodes.fleet.counters())


class TestReports:
    def test_every_node_reports_once_a_second_at_a_phase_of_its_own(self, make_nodes):
        agents = Agents(make_nodes)
        agents.run(20)
        for node in range(len(NAMES)):
            times = [at for at, who, _ in agents.reports if who == node]
            assert len(times) == 20
            assert np.diff(times) == pytest.approx([1.0] * 19)
        assert len({round(at % 1, 1) for at, *_ in agents.reports}) > 1

    def test_an_idle_node_has_room(self, make_nodes):
        agents = Agents(make_nodes)
        agents.run(20)
        last = {node: capacity for _, node, capacity in agents.reports}
        assert all(1 < capacity <= 110 for capacity in last.values())
        assert agents.agents.latest["pod_capacity"].tolist() == [last[node] for node in range(len(NAMES))]

    def test_are_those_of_the_production_classes(self, make_nodes):
        # The same samples, fed by hand to a model of one node, give the same reports.
        agents = Agents(make_nodes)
        model, views = NodeModel(DEFAULT_VARIANT), []
        phase = next(phase for phase, who in enumerate(agents.agents._stepping) if 0 in who)
        answer = agents.agents._aggregator.exchange

        def exchange(node, subspace):
            view = answer(node, subspace)
            if node == "node-0":
                views.append(view)
            return view

        agents.agents._aggregator.exchange = exchange
        before, expected = agents.nodes.fleet.counters(), []
        for tick in range(150):
            agents.run(0.1)
            now = agents.nodes.fleet.counters()
            usage = usage_vector(telemetry_between(before, now), DEFAULT_VARIANT.cpu_metric)[0]
            model.observe(usage, at=agents.nodes.fleet.now)
            before = now
            if tick % DEFAULT_VARIANT.batch_size == phase:
                report = model.step(agents.nodes.fleet.now)
                expected.append(float(report.pod_capacity))
                if report.exchange_due:
                    model.adopt(views.pop(0))
                    model.exchanged(agents.nodes.fleet.now)
        assert [capacity for _, node, capacity in agents.reports if node == 0] == pytest.approx(expected)

    def test_nodes_exchange_what_they_learned(self, make_nodes):
        agents, told = Agents(make_nodes), []
        answer = agents.agents._aggregator.exchange
        agents.agents._aggregator.exchange = lambda node, subspace: (told.append(node), answer(node, subspace))[1]
        agents.run(3)
        first = len(told)
        assert set(told) == set(NAMES), "every node has told what it knows"
        agents.run(20, pods_per_s=2)
        assert len(told) > first
        assert agents.agents._aggregator.nodes == len(NAMES)


class TestLoss:
    @pytest.mark.parametrize(("loss", "late"), [(0.5, 0.0), (0.5, 0.5)])
    def test_models_stay_finite(self, make_nodes, loss, late):
        agents = Agents(make_nodes, sample_loss=loss, sample_late=late)
        agents.run(5)
        agents.run(20, pods_per_s=2.5)
        assert len(agents.reports) == 25 * len(NAMES)
        assert all(0 <= capacity <= 110 for *_, capacity in agents.reports)
        for name in ("capacity_signal", "baseline", "pod_cost"):
            assert np.isfinite(agents.agents.latest[name]).all(), name

    def test_lost_and_late_samples_are_as_many_as_asked_for(self, make_nodes):
        agents = Agents(make_nodes, sample_loss=0.2, sample_late=0.3)
        received = []
        observe = agents.agents._model.observe

        def count(usage, at, arrived):
            received.append((at < agents.nodes.fleet.now, int(np.sum(arrived))))
            observe(usage, at, arrived)

        agents.agents._model.observe = count
        agents.run(25)
        samples = 250 * len(NAMES)
        in_time = sum(number for overdue, number in received if not overdue)
        overdue = sum(number for overdue, number in received if overdue)
        assert in_time / samples == pytest.approx(0.8 * 0.7, abs=0.04)
        assert overdue / samples == pytest.approx(0.8 * 0.3, abs=0.04)

    def test_nothing_received_is_no_room(self, make_nodes):
        agents = Agents(make_nodes, sample_loss=1.0)
        agents.run(5)
        assert {capacity for *_, capacity in agents.reports} == {0.0}

    def test_without_loss_no_randomness_is_used(self, make_nodes):
        agents = Agents(make_nodes)
        before = agents.agents._rng.bit_generator.state
        agents.run(2)
        assert agents.agents._rng.bit_generator.state == before


SMALL = load_scenario("pi-2000").scaled(pods=24, nodes=2)


def completion_s(scheduler="carico", **parameters):
    """Mean pod completion time and job completion time of a small job under CARICO."""
    cluster = SimulatedCluster(SMALL, parse_spec(scheduler), 11, SimulationParameters(warm_up_s=3, **parameters))
    repetition = cluster.run()
    assert repetition.job_completion_time_s["pi-2000"] is not None
    return float(np.mean(pod_completion_times(repetition.pods))), repetition.job_completion_time_s["pi-2000"]


@pytest.fixture(scope="module")
def undisturbed():
    return completion_s()


@pytest.mark.parametrize("settings", [{"sample_loss": 0.5}, {"sample_late": 0.5}], ids=str)
def test_a_job_completes_about_as_well_with_samples_missing(settings, undisturbed):
    assert completion_s(**settings) == pytest.approx(undisturbed, rel=0.5)


def test_reservations_that_last_until_pods_are_counted_bridge_lost_reports(undisturbed):
    thesis, until_counted = (
        completion_s(f"carico:until_counted={rule}", report_loss=0.6) for rule in ("false", "true")
    )
    assert until_counted != thesis
    assert until_counted == pytest.approx(undisturbed, rel=0.5)
