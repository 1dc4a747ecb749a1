import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.errors import InvalidInput
from carico.scheduling.decision import NodeVerdict
from carico.scheduling.plugin import CaricoPlugin

capacities = st.floats(0, 110)
clusters = st.dictionaries(st.sampled_from([f"node-{i}" for i in range(6)]), capacities, min_size=1)


def plugin_with(reports):
    plugin = CaricoPlugin()
    for node, capacity in reports.items():
        plugin.report(node, capacity)
    return plugin


class TestFilter:
    @pytest.mark.parametrize(
        ("capacity", "reserved", "feasible"),
        [
            (0.0, 0, False),
            (0.999999, 0, False),
            (1.0, 0, True),
            (1.5, 0, True),
            (2.0, 1, True),
            (1.999999, 1, False),
            (2.0, 2, False),
            (2.0, 5, False),
            (110.0, 109, True),
            (110.0, 110, False),
        ],
    )
    def test_a_node_with_less_than_one_pod_left_is_out(self, capacity, reserved, feasible):
        plugin = plugin_with({"node": capacity})
        for i in range(reserved):
            plugin.reserve(f"pod-{i}", "node")
        decision = plugin.filter(["node"])
        assert (decision.best == "node") is feasible
        assert decision.verdicts[0].feasible is feasible
        assert ("node" not in decision.refused) is feasible

    def test_a_node_that_never_reported_is_out(self):
        decision = CaricoPlugin().filter(["node"])
        assert decision.best is None
        assert decision.refused == {"node": "no capacity reported yet"}

    def test_no_candidate_is_no_decision(self):
        decision = plugin_with({"node": 5}).filter([])
        assert (decision.best, decision.verdicts, decision.refused) == (None, (), {})

    def test_judges_the_candidates_and_nobody_else(self):
        decision = plugin_with({"a": 9, "b": 3, "c": 0}).filter(["c", "b"])
        assert [verdict.node for verdict in decision.verdicts] == ["c", "b"]
        assert decision.best == "b"

    def test_says_why_with_the_numbers_it_decided_on(self):
        plugin = plugin_with({"node": 2.25})
        plugin.reserve("pod-a", "node")
        plugin.reserve("pod-b", "node")
        decision = plugin.filter(["node"])
        assert decision.refused == {"node": "capacity 2.25 - 2 reserved = 0.25 pods, needs 1"}
        assert decision.verdicts == (NodeVerdict("node", 2.25, 2),)

    def test_nearly_enough_does_not_read_as_enough(self):
        decision = plugin_with({"node": 0.999999}).filter(["node"])
        assert decision.refused == {"node": "capacity 0.99 - 0 reserved = 0.99 pods, needs 1"}

    def test_a_feasible_node_needs_no_reason(self):
        assert plugin_with({"node": 1}).filter(["node"]).verdicts[0].reason == ""

    def test_a_decision_stays_what_it_was(self):
        plugin = plugin_with({"node": 3})
        decision = plugin.filter(["node"])
        plugin.reserve("pod", "node")
        plugin.report("node", 0)
        assert decision.verdicts == (NodeVerdict("node", 3.0, 0),)
        assert decision.best == "node"

    @given(clusters)
    def test_changes_nothing(self, reports):
        plugin = plugin_with(reports)
        assert plugin.filter(sorted(reports)) == plugin.filter(sorted(reports))
        assert len(plugin.ledger) == 0


class TestScore:
    @given(clusters, st.lists(st.sampled_from([f"node-{i}" for i in range(6)])))
    def test_is_what_is_available(self, reports, reservations):
        plugin = plugin_with(reports)
        for i, node in enumerate(reservations):
            plugin.reserve(f"pod-{i}", node)
        for node, capacity in reports.items():
            assert plugin.score(node) == capacity - reservations.count(node)

    @given(clusters)
    def test_the_best_node_is_the_feasible_one_of_highest_score(self, reports):
        plugin = plugin_with(reports)
        nodes = sorted(reports)
        best = plugin.filter(nodes).best
        fitting = [node for node in nodes if reports[node] >= 1]
        assert best == (max(fitting, key=plugin.score) if fitting else None)

    def test_the_first_of_equals_wins(self):
        plugin = plugin_with({"a": 2, "b": 2, "c": 1})
        assert plugin.filter(["c", "b", "a"]).best == "b"

    def test_an_unknown_node_comes_last(self):
        assert CaricoPlugin().score("node") == -math.inf


class TestReserve:
    @given(clusters, st.integers(0, 60))
    def test_no_node_is_ever_given_more_pods_than_it_has_room_for(self, reports, pods):
        plugin = plugin_with(reports)
        placed = dict.fromkeys(reports, 0)
        room = {node: math.floor(capacity) for node, capacity in reports.items()}
        for i in range(pods):
            best = plugin.filter(list(reports)).best
            if best is None:
                break
            plugin.reserve(f"pod-{i}", best)
            placed[best] += 1
        assert all(placed[node] <= room[node] for node in reports)
        assert sum(placed.values()) == min(pods, sum(room.values())), "and none that fits is turned away"

    def test_a_released_pod_makes_room_again(self):
        plugin = plugin_with({"node": 1})
        plugin.reserve("pod-a", "node")
        assert plugin.filter(["node"]).best is None
        plugin.release("pod-a")
        assert plugin.filter(["node"]).best == "node"

    def test_the_same_pod_counts_once(self):
        plugin = plugin_with({"node": 3})
        for _ in range(3):
            plugin.reserve("pod-a", "node")
        assert plugin.score("node") == 2

    def test_releasing_what_was_never_reserved_changes_nothing(self):
        plugin = plugin_with({"node": 3})
        plugin.release("pod-a")
        assert plugin.score("node") == 3


class TestReport:
    def test_the_latest_counts(self):
        plugin = plugin_with({"node": 5})
        plugin.report("node", 2)
        assert plugin.score("node") == 2

    @pytest.mark.parametrize("capacity", [math.nan, math.inf, -math.inf, -0.001])
    def test_a_wrong_one_is_refused_and_the_last_valid_one_stays(self, capacity):
        plugin = plugin_with({"node": 5})
        with pytest.raises(InvalidInput, match=r"^node: pod_capacity must be finite"):
            plugin.report("node", capacity)
        assert plugin.score("node") == 5

    def test_takes_numpy_numbers_and_keeps_plain_ones(self):
        plugin = plugin_with({"a": np.float64(1.5), "b": np.int64(2)})
        assert [type(verdict.pod_capacity) for verdict in plugin.filter(["a", "b"]).verdicts] == [float, float]

    def test_a_node_that_left_is_forgotten_but_its_reservations_are_not(self):
        plugin = plugin_with({"node": 5})
        plugin.reserve("pod-a", "node")
        plugin.forget("node")
        plugin.forget("node")
        assert plugin.filter(["node"]).best is None
        plugin.report("node", 5)
        assert plugin.score("node") == 4


class TestAge:
    def plugin(self):
        plugin = CaricoPlugin(stale_after_s=5)
        plugin.report("old", 9, at=100)
        plugin.report("new", 3, at=110)
        return plugin

    def test_a_node_that_has_not_reported_for_long_is_out(self):
        decision = self.plugin().filter(["old", "new"], now=112)
        assert decision.best == "new"
        assert decision.refused == {"old": "last report 12 s ago"}
        assert [verdict.age_s for verdict in decision.verdicts] == [12, 2]

    @pytest.mark.parametrize(("now", "best"), [(105, "old"), (105.001, None)])
    def test_a_report_is_believed_up_to_the_limit(self, now, best):
        assert self.plugin().filter(["old"], now).best == best

    def test_a_new_report_brings_it_back(self):
        plugin = self.plugin()
        plugin.report("old", 9, at=112)
        assert plugin.filter(["old", "new"], now=112).best == "old"

    def test_without_a_limit_no_report_is_too_old(self):
        plugin = plugin_with({"node": 1})
        assert plugin.filter(["node"], now=1e9).best == "node"


class TestManyNodes:
    @given(st.lists(st.tuples(st.sampled_from("rfc"), st.integers(0, 30), st.integers(0, 9)), max_size=60))
    def test_nodes_may_come_and_go_in_any_number(self, changes):
        """Rows are reused; what a node reported is never another's."""
        plugin, reports, flying = CaricoPlugin(), {}, {}
        for change, node, amount in changes:
            if change == "r":
                plugin.report(f"node-{node}", amount)
                reports[node] = amount
            elif change == "f":
                plugin.forget(f"node-{node}")
                reports.pop(node, None)
            else:
                plugin.reserve(f"pod-{amount}", f"node-{node}")
                flying[amount] = node
        assert len(plugin) == len(reports)
        for node, verdict in enumerate(plugin.filter([f"node-{node}" for node in range(31)]).verdicts):
            assert verdict.pod_capacity == reports.get(node)
            assert verdict.reserved == list(flying.values()).count(node)

    def test_a_verdict_can_be_had_alone(self):
        plugin = plugin_with({"a": 2, "b": 0.5})
        decision = plugin.filter(["b", "c", "a"])
        assert tuple(decision.verdict(index) for index in range(3)) == decision.verdicts
        assert decision.available.tolist() == [0.5, -math.inf, 2]

    @given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 4), st.integers(0, 12)), max_size=40))
    def test_reasons_are_the_verdicts_own(self, nodes):
        plugin = CaricoPlugin(stale_after_s=5)
        for index, (capacity, reserved, age) in enumerate(nodes):
            if age % 4:
                plugin.report(f"node-{index}", capacity, at=12 - age)
            for pod in range(reserved):
                plugin.reserve(f"pod-{index}-{pod}", f"node-{index}")
        decision = plugin.filter([f"node-{index}" for index in range(len(nodes))], now=12)
        assert list(decision.refused.items()) == [(v.node, v.reason) for v in decision.verdicts if not v.feasible]
        for verdict in decision.verdicts:
            assert plugin.score(verdict.node, now=12) == verdict.available

    @given(st.lists(st.sampled_from([None, 0.5, 1.0, 2.0, 3.0]), max_size=30), st.integers(1, 30))
    def test_the_best_are_those_that_sorting_finds(self, capacities, limit):
        plugin = CaricoPlugin()
        for index, capacity in enumerate(capacities):
            if capacity is not None:
                plugin.report(f"node-{index}", capacity)
        decision = plugin.filter([f"node-{index}" for index in range(len(capacities))])
        best = sorted(decision.verdicts, key=lambda verdict: -verdict.available)[:limit]
        assert decision.among_best(limit).verdicts == tuple(v for v in decision.verdicts if v in best)
        assert decision.among_best(limit).best == decision.best

    def test_candidates_are_counted_by_what_they_were_found_to_be(self):
        plugin = CaricoPlugin(stale_after_s=5)
        for node, capacity, at in (("a", 3, 10), ("b", 0.5, 10), ("c", 3, 0), ("d", 1, 10)):
            plugin.report(node, capacity, at)
        assert plugin.filter(["a", "b", "c", "d", "e"], now=10).count_verdicts() == {
            "has room": 2,
            "capacity too small": 1,
            "last report too old": 1,
            "no capacity reported yet": 1,
        }
