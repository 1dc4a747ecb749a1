"""Reservations in a model of a cluster that fails: one run of each fault; `python -m benchmarks.robustness` has more.

A failing run is repeated by `python -m benchmarks.robustness --fault NAME --seed N --runs 1 -v`.
"""

import pytest

from benchmarks.robustness.__main__ import judge
from benchmarks.robustness.faults import FAULTS

PODS = 40
BOUNDED = ["silent-node", "late-reports", "takeover-blind", "takeover-late-binds", "everything"]
"""Faults under which capacity is not promised, only bounded."""


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in BOUNDED])
def test_no_pod_is_placed_over_capacity_or_lost_and_nothing_leaks(fault):
    findings, _ = judge("demand", fault, seed=1, pods=PODS)
    assert findings.pods == PODS
    assert findings.clean, findings


@pytest.mark.parametrize("fault", BOUNDED)
def test_no_pod_is_lost_and_nothing_leaks_under_any_fault(fault):
    findings, _ = judge("demand", fault, seed=1, pods=PODS)
    assert (findings.lost, findings.leaks) == (0, []), findings


def test_a_seed_repeats_its_run():
    runs = [judge("demand", "everything", seed=3, pods=PODS, verbose=True) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_violation_is_found():
    """The thesis's reservation ends before a report counts the pod: that must be found."""
    findings, lines = judge("thesis-rebased", "none", seed=1, pods=100, verbose=True, until_counted=False)
    assert findings.over
    assert any("VIOLATION" in line for line in lines)
