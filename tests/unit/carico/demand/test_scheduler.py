"""Where pods go, and how long an answer waits."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.demand.workload import placement_of
from carico.errors import NotReady
from carico.scheduling.scheduler import FORGOTTEN_AFTER_S, REPEATED_S, RESERVATION_TIMEOUT_S, STALE_AFTER_S
from carico.scheduling.uncounted import UNCOUNTED_S
from carico.scheduling.wake_up import WakeUp

MANY = 500
"""So many pods that wait do not fit on two nodes."""


def crowd(scheduler, workload="pi", pods=MANY):
    for number in range(pods):
        scheduler.pod_waits(f"crowd-{workload}-{number}", Kind(workload))


def outcome(decision):
    return decision.node, decision.hold_s


def place(scheduler, workload="pi", nodes=("a", "b"), now=0.0, most=100):
    """Place pods until one is refused, and return their nodes."""
    placed = []
    for number in range(most):
        node = scheduler.filter(f"{workload}-{number}", Kind(workload), list(nodes), now).node
        if node is None:
            break
        placed.append(node)
    return placed


def test_a_node_takes_pods_up_to_its_level(scheduler, report):
    scheduler.report(report("a"), 0.0)
    crowd(scheduler)
    assert place(scheduler, nodes=["a"]) == ["a"] * 5, "0.2 + 4 < 4 + 0.125 x 2, and one more fits in part"


def test_a_node_takes_two_pods_a_core_if_everything_fits_then(scheduler, report):
    scheduler.report(report("a"), 0.0)
    assert len(place(scheduler, nodes=["a"])) == 7, "0.2 + 7 <= 2 x 4; one more would not fit wholly"


def test_a_node_is_not_shared_for_room_where_its_pods_may_not_go(scheduler, report):
    for node in ("a", "b", "c"):
        scheduler.report(report(node), 0.0)
    scheduler.filter("anywhere", Kind("pi"), ["a", "b", "c"], 0.0)
    for number in range(20):
        scheduler.pod_waits(f"in-a-{number}", Kind("pi", "zone=a"))
    placed = [scheduler.filter(f"in-a-{number}", Kind("pi", "zone=a"), ["a"], 0.0).node for number in range(6)]
    assert placed.count("a") < 6, "4 cores and a half pod, though b and c have room for twice as many"


def test_a_pod_of_more_than_half_a_node_does_not_share(scheduler, report):
    scheduler.report(report("a"), 0.0)
    assert place(scheduler, "wide", nodes=["a"]) == ["a", "a"], "0.2 + 2 x 3 < 2 x 4, but > 4 + 0.125 x 2"


@pytest.mark.parametrize(("stops", "placed"), [(0.05, 2), (0.2, 0)])
def test_pods_wait_for_others_that_stop_soon_rather_than_share(scheduler, report, stops, placed):
    scheduler.report(report("a", {f"old-{number}": "pi" for number in range(5)}, stops=stops), 0.0)
    assert len(place(scheduler, nodes=["a"])) == placed, "half a pod or two pods stop in 10 s, and one waits"


@pytest.mark.parametrize("workload", ["light", "pi", "wide"])
def test_a_node_takes_a_pod_of_any_size_as_long_as_a_core_is_idle(scheduler, report, workload):
    crowd(scheduler)
    scheduler.report(report("a", {"old": "pi"}, demand=3.5), 0.0)
    assert place(scheduler, workload, nodes=["a"], most=1) == ["a"]
    scheduler.report(report("a", {"old": "pi"}, demand=4.5), 1.0)
    assert place(scheduler, workload, nodes=["a"], now=1.0, most=1) == []


HUGE = {"huge": Estimate(3.4, 1e-6), "light": Estimate(0.1, 1e-6)}


class TestGap:
    """A node with a pod of 3.4 of its 4 cores has room for half a core, which is less than 0.3 of another such pod."""

    def decided(self, scheduler, report, stops=0.06, cores=4.0):
        for node in ("a", "b"):
            pods = {f"old-{node}": "huge"}
            scheduler.report(report(node, pods, cores=cores, stops=stops, known=HUGE), 0.0)
        return scheduler.filter("next", Kind("huge"), ["a", "b"], 0.0).node

    def test_a_wide_pod_waits_for_a_gap(self, scheduler, report):
        crowd(scheduler, "huge")
        assert self.decided(scheduler, report) is None
        scheduler.pod_gone("old-a", 1.0)
        scheduler.report(report("a", {"light": "light"}, known=HUGE), 1.0)
        assert scheduler.filter("next", Kind("huge"), ["a", "b"], 1.0).node == "a"

    def test_it_does_not_wait_if_another_pod_would_take_the_gap(self, scheduler, report):
        crowd(scheduler, "huge")
        crowd(scheduler, "light", pods=1)
        assert self.decided(scheduler, report)

    def test_it_does_not_wait_where_pods_hardly_ever_stop(self, scheduler, report):
        crowd(scheduler, "huge")
        assert self.decided(scheduler, report, stops=0.04), "in 10 s 2 x 0.04 x 3.4 cores become free, less than 3.4"

    def test_it_does_not_wait_on_a_large_node(self, scheduler, report):
        crowd(scheduler, "huge")
        assert self.decided(scheduler, report, cores=6.0), "half of a pod and more fits"

    def test_that_pods_of_its_kind_may_stop_soon_makes_no_gap(self, scheduler, report):
        crowd(scheduler, "huge")
        assert self.decided(scheduler, report, stops=0.3) is None, "0.3 x 1.5 s x 3.4 cores are not counted"


def test_the_node_with_the_most_room_is_next(scheduler, report):
    scheduler.report(report("a", demand=2.0), 0.0)
    scheduler.report(report("b", demand=0.5), 0.0)
    assert place(scheduler, most=4) == ["b", "b", "a", "b"]


def test_of_an_unknown_workload_few_are_placed_until_it_is_known(scheduler, report):
    scheduler.report(report("a"), 0.0)
    crowd(scheduler, "new")
    placed = place(scheduler, "new", nodes=["a"])
    assert len(placed) == 2, "they count as 1 + 1 cores, and their doubt as 1, then 4"
    known = {"new": Estimate(0.1, 1e-4)}
    scheduler.report(report("a", {"new-0": "new", "new-1": "new"}, known=known), 1.0)
    assert len(place(scheduler, "new", nodes=["a"], now=1.0)) > 20


def test_an_unknown_workload_shares_nothing_while_its_pods_are_on_their_way(scheduler, report):
    busy = {f"old-{number}": "pi" for number in range(4)}
    scheduler.report(report("a"), 0.0)
    scheduler.report(report("b", {**busy, "one-more": "pi"}), 0.0)
    assert place(scheduler, "new") == ["a", "a"], "everything that waits would fit below the higher level"
    scheduler.report(report("a", {"new-0": "new", "new-1": "new"}, known={"new": Estimate(1.0, 0.01)}), 1.0)
    assert len(place(scheduler, "new", now=1.0)) > 5, "now it is known, and does"


def test_an_unknown_workload_may_share_if_none_of_its_pods_tells_what_it_costs(scheduler, report):
    scheduler.report(report("a", {f"old-{number}": "pi" for number in range(5)}), 0.0)
    assert place(scheduler, "new", nodes=["a"]) == ["a"]


@pytest.mark.parametrize("counted", [0, 1])
def test_the_doubt_about_pods_that_run_and_pods_on_their_way_adds_up(scheduler, report, counted):
    crowd(scheduler, "new")
    scheduler.report(report("a"), 0.0)
    assert place(scheduler, "new", nodes=["a"]) == ["a", "a"]
    pods = {f"new-{number}": "new" for number in range(counted)}
    workloads = {"new": WorkloadReport(counted, 0.0, Estimate(1.0, 1.0), Estimate(0.1, 1e-6))}
    seen = Estimate(0.2 + counted, float(counted))
    scheduler.report(DemandReport("a", 4.0, 8.0, seen, 1.0, 1.0, workloads, pods), 1.0)
    assert scheduler.nodes(1.0)[0].load_cores == pytest.approx(0.2 + 2 + 2**2)
    assert scheduler.filter("another", Kind("new"), ["a"], 1.0).node is None


def test_what_one_node_has_learned_all_know(scheduler, report):
    crowd(scheduler, "new")
    scheduler.report(report("a", known={"new": Estimate(0.1, 1e-4)}), 0.0)
    scheduler.report(report("b", known={}), 0.0)
    assert place(scheduler, "new").count("b") > 20


def test_memory_is_never_given_away_twice(scheduler, report):
    scheduler.report(report("a", held=7.55), 0.0)
    scheduler.report(report("b", {"idle": "light"}, held=7.55), 0.0)
    assert place(scheduler, "light") == ["a"], "an idle node takes one; the others have 0.05 GiB left for 0.1"


def test_an_idle_node_takes_a_pod_however_large(scheduler, report):
    scheduler.report(report("a", known={"huge": Estimate(40.0, 1e-6)}), 0.0)
    assert place(scheduler, "huge", nodes=["a"]) == ["a"]


def test_a_node_that_is_silent_gets_nothing(scheduler, report):
    scheduler.report(report("a"), 0.0)
    assert scheduler.filter("one", Kind("pi"), ["a", "stranger"], STALE_AFTER_S).node == "a"
    assert scheduler.filter("two", Kind("pi"), ["a", "stranger"], STALE_AFTER_S + 0.1).node is None


def test_a_pod_is_on_its_way_until_a_report_counts_it(scheduler, report):
    scheduler.report(report("a"), 0.0)
    crowd(scheduler)
    placed = place(scheduler, nodes=["a"])
    for number in range(len(placed)):
        scheduler.pod_changed(f"pi-{number}", "pi", "a", ended=False, now=0.1)
    scheduler.report(report("a"), 1.0)
    assert scheduler.loads.in_flight_count == 5, "they run perhaps, but the report does not say so"
    assert scheduler.filter("next", Kind("pi"), ["a"], 1.0).node is None
    scheduler.report(report("a", {f"pi-{number}": "pi" for number in range(5)}), 2.0)
    assert scheduler.loads.in_flight_count == 0
    assert scheduler.filter("next", Kind("pi"), ["a"], 2.0).node is None


def test_a_pod_that_is_over_makes_room_before_the_report_says_so(scheduler, report):
    crowd(scheduler)
    pods = {f"pi-{number}": "pi" for number in range(5)}
    scheduler.report(report("a", pods), 0.0)
    for uid in pods:
        scheduler.pod_changed(uid, "pi", "a", ended=False, now=0.0)
    assert scheduler.filter("next", Kind("pi"), ["a"], 0.0).node is None
    scheduler.pod_gone("pi-0", 0.1)
    assert scheduler.filter("next", Kind("pi"), ["a"], 0.1).node == "a"


def test_pods_that_will_have_stopped_meanwhile_make_room(scheduler, report):
    crowd(scheduler)
    pods = {f"old-{number}": "pi" for number in range(5)}
    scheduler.report(report("a", pods, stops=1.0), 0.0)
    assert len(place(scheduler, nodes=["a"])) == 1, "1.5 pods stop while one starts"


def test_a_node_that_is_slow_to_start_pods_has_more_of_them_on_their_way(scheduler, report):
    now = 0.0
    for number in range(50):
        for node, takes_s in (("slow", 4.0), ("fast", 0.5)):
            uid = f"{node}-{number}"
            scheduler.report(report(node), now)
            scheduler.filter(uid, Kind("pi"), [node], now)
            scheduler.report(report(node, {uid: "pi"}), now + takes_s)
            scheduler.pod_changed(uid, "pi", node, ended=True, now=now + takes_s)
            now += takes_s
    crowd(scheduler)
    pods = {f"old-{number}": "pi" for number in range(5)}
    for node in ("slow", "fast"):
        scheduler.report(report(node, pods, stops=1.0), now)
    assert len(place(scheduler, nodes=["slow"], now=now)) == 4, "so many stop until a pod has started"
    assert place(scheduler, nodes=["fast"], now=now) == []


def test_a_pod_that_is_bound_already_is_not_placed_again(scheduler, report):
    scheduler.report(report("a"), 0.0)
    scheduler.pod_changed("one", "pi", "a", ended=False, now=0.0)
    with pytest.raises(NotReady, match="the pod one is bound to a already"):
        scheduler.filter("one", Kind("pi"), ["a"], 0.0)


def test_a_pod_that_is_asked_for_again_does_not_stand_in_its_own_way(scheduler, report):
    scheduler.report(report("a", {"idle": "light"}, demand=4.2), 0.0)
    crowd(scheduler)
    for now in range(3):
        assert scheduler.filter("one", Kind("pi"), ["a"], float(now)).node == "a"
    assert scheduler.loads.in_flight_count == 1


class TestHolding:
    @pytest.fixture
    def full(self, scheduler, report):
        scheduler.report(report("a", {"old": "pi"}, demand=6.0), 0.0)
        crowd(scheduler)
        return scheduler

    def test_the_answer_waits_while_nothing_has_room(self, full):
        assert outcome(full.filter("one", Kind("pi"), ["a"], 0.0)) == (None, DEMAND.hold_s)
        assert full.filter("one", Kind("pi"), ["a"], 0.5).hold_s == pytest.approx(DEMAND.hold_s - 0.5)
        assert outcome(full.filter("one", Kind("pi"), ["a"], DEMAND.hold_s)) == (None, 0.0)

    def test_room_that_appears_ends_the_wait(self, full, report):
        full.filter("one", Kind("pi"), ["a"], 0.0)
        full.report(report("a", {"old": "pi"}, demand=2.0), 0.5)
        assert outcome(full.filter("one", Kind("pi"), ["a"], 0.5)) == ("a", 0.0)

    def test_after_one_wait_in_vain_the_others_are_refused_at_once(self, full, report):
        full.filter("one", Kind("pi"), ["a"], 0.0)
        full.filter("one", Kind("pi"), ["a"], DEMAND.hold_s)
        assert outcome(full.filter("two", Kind("pi"), ["a"], DEMAND.hold_s)) == (None, 0.0)
        full.report(report("a", {"old": "pi"}, demand=2.0), 3.0)
        assert outcome(full.filter("two", Kind("pi"), ["a"], 3.0)) == ("a", 0.0)
        full.report(report("a", {"old": "pi", "two": "pi"}, demand=6.0), 3.0)
        assert full.filter("three", Kind("pi"), ["a"], 3.0).hold_s, "there has been room meanwhile"

    def test_a_pod_does_not_hold_up_those_that_may_go_elsewhere(self, full, report):
        full.report(report("b", {"other": "pi"}, demand=2.0), 0.0)
        full.pod_waits("elsewhere", Kind("pi", "zone=b"))
        assert outcome(full.filter("one", Kind("pi"), ["a"], 0.0)) == (None, 0.0), "nothing is known of zone b"
        full.report(report("b", {"other": "pi"}, demand=6.0), 0.1)
        assert full.filter("elsewhere", Kind("pi", "zone=b"), ["b"], 0.1).hold_s

    def test_a_pod_that_requests_what_few_nodes_have_does_not_hold_up_the_others(self, full, report):
        requesting = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
        full.report(report("b", {"other": "pi"}, demand=2.0), 0.0)
        assert full.filter("first", Kind("light"), ["a", "b"], 0.0).node == "b"
        full.pod_waits("second", Kind("light"))
        assert outcome(full.filter("one", Kind("pi", placement_of(requesting)), ["a"], 0.0)) == (None, 0.0)

    def test_room_where_no_pod_may_go_is_no_room(self, full, report):
        full.report(report("control-plane"), 0.0)
        full.pod_waits("other", Kind("light"))
        full.filter("other", Kind("light"), ["a"], 0.0)
        assert full.filter("one", Kind("pi"), ["a"], 0.0).hold_s, "both kinds have been asked for"

    def test_a_pod_does_not_hold_up_smaller_ones_that_fit(self, scheduler, report):
        scheduler.report(report("a", {"old": "pi"}, held=7.3), 0.0)
        assert scheduler.filter("one", Kind("unknown"), ["a"], 0.0).hold_s
        scheduler.pod_waits("small", Kind("light"))
        assert outcome(scheduler.filter("one", Kind("unknown"), ["a"], 0.1)) == (None, 0.0), "memory for one only"

    def test_nor_those_that_need_less_memory_than_the_cheapest_by_cpu(self, scheduler, report):
        gib = {"dear": 0.1, "cheap": 2.0, "one": 2.0}
        workloads = {name: WorkloadReport(0, 0.0, Estimate(0.5, 1e-6), Estimate(gib[name], 1e-6)) for name in gib}
        workloads["cheap"] = WorkloadReport(1, 0.0, Estimate(0.1, 1e-6), Estimate(2.0, 1e-6))
        demand = DemandReport("a", 4.0, 8.0, Estimate(0.3, 0.0), 6.5, 4.5, workloads, {"old": "cheap"})
        scheduler.report(demand, 0.0)
        scheduler.pod_waits("two", Kind("cheap"))
        assert scheduler.filter("one", Kind("one"), ["a"], 0.0).hold_s, "none fits into 1.1 GiB"
        scheduler.pod_waits("three", Kind("dear"))
        assert outcome(scheduler.filter("one", Kind("one"), ["a"], 0.1)) == (None, 0.0)

    def test_a_wide_pod_keeps_its_turn_among_small_ones(self, scheduler, report):
        scheduler.report(report("a", {"old": "pi"}, demand=6.0), 0.0)
        crowd(scheduler, "light")
        assert scheduler.filter("one", Kind("wide"), ["a"], 0.0).hold_s == DEMAND.hold_s
        scheduler.report(report("a", {"old": "pi"}, demand=4.0), 0.5)
        assert scheduler.filter("one", Kind("wide"), ["a"], 0.5).node == "a"


def test_refused_pods_are_woken_once_there_is_room(report):
    woken = []
    scheduler = DemandScheduler(DEMAND, wake_up=WakeUp(), wake=lambda node, room: woken.append(node))
    scheduler.report(report("a", {"old": "pi"}, demand=6.0), 0.0)
    scheduler.pod_waits("one", Kind("pi"))
    crowd(scheduler)
    scheduler.filter("one", Kind("pi"), ["a"], 0.0)
    scheduler.report(report("a", {"old": "pi"}, demand=6.0), 1.0)
    scheduler.filter("one", Kind("pi"), ["a"], 2.0)
    assert woken == []
    scheduler.report(report("a", {"old": "pi"}, demand=1.0), 3.0)
    assert woken == ["a"]


def test_a_pod_is_woken_that_was_refused_while_its_node_had_room_for_others(report):
    woken = []
    scheduler = DemandScheduler(DEMAND, wake_up=WakeUp(), wake=lambda node, room: woken.append(node))
    scheduler.pod_waits("small", Kind("pi"))
    scheduler.report(report("a", {"old": "pi"}, held=6.9), 0.0)
    crowd(scheduler, "new")
    while scheduler.filter("large", Kind("new"), ["a"], 0.0).hold_s:
        scheduler.filter("small", Kind("pi"), ["a"], 0.0)
    assert woken == []
    scheduler.report(report("a", {"old": "pi"}, held=1.1), 1.0)
    assert woken == ["a"], "it had room for pi throughout"


@pytest.mark.parametrize("kinds", [20, 50, 128])
def test_a_pod_is_woken_for_which_there_is_room_however_many_others_there_is_none_for(report, kinds):
    woken = []
    variant = dataclasses.replace(DEMAND, hold_s=0.0)
    scheduler = DemandScheduler(variant, wake_up=WakeUp(), wake=lambda node, room: woken.append(node))
    names = [f"heavy-{number}" for number in range(kinds)]
    heavy = {name: WorkloadReport(0, 0.0, Estimate(1.0, 1e-6), Estimate(4.0, 1e-6)) for name in names}
    small = {"small": WorkloadReport(1, 0.0, Estimate(1.0, 1e-6), Estimate(0.1, 1e-6))}

    def reported(node, demand, now):
        demand = DemandReport(node, 4.0, 8.0, Estimate(demand, 0.0), 5.0, 1.0, heavy | small, {"old": "small"})
        scheduler.report(demand, now)

    for node in ("a", "full"):
        reported(node, 6.0, 0.0)
    for name in [*names, "small"]:
        scheduler.pod_waits(name, Kind(name))
        scheduler.filter(name, Kind(name), ["a", "full"], 0.0)
    for second in range(1, kinds // 4):
        for node, demand in (("a", 1.0), ("full", 6.0)):
            reported(node, demand, float(second))
    assert set(woken) == {"a"}, "2.6 GiB are left: not enough for those that have waited longest"


def test_nodes_that_are_gone_are_forgotten_and_may_come_back(scheduler, report):
    scheduler.report(report("a", {"one": "pi"}), 0.0)
    scheduler.report(report("b", known={"new": Estimate(0.1, 1e-4)}), FORGOTTEN_AFTER_S)
    scheduler.tick(FORGOTTEN_AFTER_S + 1)
    assert scheduler.loads.nodes == ["b"]
    assert scheduler.cost("pi")[0] == Estimate(1.0, 1.0)
    scheduler.report(report("a"), FORGOTTEN_AFTER_S + 2)
    assert scheduler.loads.nodes == ["b", "a"]


def test_a_reservation_that_is_never_bound_ends(scheduler, report):
    scheduler.report(report("a"), 0.0)
    assert scheduler.filter("one", Kind("pi"), ["a"], 0.0).node == "a"
    scheduler.tick(RESERVATION_TIMEOUT_S - 0.1)
    assert scheduler.loads.in_flight_count == 1
    scheduler.tick(RESERVATION_TIMEOUT_S)
    assert scheduler.loads.in_flight_count == 0
    scheduler.pod_changed("one", "pi", "a", ended=False, now=RESERVATION_TIMEOUT_S)
    assert scheduler.loads.in_flight_count == 1, "it is bound after all"


def test_a_reservation_of_a_pod_that_the_api_shows_does_not_end_by_the_clock(scheduler, report):
    scheduler.report(report("a"), 0.0)
    for uid in ("shown", "other"):
        assert scheduler.filter(uid, Kind("pi"), ["a"], 0.0).node == "a"
    for now in (RESERVATION_TIMEOUT_S, 2 * RESERVATION_TIMEOUT_S):
        scheduler.tick(now, shown={"shown"})
        assert scheduler.loads.in_flight_to("a") == {"shown"}
    scheduler.report(report("b"), 2 * RESERVATION_TIMEOUT_S)
    assert scheduler.filter("shown", Kind("pi"), ["b"], 2 * RESERVATION_TIMEOUT_S).node == "b", "it is asked for again"
    assert scheduler.loads.in_flight_count == 1


def test_pods_that_run_already_are_not_on_their_way_after_a_restart(scheduler, report):
    for number in range(20):
        scheduler.pod_changed(f"system-{number}", "system", "a", ended=False, now=0.0, running=True)
    scheduler.report(report("a"), 0.1)
    assert scheduler.loads.in_flight_count == 0
    assert scheduler.filter("one", Kind("pi"), ["a"], 0.1).node == "a"


def test_a_pod_that_runs_when_it_is_first_seen_counts_until_its_node_reports_it(scheduler, report):
    scheduler.report(report("a"), 0.0)
    scheduler.pod_changed("one", "pi", "a", ended=False, now=3.0, running=True)
    assert scheduler.loads.in_flight_to("a") == {"one"}
    scheduler.report(report("a", {"one": "pi"}), 4.0)
    assert scheduler.loads.in_flight_count == 0
    scheduler.report(report("b", {"two": "pi"}), 4.0)
    scheduler.pod_changed("two", "pi", "b", ended=False, now=5.0, running=True)
    assert scheduler.loads.in_flight_count == 0, "the report counts it already"
    scheduler.report_capacity("c", 2.0, 4.0)
    scheduler.pod_changed("three", "pi", "c", ended=False, now=5.0, running=True)
    assert scheduler.loads.in_flight_count == 0, "such a report does not say what it counts"


def test_a_pod_that_its_node_may_leave_out_is_not_on_its_way_for_ever(scheduler, report):
    scheduler.report(report("a"), 0.0)
    scheduler.filter("one", Kind("pi"), ["a"], 0.0)
    scheduler.pod_changed("one", "pi", "a", ended=False, now=0.1)
    scheduler.tick(50.0)
    assert scheduler.loads.in_flight_count == 1, "it may wait for its image"
    for now in (50.0, 51.0):
        scheduler.pod_changed("one", "pi", "a", ended=False, now=now, running=True, optional=True)
    scheduler.report(report("a"), 50.0 + UNCOUNTED_S - 0.1)
    scheduler.tick(50.0 + UNCOUNTED_S + 100.0)
    assert scheduler.loads.in_flight_count == 1, "a node that is silent leaves nothing out"
    for second in range(int(UNCOUNTED_S)):
        scheduler.report(report("a"), 200.0 + second)
        assert scheduler.loads.in_flight_count == 1, "nor does one whose reports are late: they may be older"
    scheduler.report(report("a"), 200.0 + UNCOUNTED_S)
    assert scheduler.loads.in_flight_count == 0
    scheduler.pod_changed("one", "pi", "a", ended=False, now=220.0, running=True, optional=True)
    assert scheduler.loads.in_flight_count == 0


def test_a_pod_that_its_node_must_count_is_on_its_way_until_it_is_counted(scheduler, report):
    scheduler.report(report("a"), 0.0)
    scheduler.filter("one", Kind("pi"), ["a"], 0.0)
    scheduler.pod_changed("one", "pi", "a", ended=False, now=1.0, running=True)
    for second in range(1000):
        scheduler.report(report("a"), 1.0 + second)
        assert scheduler.loads.in_flight_count == 1
    assert list(scheduler.overdue(1000.0)) == [("one", "a", 999.0)]
    scheduler.report_capacity("a", 0.0, 1001.0)
    assert scheduler.loads.in_flight_count == 1, "an agent that ends says so by such a report"
    scheduler.report(report("a", {"one": "pi"}), 1002.0)
    assert scheduler.loads.in_flight_count == 0
    assert list(scheduler.overdue(2000.0)) == []


def test_after_a_restart_pods_that_run_are_on_their_way_until_they_are_counted(scheduler, report):
    for uid, optional in (("ours", False), ("system", True)):
        scheduler.pod_changed(uid, "pi", "a", ended=False, now=0.0, running=True, at_start=True, optional=optional)
    scheduler.report(report("a"), 0.1)
    assert scheduler.loads.in_flight_to("a") == {"ours"}


def test_a_call_is_repeated_that_comes_right_after_another_about_the_pod(scheduler, report):
    for node in ("a", "b"):
        scheduler.report(report(node), 0.0)
    assert scheduler.filter("one", Kind("pi"), ["b", "a"], 0.0).node == "b"
    assert scheduler.repeated("one", ["a", "b"], 0.9) == 1
    assert scheduler.repeated("one", ["a"], 0.9) is None, "it must not go there any more"
    assert scheduler.repeated("one", ["a", "b"], REPEATED_S) is None, "kube-scheduler tries again"
    assert scheduler.repeated("two", ["a", "b"], 0.0) is None
    scheduler.pod_changed("one", "pi", "b", ended=False, now=0.5)
    assert scheduler.repeated("one", ["a", "b"], 0.9) is None, "it is bound: that is said instead"


class TestNodesThatTellNoDemand:
    """Agents of another version or variant tell how many pods fit, and no more."""

    def test_take_as_many_pods_as_they_say_after_all_others(self, scheduler, report):
        scheduler.report(report("a"), 0.0)
        scheduler.report_capacity("old", 2.5, 0.0)
        crowd(scheduler)
        assert place(scheduler, nodes=["old", "a"]) == ["a"] * 5 + ["old"] * 2

    def test_may_change_to_and_fro(self, scheduler, report):
        scheduler.report_capacity("a", 5.0, 0.0)
        scheduler.report(report("a", {"old": "pi"}, demand=6.0), 1.0)
        crowd(scheduler)
        assert scheduler.filter("one", Kind("pi"), ["a"], 1.0).node is None
        scheduler.report_capacity("a", 0.0, 2.0)
        assert (
            scheduler.filter("one", Kind("pi"), ["a"], 5.0)
            .verdicts[0]
            .reason(STALE_AFTER_S)
            .startswith("reports no demand")
        )
        assert scheduler.cost("pi")[0] == Estimate(1.0, 1.0), "nobody knows it any more"
        scheduler.report(report("a"), 6.0)
        assert scheduler.filter("one", Kind("pi"), ["a"], 6.0).node == "a"


def test_ten_thousand_workloads_that_wait_cost_no_more_than_a_few(scheduler, report, monkeypatch):
    scheduler.report(report("a", {"old": "pi"}, demand=6.0), 0.0)
    for number in range(10_000):
        scheduler.pod_waits(f"pod-{number}", Kind(f"workload-{number}", f"zone-{number}"))
    looked = []
    cost = type(scheduler.loads.cpu).cost
    monkeypatch.setattr(type(scheduler.loads.cpu), "cost", lambda *args: looked.append(args) or cost(*args))
    scheduler.filter("pod-0", Kind("workload-0", "zone-0"), ["a"], 0.0)
    scheduler.report(report("a", {"old": "pi"}, demand=6.0), 1.0)
    assert len(looked) < 300


class Cluster(RuleBasedStateMachine):
    """Pods are created, placed, bound, started, ended and deleted; reports come late or twice, and nodes go.

    Beside the scheduler walks the simplest model there is: what became of every pod.
    """

    NODES = ("a", "b", "c")

    def __init__(self):
        super().__init__()
        self.scheduler = DemandScheduler(DEMAND, reservation_timeout_s=1e9)
        self.now = 0.0
        self.node = {}
        self.counted = {}
        """The latest report's pods, by node."""
        self.runs = {node: set() for node in self.NODES}

    @rule(seconds=st.floats(0.01, 3.0))
    def wait(self, seconds):
        self.now += seconds
        self.scheduler.tick(self.now)

    @rule(node=st.sampled_from(NODES))
    def report(self, node):
        pods = dict.fromkeys(sorted(self.runs[node]), "pi")
        known = {"pi": WorkloadReport(len(pods), 0.0, Estimate(1.0, 0.01), Estimate(0.1, 0.01))}
        held = 1.0 + 0.1 * len(pods)
        self.scheduler.report(
            DemandReport(node, 4.0, 8.0, Estimate(0.2 + len(pods), 0.1), held, 1.0, known, pods), self.now
        )
        self.counted[node] = set(pods)

    @rule(uid=st.integers(0, 12).map(str))
    def ask(self, uid):
        self.scheduler.pod_waits(uid, Kind("pi"))
        if uid in self.node and self.node[uid][1] == "bound":
            return
        node = self.scheduler.filter(uid, Kind("pi"), list(self.NODES), self.now).node
        if node is None:
            self.node.pop(uid, None)
        else:
            self.node[uid] = (node, "placed")

    @precondition(lambda self: self.node)
    @rule(data=st.data())
    def bind_and_start(self, data):
        uid = data.draw(st.sampled_from(sorted(self.node)))
        node, _ = self.node[uid]
        self.scheduler.pod_changed(uid, "pi", node, ended=False, now=self.now)
        self.node[uid] = (node, "bound")
        if data.draw(st.booleans()):
            self.runs[node].add(uid)

    @precondition(lambda self: self.node)
    @rule(data=st.data())
    def end(self, data):
        uid = data.draw(st.sampled_from(sorted(self.node)))
        node, _ = self.node.pop(uid)
        if data.draw(st.booleans()):
            self.runs[node].discard(uid)
        self.scheduler.pod_gone(uid, self.now)
        self.runs[node].discard(uid)

    @invariant()
    def a_pod_is_on_its_way_until_it_is_counted(self):
        for uid, (node, _) in self.node.items():
            way = self.scheduler.loads.in_flight(uid)
            if uid in self.counted.get(node, ()):
                continue
            assert way is not None
            assert way.node == node
        assert self.scheduler.loads.in_flight_count <= len(self.node)

    @invariant()
    def nobody_waits_who_has_a_node(self):
        assert not any(uid in self.scheduler.waiting for uid in self.node)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@given(
    st.lists(st.sampled_from(["pi", "light", "wide", "new"]), max_size=8),
    st.floats(0.0, 10.0),
    st.floats(0.5, 8.0),
    st.booleans(),
    st.lists(st.sampled_from(["pi", "light", "wide", "new"]), min_size=1, max_size=3, unique=True),
    st.integers(1, 30),
)
def test_room_appears_exactly_if_a_decision_would_find_it(running, demand, held, critical, kinds, number):
    scheduler = DemandScheduler(DEMAND)
    known = {"pi": Estimate(1.0, 1e-6), "light": Estimate(0.1, 1e-6), "wide": Estimate(3.0, 1e-6)}
    workloads = {
        name: WorkloadReport(running.count(name), 0.0, cost, Estimate(0.4, 1e-4)) for name, cost in known.items()
    }
    counted = {f"runs-{index}": name for index, name in enumerate(running)}
    for kind in kinds:
        for index in range(number):
            scheduler.pod_waits(f"{kind}-{index}", Kind(kind))
    if critical:
        scheduler.pod_changed("server", "server", "a", ended=False, now=0.0, running=True, critical=True)
    scheduler.report(DemandReport("b", 4.0, 8.0, Estimate(4.0, 0.0), 1.0, 1.0, workloads, {}), 0.0)
    before = scheduler.room_appeared
    scheduler.report(DemandReport("a", 4.0, 8.0, Estimate(demand, 0.0), held, 1.0, workloads, counted), 0.0)
    # Node b is a candidate, too: only where a pod may go nowhere else are half idle nodes filled.
    found = any(scheduler.decision(Kind(kind), ["a", "b"], 0.0).fits[0] for kind in kinds)
    assert scheduler.room_appeared - before == found
