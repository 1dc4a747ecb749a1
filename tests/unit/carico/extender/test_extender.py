"""What kube-scheduler is answered, and when a reservation ends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.errors import CaricoError, InvalidInput, InvalidRequest, NotReady
from carico.extender.api import read_args, write_result
from carico.extender.unseen import UNSEEN_S
from carico.scheduling.scheduler import REPEATED_S
from carico.scheduling.uncounted import OVERDUE_S, UNCOUNTED_S

from .conftest import Harness, request

NODES = ["a", "b", "c"]


class TestFilter:
    def test_names_the_one_node_with_most_room_and_reserves_on_it(self, harness):
        harness.report(a=2, b=3.5, c=0.5)
        assert harness.ask("u1", NODES) == {"NodeNames": ["b"]}
        assert harness.reserved("b") == 1

    def test_says_why_no_node_is_left_in_a_way_that_evicts_nobody(self, harness):
        harness.report(a=0.5)
        assert harness.ask("u1", ["a", "b"]) == {
            "NodeNames": [],
            "FailedAndUnresolvableNodes": {
                "a": "capacity 0.50 - 0 reserved = 0.50 pods, needs 1",
                "b": "no capacity reported yet",
            },
        }

    def test_what_is_reserved_is_not_given_twice(self, harness):
        harness.report(a=2)
        assert [harness.choice(f"u{i}", ["a"]) for i in range(3)] == ["a", "a", None]

    def test_a_pod_that_is_asked_for_again_does_not_stand_in_its_own_way(self, harness):
        harness.report(a=1)
        assert [harness.choice("u1", ["a"]) for _ in range(3)] == ["a"] * 3
        assert harness.reserved("a") == 1

    def test_the_latest_call_wins(self, harness):
        harness.report(a=5, b=1)
        harness.choice("u1", ["a"])
        assert harness.choice("u1", ["b"]) == "b"
        assert (harness.reserved("a"), harness.reserved("b")) == (0, 1)

    def test_a_request_that_arrives_twice_is_answered_alike(self, harness):
        """Nobody knows which of the answers counts."""
        harness.report(a=2, b=1)
        assert harness.choice("u1", NODES) == "a"
        harness.report(a=1, b=3)
        harness.clock.advance(REPEATED_S - 0.01)
        assert harness.choice("u1", NODES) == "a"
        assert (harness.reserved("a"), harness.reserved("b")) == (1, 0)
        assert harness.metric("carico_extender_decisions_total", result="scheduled") == 1, "there is one decision"
        harness.clock.advance(0.01)
        assert harness.choice("u1", NODES) == "b", "kube-scheduler tries again after a second"

    def test_a_pod_that_is_refused_holds_nothing(self, harness):
        harness.report(a=1)
        harness.choice("u1", ["a"])
        assert harness.choice("u1", ["b"]) is None
        assert harness.reserved("a") == 0

    def test_a_node_that_has_not_reported_for_long_is_refused(self, harness):
        harness.report(a=5)
        harness.clock.advance(12)
        assert harness.ask("u1", ["a"])["FailedAndUnresolvableNodes"] == {"a": "last report 12 s ago"}

    def test_a_node_that_left_is_forgotten_and_what_is_on_its_way_there_is_not(self, harness):
        harness.report(a=5, b=5)
        harness.choice("u1", ["a"])
        harness.extender.pod_changed("u1", "a", pending=True)
        harness.clock.advance(400)
        harness.report(b=5)
        harness.clock.advance(300)
        harness.extender.tick()
        assert harness.metric("carico_extender_nodes") == 1
        assert harness.reserved("a") == 1
        assert harness.ask("u2", ["a"])["FailedAndUnresolvableNodes"] == {"a": "no capacity reported yet"}

    def test_metrics_say_how_many_nodes_are_silent_and_how_many_have_room(self, harness):
        def counted():
            harness.extender.tick()
            names = ("nodes", "stale_nodes", "nodes_with_room", "oldest_report_age_seconds")
            return [harness.metric(f"carico_extender_{name}") for name in names]

        assert counted() == [0, 0, 0, 0]
        harness.report(a=1, b=0.5, c=9)
        assert counted() == [3, 0, 2, 0]
        assert harness.choice("u1", ["a"]) == "a"
        assert counted() == [3, 0, 1, 0], "a's only place is reserved"
        harness.clock.advance(6)
        harness.report(a=1, b=0.5)
        assert counted() == [3, 1, 0, 6], "c has room, but who knows since when it does not"

    def test_nodes_that_come_as_objects_go_back_as_they_came(self, harness):
        harness.report(a=1, b=2)
        items = [{"metadata": {"name": name, "labels": {"x": "y"}}, "status": {"big": 1.50}} for name in "ab"]
        body = json.dumps({"Pod": {"metadata": {"name": "p", "uid": "u1"}}, "Nodes": {"items": items}}).encode()
        result = json.loads(write_result(harness.extender.filter(read_args(body))))
        assert result == {"Nodes": {"items": [items[1]]}}

    def test_decides_nothing_before_it_knows_what_is_on_its_way(self):
        harness = Harness(listed=False)
        harness.report(a=5)
        with pytest.raises(NotReady, match="pods have not been listed"):
            harness.ask("u1", ["a"])
        harness.extender.pods_listed(True)
        assert harness.choice("u1", ["a"]) == "a"

    def test_is_counted(self, harness):
        harness.report(a=1)
        for uid in ("u1", "u2", "u3"):
            harness.ask(uid, ["a"])
        assert harness.metric("carico_extender_decisions_total", result="scheduled") == 1
        assert harness.metric("carico_extender_decisions_total", result="unschedulable") == 2
        assert harness.metric("carico_extender_decision_duration_seconds_count", result="unschedulable") == 2
        assert harness.metric("carico_extender_reservations") == 1
        assert harness.metric("carico_extender_waiting_pods") == 2


class TestReservation:
    @pytest.fixture
    def placed(self, harness):
        harness.report(a=5, b=4)
        assert harness.choice("u1", ["a", "b"]) == "a"
        return harness

    def test_ends_when_the_pod_leaves_pending(self, placed):
        placed.extender.pod_changed("u1", "a", pending=True)
        assert placed.reserved("a") == 1
        placed.extender.pod_changed("u1", "a", pending=False)
        assert placed.reserved("a") == 0

    def test_ends_when_the_pod_is_deleted(self, placed):
        placed.extender.pod_deleted("u1")
        placed.extender.pod_deleted("u1")
        assert placed.reserved("a") == 0
        assert placed.metric("carico_extender_released_total", reason="deleted") == 1

    def test_does_not_end_by_the_clock_while_the_watch_shows_the_pod(self, placed):
        placed.extender.pod_changed("u1", "", pending=True)
        placed.clock.advance(120)
        placed.extender.tick()
        assert placed.reserved("a") == 1
        placed.extender.pod_deleted("u1")
        assert placed.reserved("a") == 0

    def test_ends_by_the_clock_while_the_watch_is_broken(self, placed):
        placed.extender.pod_changed("u1", "", pending=True)
        placed.extender.pods_followed(False)
        placed.clock.advance(120)
        placed.extender.tick()
        assert placed.reserved("a") == 0

    def test_ends_when_nothing_is_heard_of_it(self, placed):
        placed.clock.advance(59.9)
        placed.extender.tick()
        assert placed.reserved("a") == 1
        placed.clock.advance(0.1)
        placed.extender.tick()
        assert placed.reserved("a") == 0
        assert placed.metric("carico_extender_released_total", reason="timeout") == 1

    @pytest.mark.parametrize("shown", [False, True])
    def test_ends_when_a_watch_that_works_does_not_show_the_pod(self, shown):
        """It was gone before the watch could show it, so nothing will ever be heard of it."""
        harness = Harness(stale_after_s=1000, timeout_s=1000)
        harness.extender.pods_followed(True)
        if shown:
            harness.extender.pod_changed("u1", "", pending=True)
        harness.report(a=5)
        assert harness.choice("u1", ["a"]) == "a"
        harness.extender.pods_followed(False)
        harness.clock.advance(UNSEEN_S + 1)
        harness.extender.tick()
        assert harness.reserved("a") == 1, "a broken watch shows nothing"
        harness.extender.pods_followed(True)
        harness.clock.advance(UNSEEN_S)
        harness.extender.tick()
        assert harness.reserved("a") == 1
        harness.clock.advance(0.1)
        harness.extender.tick()
        assert harness.reserved("a") == shown

    def test_lasts_while_nobody_watches_pods(self):
        harness = Harness(timeout_s=1000)
        harness.report(a=5)
        assert harness.choice("u1", ["a"]) == "a"
        harness.clock.advance(UNSEEN_S + 1)
        harness.extender.tick()
        assert harness.reserved("a") == 1

    def test_lasts_once_the_pod_is_bound_however_long_its_image_takes(self, placed):
        placed.extender.pod_changed("u1", "a", pending=True)
        placed.clock.advance(600)
        placed.extender.tick()
        assert placed.reserved("a") == 1

    def test_lasts_where_a_bound_pod_is_asked_for_late(self, placed):
        placed.extender.pod_changed("u1", "a", pending=True)
        with pytest.raises(NotReady, match="the pod u1 is bound to a already"):
            placed.ask("u1", ["a", "b"])
        assert (placed.reserved("a"), placed.reserved("b")) == (1, 0)
        placed.extender.pod_changed("u1", "a", pending=False)
        assert placed.choice("u1", ["a", "b"]) == "a"

    def test_lasts_while_the_pod_is_seen_unbound(self, placed):
        placed.extender.pod_changed("u1", "", pending=True)
        assert placed.reserved("a") == 1

    def test_follows_the_pod_to_where_it_was_bound(self, placed):
        placed.extender.pod_changed("u1", "b", pending=True)
        assert (placed.reserved("a"), placed.reserved("b")) == (0, 1)

    def test_comes_back_when_a_pod_is_bound_after_all(self, placed):
        placed.clock.advance(60)
        placed.extender.tick()
        placed.extender.pod_changed("u1", "a", pending=True)
        assert placed.reserved("a") == 1

    def test_of_a_bound_pod_is_known_after_a_restart(self):
        harness = Harness(listed=False)
        harness.extender.pod_changed("u1", "a", pending=True)
        harness.extender.pod_changed("u2", "a", pending=False)
        harness.extender.pods_listed(True)
        harness.report(a=1.5)
        assert harness.reserved("a") == 1
        assert harness.choice("u3", ["a"]) is None
        with pytest.raises(NotReady, match="the pod u1 is bound to a already"):
            harness.ask("u1", ["a"])

    def test_of_a_node_that_stopped_reporting_stays(self, placed):
        placed.clock.advance(12)
        assert placed.choice("u2", ["a"]) is None
        assert placed.reserved("a") == 1


def running(uid, namespace="jobs", owner="Job", state=None):
    """A pod as the API shows it."""
    metadata = {"name": f"pod-{uid}", "namespace": namespace, "uid": uid, "ownerReferences": [{"kind": owner}]}
    status = {"phase": "Running"} | ({} if state is None else {"containerStatuses": [{"state": state}]})
    return {"metadata": metadata, "spec": {"nodeName": "a"}, "status": status}


class TestUntilCounted:
    """The last report may be older than a pod that runs."""

    @pytest.fixture
    def placed(self):
        harness = Harness(until_counted=True)
        harness.report(a=1.5, counted=frozenset())
        assert harness.choice("u1", ["a"]) == "a"
        harness.extender.pod_changed("u1", "a", pending=True)
        return harness

    def test_a_reservation_ends_when_a_report_counts_the_pod(self, placed):
        placed.extender.pod_changed("u1", "a", pending=False)
        assert placed.choice("u2", ["a"]) is None, "the report in force predates the pod"
        placed.report(a=1.5, counted=frozenset({"other"}))
        assert placed.choice("u2", ["a"]) is None
        placed.report(a=1.2, counted=frozenset({"u1"}))
        assert placed.choice("u2", ["a"]) == "a"
        assert placed.metric("carico_extender_released_total", reason="counted") == 1

    def test_or_when_the_pod_that_is_counted_runs(self, placed):
        """A pod that waits for its image uses nothing, so a measured Pod-Capacity does not show it."""
        placed.report(a=1.5, counted=frozenset({"u1"}))
        assert placed.reserved("a") == 1
        placed.extender.pod_changed("u1", "a", pending=False)
        assert placed.reserved("a") == 0

    def test_or_when_the_pod_is_over(self, placed):
        placed.extender.pod_changed("u1", "a", pending=False)
        placed.extender.pod_changed("u1", "a", pending=False, ended=True)
        assert placed.reserved("a") == 0
        assert placed.metric("carico_extender_released_total", reason="ended") == 1

    @pytest.mark.parametrize(
        ("counted", "what"),
        [
            (None, {}),
            (frozenset(), {"namespace": "kube-system"}),
            (frozenset(), {"owner": "DaemonSet"}),
            (frozenset(), {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
        ],
        ids=["older agent", "excluded namespace", "DaemonSet", "crashed"],
    )
    def test_or_when_a_node_that_goes_on_reporting_leaves_the_pod_out_as_it_may(self, placed, counted, what):
        placed.report(a=1.5, counted=counted)
        placed.extender.pod_seen(running("u1", **what))
        for _ in range(int(UNCOUNTED_S)):
            assert placed.reserved("a") == 1
            placed.clock.advance(1)
            placed.report(a=1.5, counted=counted)
        assert placed.reserved("a") == 0
        assert placed.metric("carico_extender_released_total", reason="not counted") == 1
        placed.extender.pod_seen(running("u1", **what))
        assert placed.reserved("a") == 0

    def test_no_clock_ends_the_reservation_of_a_pod_that_its_agent_must_count(self, placed, caplog):
        """What copies the names of pods for the agent may be down for as long as it likes."""
        placed.extender.pod_seen(running("u1"))
        for second in range(1000):
            placed.clock.advance(1)
            placed.report(a=1.5, counted=frozenset({"other"}))
            placed.extender.tick()
            assert placed.reserved("a") == 1
            assert placed.metric("carico_extender_uncounted_pods") == (second + 1 >= OVERDUE_S)
        assert placed.extender.uncounted() == [{"pod": "jobs/pod-u1", "node": "a", "for_s": 1000.0}]
        (line,) = [record.getMessage() for record in caplog.records]
        assert "jobs/pod-u1 on a, for 60 s" in line
        assert "pod-names" in line
        placed.report(a=0.5, counted=frozenset({"u1"}))
        placed.extender.tick()
        assert (placed.reserved("a"), placed.extender.uncounted()) == (0, [])
        assert placed.metric("carico_extender_uncounted_pods") == 0

    def test_nor_does_it_after_the_agent_has_started_again_what_had_crashed(self, placed):
        crashed = {"waiting": {"reason": "CrashLoopBackOff"}}
        for state in (crashed, {"running": {"startedAt": "2030-01-01T12:00:00Z"}}):
            placed.extender.pod_seen(running("u1", state=state))
            for _ in range(int(UNCOUNTED_S) - 1):
                placed.clock.advance(1)
                placed.report(a=1.5, counted=frozenset())
        placed.clock.advance(1)
        placed.report(a=1.5, counted=frozenset())
        assert placed.reserved("a") == 1

    def test_nodes_that_are_silent_are_not_said_to_count_late(self, placed):
        placed.extender.pod_seen(running("u1"))
        placed.clock.advance(OVERDUE_S)
        placed.extender.tick()
        assert placed.extender.uncounted() == []

    def test_late_reports_leave_nothing_out(self, placed):
        placed.extender.pod_changed("u1", "a", pending=False)
        placed.clock.advance(60)
        placed.report(a=1.5, counted=frozenset())
        assert placed.reserved("a") == 1

    def test_a_pod_that_is_counted_and_runs_is_not_decided_on_again(self, placed):
        placed.report(a=1.5, counted=frozenset({"u1"}))
        placed.extender.pod_changed("u1", "a", pending=False)
        with pytest.raises(NotReady, match="bound to a already"):
            placed.ask("u1", ["a"])

    def test_after_a_restart_running_pods_are_reserved_until_they_are_counted(self):
        harness = Harness(until_counted=True, listed=False)
        for uid in ("u1", "u2"):
            harness.extender.pod_changed(uid, "a", pending=False)
        harness.extender.pods_listed(True)
        assert harness.reserved("a") == 2
        harness.report(a=1.5, counted=frozenset({"u1"}))
        assert harness.reserved("a") == 1

    def test_nobody_is_woken_by_a_report_that_counts_what_was_reserved(self, placed):
        placed.report(a=3.5, counted=frozenset())
        for uid in ("u2", "u3"):
            assert placed.choice(uid, ["a"]) == "a"
            placed.extender.pod_changed(uid, "a", pending=False)
        assert placed.choice("u4", ["a"]) is None
        placed.extender.pod_changed("u1", "a", pending=False)
        placed.report(a=0.5, counted=frozenset({"u1", "u2", "u3"}))
        assert (placed.reserved("a"), placed.woken) == (0, [])


class TestWakeUp:
    def test_refused_pods_are_tried_again_when_a_node_gets_room(self, harness):
        harness.report(a=0.5)
        harness.choice("u1", ["a"])
        harness.report(a=0.9)
        assert harness.woken == []
        harness.report(a=1.5)
        assert harness.woken == [("a", 1.5)]

    def test_room_from_a_reservation_that_ended_counts(self, harness):
        harness.report(a=1)
        harness.choice("u1", ["a"])
        harness.choice("u2", ["a"])
        harness.extender.pod_deleted("u1")
        assert harness.woken == [("a", 1.0)]

    def test_nobody_is_woken_where_nobody_waits(self, harness):
        harness.report(a=0.5)
        harness.report(a=1.5)
        assert harness.woken == []

    @pytest.mark.parametrize("silent_s", [0, 12], ids=["new", "back"])
    def test_a_node_that_is_new_or_back_wakes_pods(self, harness, silent_s):
        if silent_s:
            harness.report(a=3)
            harness.clock.advance(silent_s)
        harness.choice("u1", ["a"])
        harness.report(a=3)
        assert harness.woken == [("a", 3.0)]

    def test_pods_that_are_gone_wait_no_longer(self, harness):
        harness.report(a=0.5)
        harness.choice("u1", ["a"])
        harness.choice("u2", ["a"])
        harness.extender.pod_deleted("u1")
        harness.extender.pod_changed("u2", "z", pending=True)
        harness.report(a=2)
        assert harness.woken == []

    def test_nor_do_those_that_are_asked_for_after_they_are_gone(self, harness):
        harness.report(a=0.5)
        harness.extender.pod_deleted("u1")
        harness.choice("u1", ["a"])
        for _ in range(2):
            harness.clock.advance(301)
            harness.report(a=0.5)
            harness.extender.tick()
        assert harness.metric("carico_extender_waiting_pods") == 0
        harness.report(a=2)
        assert harness.woken == []


class TestHostileInput:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b"", "not an ExtenderArgs"),
            (b"[]", "Expected `object`"),
            (b"\xff\xfe", "not an ExtenderArgs"),
            (b"{}", "missing required field `Pod`"),
            (b'{"Pod": {}}', "missing required field `metadata`"),
            (b'{"Pod": {"metadata": {"name": "p", "uid": ""}}, "NodeNames": []}', r"at `\$.Pod.metadata.uid`"),
            (b'{"Pod": {"metadata": {"name": "P\\u001b[2J", "uid": "u"}}}', r"at `\$.Pod.metadata.name`"),
            (b'{"Pod": {"metadata": {"name": "p", "uid": "u"}}}', "names no candidates"),
            (b'{"Pod": {"metadata": {"name": "p", "uid": "u"}}, "Nodes": {"items": ["\xfe"]}}', "invalid start byte"),
            (request("u", [1]), r"Expected `str`, got `int` - at `\$.NodeNames\[0\]`"),
            (request("u", [""]), "length >= 1"),
            (request("u", ["n" * 254]), "length <= 253"),
            (b"[" * 100_000, "not an ExtenderArgs"),
        ],
    )
    def test_is_refused_with_what_is_wrong(self, body, message):
        with pytest.raises(InvalidRequest, match=message):
            read_args(body)

    def test_an_object_that_is_no_node_changes_nothing(self, harness):
        body = b'{"Pod": {"metadata": {"name": "p", "uid": "u"}}, "Nodes": {"items": [{"metadata": {}}]}}'
        with pytest.raises(InvalidRequest, match="not a node"):
            harness.extender.filter(read_args(body))
        assert len(harness.plugin.ledger) == 0

    @given(st.binary(max_size=200))
    def test_whatever_bytes_come_nothing_else_is_raised(self, body):
        with pytest.raises(CaricoError):
            read_args(body)

    @given(st.data())
    def test_a_request_that_was_damaged_is_answered_or_refused(self, data):
        body = bytearray(request("u1", ["a", "b"]))
        for _ in range(data.draw(st.integers(1, 4))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        harness = Harness()
        harness.report(a=3)
        try:
            result = harness.extender.filter(read_args(bytes(body)))
        except InvalidRequest:
            assert len(harness.plugin.ledger) == 0
        else:
            assert len(harness.plugin.ledger) == len(result.node_names)

    @pytest.mark.parametrize("capacity", [float("nan"), float("inf"), -1.0])
    def test_a_report_that_makes_no_sense_is_counted_and_changes_nothing(self, harness, capacity):
        harness.report(a=2)
        with pytest.raises(InvalidInput, match="must be finite"):
            harness.report(a=capacity)
        assert harness.choice("u1", ["a"]) == "a"
        assert harness.metric("carico_extender_reports_total", result="refused") == 1
