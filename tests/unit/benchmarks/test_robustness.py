"""Reservations in a model of a cluster that fails: one run of each fault; `python -m benchmarks.robustness` has more.

A failing run is repeated by `python -m benchmarks.robustness --fault NAME --seed N --runs 1 -v`.
"""

import pytest

from benchmarks.robustness.__main__ import judge
from benchmarks.robustness.faults import FAULTS
from benchmarks.robustness.kube_scheduler import KubeScheduler

PODS = 40
LATE = "takeover-late-binds"
"""The fault under which pods over capacity are bounded by the pods that a former leader bound late."""


@pytest.mark.parametrize("variant", ["demand", "thesis-rebased"])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != LATE])
def test_no_pod_is_placed_over_capacity_lost_or_starved_and_nothing_leaks(fault, variant):
    findings, _ = judge(variant, fault, seed=1, pods=PODS)
    assert findings.pods == PODS
    assert findings.clean, findings
    assert findings.over == 0


@pytest.mark.parametrize("variant", ["demand", "thesis-rebased"])
def test_only_what_a_former_leader_bound_late_is_over_capacity(variant):
    findings, _ = judge(variant, LATE, seed=1, pods=100)
    assert findings.clean, findings
    assert findings.over > 0
    assert 0 < findings.worst <= findings.late


def test_agents_that_do_not_say_which_pods_they_count_are_no_danger():
    findings, _ = judge("thesis-rebased", "slow-images", seed=1, pods=PODS, older_agents=True)
    assert findings.clean, findings


# The seeds under which a pod was placed over capacity: its request arrived twice; a report of before it arrived late.
@pytest.mark.parametrize(("fault", "seed"), [("duplicates", 7), ("duplicates", 8), ("late-reports", 7)])
def test_what_the_checker_found_is_not_found_again(fault, seed):
    findings, _ = judge("demand", fault, seed, pods=100)
    assert findings.clean, findings


def test_a_seed_repeats_its_run():
    runs = [judge("demand", "everything", seed=3, pods=PODS, verbose=True) for _ in range(2)]
    assert runs[0] == runs[1]


def test_pods_that_nobody_wakes_are_found_to_starve(monkeypatch):
    """kube-scheduler tries refused pods again after five minutes by itself."""
    monkeypatch.setattr(KubeScheduler, "something_changed", lambda self: None)
    findings, lines = judge("thesis-rebased", "none", seed=1, pods=PODS, verbose=True)
    assert findings.starved
    assert not findings.clean
    assert any("s are allowed" in line for line in lines)


def test_a_violation_is_found():
    """The thesis's reservation ends before a report counts the pod: that must be found."""
    findings, lines = judge("thesis-rebased", "none", seed=1, pods=100, verbose=True, until_counted=False)
    assert findings.over
    assert any("VIOLATION" in line for line in lines)
