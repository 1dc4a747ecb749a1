"""A model of many nodes gives each node the result of a model of its own."""

import numpy as np
import pytest

from carico.errors import InvalidInput
from carico.model.node_model import NodeModel
from carico.model.subspace import Subspace

from .node_models import EVERY_FILTER, IDLE, History, run, state_of, values_of, varied


class TestManyNodes:
    @EVERY_FILTER
    def test_a_node_among_many_equals_the_node_alone(self, variant):
        history = History(nodes=3, seconds=20)
        together = list(history.play(NodeModel(variant, nodes=3)))
        for node in range(3):
            alone = history.play(NodeModel(variant), node)
            for of_many, of_one in zip(together, alone, strict=True):
                assert values_of(of_many, node) == values_of(of_one)

    @pytest.mark.parametrize("resources", [("cpu",), ("cpu", "memory", "disk"), tuple("abcdef")])
    def test_any_number_of_resources_may_be_observed(self, resources):
        history = History(nodes=2, seconds=10, resources=len(resources))
        together = list(history.play(NodeModel(nodes=2, resources=resources)))
        for node in range(2):
            for of_many, of_one in zip(together, history.play(NodeModel(resources=resources), node), strict=True):
                assert values_of(of_many, node) == values_of(of_one)
        assert np.isfinite(together[-1].pod_capacity).all()

    @pytest.mark.parametrize("rank", [1, 2, 9])
    def test_any_rank_may_be_kept(self, rank):
        history = History(nodes=3, seconds=15, resources=4)
        for report in history.play(NodeModel(varied(rank=rank), nodes=3, resources=tuple("abcd"))):
            assert report.subspace.basis.shape == (3, 4, min(rank, 4))
        assert np.isfinite(report.pod_capacity).all()

    def test_stepping_in_groups_equals_stepping_all_together(self):
        history = History(nodes=5, seconds=20)
        whole = history.play(NodeModel(nodes=5))
        parts = NodeModel(nodes=5)
        for report, first in zip(whole, history.play(parts, stepping=[3, 0]), strict=True):
            others = np.array([1, 4, 2])
            if (int(report.at_s) - 1) % 3 == 0:
                parts.adopt(history.views[int(report.at_s) - 1], others)
            second = parts.step(report.at_s, nodes=others)
            for group, found in (([3, 0], first), ([1, 4, 2], second)):
                for position, node in enumerate(group):
                    assert values_of(found, position) == values_of(report, node)

    def test_nodes_that_do_not_step_do_not_change(self):
        history = History(nodes=3, seconds=10)
        model = NodeModel(nodes=3)
        for _ in history.play(model, stepping=[1]):
            pass
        untouched_model = NodeModel(nodes=3)
        seen = ("pods", "smoothed", "deviating", "batch", "batched", "last_sample_at", "last_event_at")
        for name, array in model.save().items():
            if name in seen:  # all nodes observe
                continue
            untouched = untouched_model.save()[name]
            assert np.array_equal(array[[0, 2]], untouched[[0, 2]], equal_nan=True), name

    def test_a_step_of_no_nodes_gives_an_empty_report(self):
        model = NodeModel(nodes=3)
        before = state_of(model)
        assert model.step(at=1.0, nodes=[]).pod_capacity.shape == (0,)
        assert state_of(model) == before

    @pytest.mark.parametrize("nodes", [[3], [-1], [0, 7], [0.0], [True, False, True], [[0], [1]], "ab"])
    def test_refuses_nodes_that_do_not_exist_without_any_change(self, nodes):
        model = NodeModel(nodes=3)
        _, at = run(model, [IDLE] * 3, 0.0)
        before = state_of(model)
        view = Subspace.from_batch([[0.5], [0.5]])
        for call in (
            lambda: model.step(at, nodes=nodes),
            lambda: model.adopt(view, nodes),
            lambda: model.exchanged(at, nodes),
        ):
            with pytest.raises(InvalidInput, match="nodes must be"):
                call()
        assert state_of(model) == before

    def test_reports_of_one_node_are_scalars(self):
        report, _ = run(NodeModel(), IDLE, 0.0)
        assert np.shape(report.pod_capacity) == np.shape(report.pods) == np.shape(report.exchange_due) == ()
        assert report.usage.shape == (2,)
        assert report.subspace.basis.shape == (2, 2)

    def test_callers_may_change_a_report(self):
        model, at = NodeModel(nodes=2), 0.0
        twin = NodeModel(nodes=2)
        report, _ = run(model, [IDLE] * 2, at)
        run(twin, [IDLE] * 2, at)
        for name in ("usage", "capacity_signal", "baseline", "pod_cost", "pods", "pod_capacity"):
            getattr(report, name)[...] = 9
        report.subspace.basis[...] = 9
        report.subspace.singular_values[...] = 9
        assert values_of(run(model, [IDLE] * 2, 1.0)[0]) == values_of(run(twin, [IDLE] * 2, 1.0)[0])

    @pytest.mark.parametrize(
        "arguments", [{"nodes": 0}, {"nodes": -1}, {"max_pods": 0}, {"resources": ()}, {"nodes": 2, "pods": [1, 2, 3]}]
    )
    def test_refuses_invalid_constructor_arguments(self, arguments):
        with pytest.raises(InvalidInput):
            NodeModel(**arguments)

    def test_refuses_an_invalid_time(self):
        model = NodeModel()
        run(model, IDLE, 0.0)
        before = state_of(model)
        with pytest.raises(InvalidInput, match="at must be finite"):
            model.step(at=np.nan)
        assert state_of(model) == before
