"""When a node exchanges its subspace with the aggregator, and how it uses the answer."""

import numpy as np
import pytest

from carico.errors import InvalidInput
from carico.model.aggregator import Aggregator
from carico.model.capacity import capacity_signal
from carico.model.node_model import NodeModel
from carico.model.subspace import Subspace

from .node_models import EVERY_VARIANT, IDLE, run, state_of, values_of, varied


class TestExchange:
    BUSY = Subspace.from_batch(np.tile([[0.9], [0.3]], 10))

    def test_is_due_at_first_and_again_when_the_workload_has_moved(self):
        model, at = NodeModel(varied(exchange_age_s=np.inf)), 0.0
        report, at = run(model, IDLE, at)
        assert report.exchange_due
        report, at = run(model, IDLE, at)
        assert report.exchange_due, "an exchange stays due until it has happened"
        model.exchanged(report.at_s)
        report, at = run(model, IDLE, at, 20)
        assert not report.exchange_due
        report, at = run(model, (0.06, 0.20), at)
        assert not report.exchange_due, "a small move"
        report, at = run(model, (0.6, 0.3), at, 3)
        assert report.exchange_due

    def test_is_due_again_when_the_last_one_is_old(self):
        """A node in steady state has nothing new to send, but its peers may have."""
        model, at = NodeModel(varied(exchange_age_s=3.0)), 0.0
        report, at = run(model, IDLE, at)
        for _ in range(2):
            model.exchanged(report.at_s)
            due = []
            for _ in range(4):
                report, at = run(model, IDLE, at)
                due.append(bool(report.exchange_due))
            assert due == [False, False, True, True]

    def test_is_due_for_each_node_separately(self):
        model, at = NodeModel(nodes=3), 0.0
        report, at = run(model, [IDLE] * 3, at)
        model.exchanged(report.at_s, [0, 2])
        report, at = run(model, [IDLE] * 3, at)
        assert report.exchange_due.tolist() == [False, True, False]

    def test_the_global_view_enters_the_signal_with_its_weight(self):
        model = NodeModel()
        report, _ = run(model, IDLE, 0.0, view=self.BUSY)
        both = Subspace.merge(report.subspace, self.BUSY, 0.5, 0.5)
        assert report.capacity_signal == pytest.approx(capacity_signal(report.usage, both.workload))

    def test_the_global_view_does_not_change_the_own_subspace(self):
        with_view, without = NodeModel(), NodeModel()
        one, _ = run(with_view, IDLE, 0.0, 5, view=self.BUSY)
        other, _ = run(without, IDLE, 0.0, 5)
        assert np.array_equal(one.subspace.basis, other.subspace.basis)
        assert np.array_equal(one.subspace.singular_values, other.subspace.singular_values)
        assert one.capacity_signal < other.capacity_signal

    def test_the_last_view_stays_in_force(self):
        given_once, given_always, at = NodeModel(), NodeModel(), 0.0
        given_once.adopt(self.BUSY)
        one, _ = run(given_once, IDLE, 0.0, 5)
        for _ in range(5):
            other, at = run(given_always, IDLE, at, view=self.BUSY)
        assert values_of(one) == values_of(other)

    def test_every_node_may_get_a_different_view(self):
        views = Subspace.from_batch(np.random.default_rng(1).random((2, 2, 10)))
        together, apart = NodeModel(nodes=3), NodeModel(nodes=3)
        together.adopt(views, [2, 0])
        for position, node in enumerate([2, 0]):
            apart.adopt(Subspace(views.basis[position], views.singular_values[position]), [node])
        one, _ = run(together, [IDLE] * 3, 0.0)
        other, _ = run(apart, [IDLE] * 3, 0.0)
        assert values_of(one) == values_of(other)
        assert len(set(one.capacity_signal.tolist())) == 3

    def test_a_view_of_lower_rank_is_accepted(self):
        low = Subspace.from_batch(np.tile([[0.9], [0.3]], 10), rank=1)
        one, _ = run(NodeModel(), IDLE, 0.0, view=low)
        other, _ = run(NodeModel(), IDLE, 0.0, view=self.BUSY)
        assert one.pod_capacity == pytest.approx(other.pod_capacity)
        assert one.capacity_signal == pytest.approx(other.capacity_signal)

    def test_a_new_view_replaces_the_last_one_completely(self):
        fresh, used = NodeModel(nodes=2), NodeModel(nodes=2)
        used.adopt(Subspace.from_batch(np.random.default_rng(2).random((2, 10))))
        for model in (fresh, used):
            model.adopt(Subspace.from_batch([[0.9], [0.3]], rank=1))
        assert state_of(fresh) == state_of(used)

    def test_a_view_reaches_a_node_before_its_own_telemetry(self):
        model = NodeModel()
        model.adopt(self.BUSY)
        report = model.step(at=1.0)
        assert report.capacity_signal == pytest.approx(capacity_signal([0, 0], self.BUSY.workload))
        assert report.pod_capacity == 0

    @pytest.mark.parametrize(
        "wrong",
        [Subspace.from_batch(np.ones((3, 4))), Subspace.from_batch(np.ones((5, 2, 4)))],
        ids=["resources", "nodes"],
    )
    def test_refuses_a_view_that_does_not_fit_without_any_change(self, wrong):
        model = NodeModel(nodes=2)
        run(model, [IDLE] * 2, 0.0, view=self.BUSY)
        before = state_of(model)
        with pytest.raises(InvalidInput):
            model.adopt(wrong)
        assert state_of(model) == before


@EVERY_VARIANT
@pytest.mark.parametrize("telemetry", ["full", "full with holes", "full and idle in turn"])
def test_whatever_telemetry_a_node_has_seen_aggregators_take_its_subspace(variant, telemetry):
    """Forgetting keeps the energy of one batch, so that a long history has no more."""
    model, aggregator = NodeModel(variant), Aggregator(2)
    for tick in range(5000):
        usage = [0.0, 0.0] if telemetry == "full and idle in turn" and tick // 300 % 2 else [1.0, 1.0]
        model.observe(usage, at=tick / 10, received=telemetry != "full with holes" or tick % 10 < 3)
        if tick % variant.batch_size == variant.batch_size - 1:
            own = model.step(at=tick / 10).subspace
            model.adopt(aggregator.exchange("a", own))
            aggregator.merge(aggregator.take_waiting())
    energies = [np.square(view.singular_values).sum() for view in (own, aggregator.view)]
    if telemetry != "full and idle in turn":
        np.testing.assert_allclose(energies, 20.0, rtol=1e-5)  # as much as there can be
