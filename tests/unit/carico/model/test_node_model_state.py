"""Saving, restoring and resetting the state of a model, and states that it refuses."""

import json
import math

import msgspec
import numpy as np
import pytest

from carico.errors import InvalidInput, InvalidState
from carico.model.node_model import NodeModel
from carico.model.variants import THESIS_LITERAL, THESIS_REBASED

from .node_models import EVERY_FILTER, IDLE, History, run, state_of, values_of, varied, warmed_up


class TestState:
    @EVERY_FILTER
    def test_restored_continues_identically(self, variant):
        before, after = (History(nodes=3, seconds=12, seed=seed) for seed in (1, 2))
        after.changes = np.maximum(after.changes, 0)
        after.start = 12.0
        model = NodeModel(variant, nodes=3)
        for report in before.play(model):
            model.exchanged(report.at_s)
        restored = NodeModel(variant, nodes=3)
        restored.observe(np.full((3, 2), 0.5), at=99.0)  # replaced by the restored state
        restored.restore(model.save())
        assert state_of(restored) == state_of(model)
        for one, other in zip(after.play(model), after.play(restored), strict=True):
            assert values_of(one) == values_of(other)
            if one.at_s == 17.0:
                model.exchanged(one.at_s)
                restored.exchanged(other.at_s)

    def test_after_a_restart_of_the_clock_no_sample_is_late(self):
        model, at = warmed_up()
        restored = NodeModel()
        restored.restore(model.save(), now=0.0)
        expected, _ = run(model, IDLE, at, 3)
        report, _ = run(restored, IDLE, 0.0, 3)
        assert report.pod_capacity == pytest.approx(expected.pod_capacity)

    def test_a_restored_node_without_telemetry_offers_nothing(self):
        model, at = warmed_up()
        restored = NodeModel()
        restored.restore(model.save())
        assert restored.step(at=at + 60.0).pod_capacity == 0

    @EVERY_FILTER
    def test_a_reset_makes_a_node_new_and_leaves_the_others(self, variant):
        before, after = (History(nodes=3, seconds=12, seed=seed) for seed in (1, 2))
        after.changes = np.maximum(after.changes, 0)
        after.start = 12.0
        model, untouched = NodeModel(variant, nodes=3), NodeModel(variant, nodes=3)
        for _ in zip(before.play(model), before.play(untouched), strict=True):
            pass
        model.reset([1])
        fresh = NodeModel(variant, nodes=3)
        plays = [after.play(one) for one in (model, untouched, fresh)]
        for one, other, new in zip(*plays, strict=True):
            assert values_of(one, 0) == values_of(other, 0)
            assert values_of(one, 1) == values_of(new, 1)
            assert values_of(one, 2) == values_of(other, 2)

    def test_only_existing_nodes_can_be_reset(self):
        with pytest.raises(InvalidInput, match=r"nodes must be in \[0, 2\], got \[3\]"):
            NodeModel(nodes=3).reset([3])

    def test_restoring_keeps_what_was_learned(self):
        model, at = warmed_up()
        restored, fresh = NodeModel(), NodeModel()
        restored.restore(model.save())
        expected, _ = run(model, IDLE, at)
        assert run(restored, IDLE, at)[0].pod_capacity == pytest.approx(expected.pod_capacity, rel=0.02)
        assert run(fresh, IDLE, at)[0].pod_capacity < 0.5 * expected.pod_capacity

    def test_survives_json(self):
        model, _ = warmed_up()
        restored = NodeModel()
        restored.restore(json.loads(json.dumps({name: array.tolist() for name, array in model.save().items()})))
        assert state_of(restored) == state_of(model)

    def test_survives_strict_json_without_infinity(self):
        model = NodeModel()
        for tick in range(1, 11):
            model.observe([0.2, 0.3], at=tick / 10)
        model.step(at=1.0)
        lists = {name: array.tolist() for name, array in model.save().items()}
        assert -math.inf in lists["last_event_at"]
        restored = NodeModel()
        restored.restore(msgspec.json.decode(msgspec.json.encode(lists)))
        assert state_of(restored) == state_of(model)

    def test_saved_state_is_a_copy(self):
        model, _ = warmed_up()
        before, saved = state_of(model), model.save()
        restored = NodeModel()
        restored.restore(saved)
        for array in saved.values():
            array[...] = 0.5
        assert state_of(model) == before
        assert state_of(restored) == before

    def test_the_state_of_a_fresh_model_can_be_restored(self):
        model, restored = NodeModel(), NodeModel()
        restored.restore(model.save())
        assert values_of(run(model, IDLE, 0.0)[0]) == values_of(run(restored, IDLE, 0.0)[0])

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda state: state.pop("own_basis"), id="array-missing"),
            pytest.param(lambda state: state.pop("estimator_cost"), id="estimate-missing"),
            pytest.param(lambda state: state.update(own_values=np.zeros((1, 3))), id="other-shape"),
            pytest.param(lambda state: state.update(own_values=[[np.nan, 1.0]]), id="nan"),
            pytest.param(lambda state: state.update(own_values=[[-1.0, -1.0]]), id="negative"),
            pytest.param(lambda state: state.update(global_basis=[[[np.inf, 1.0], [0.0, 1.0]]]), id="inf"),
            pytest.param(lambda state: state.update(own_basis=[[[1e3, 0.0], [0.0, 1.0]]]), id="no-basis"),
            pytest.param(lambda state: state.update(idle_usage=[[7.0, 0.1]]), id="impossible-usage"),
            pytest.param(lambda state: state.update(has_own=[np.nan]), id="neither-true-nor-false"),
            pytest.param(lambda state: state.update(own_basis="everything"), id="word"),
            pytest.param(lambda state: state.update(own_basis=[[[1.0, 0.0], [0.0]]]), id="ragged"),
            pytest.param(lambda state: state.update(estimator_baseline=[np.inf]), id="estimate-infinite"),
            pytest.param(
                lambda state: state.update({name: np.ones(2) for name in state if name.startswith("estimator_")}),
                id="estimates-of-two-nodes",
            ),
        ],
    )
    def test_refuses_a_damaged_state_without_any_change(self, damage):
        model, _ = warmed_up()
        before, state = state_of(model), model.save()
        damage(state)
        with pytest.raises(InvalidState):
            model.restore(state)
        assert state_of(model) == before

    @pytest.mark.parametrize(
        "other",
        [
            {"nodes": 2},
            {"resources": ("cpu", "memory", "disk")},
            {"variant": varied(estimator="joint")},
            {"variant": varied(estimator="delta")},
            {"variant": varied(rank=1)},
        ],
        ids=["nodes", "resources", "joint", "delta", "rank"],
    )
    def test_refuses_the_state_of_another_model(self, other):
        with pytest.raises(InvalidState):
            NodeModel().restore(NodeModel(**other).save())


def test_a_state_in_another_unit_is_refused():
    state = NodeModel(THESIS_LITERAL).save()
    with pytest.raises(InvalidState, match="another unit"):
        NodeModel(THESIS_REBASED).restore(state)
