"""Pods that wait."""

from carico.demand.waiting import Kind, Waiting


def test_a_pod_waits_until_it_has_a_node():
    waiting = Waiting()
    for uid, workload in (("a", "pi"), ("a", "pi"), ("b", "web")):
        waiting.add(uid, Kind(workload))
    assert len(waiting) == 2
    assert dict(waiting.kinds) == {Kind("pi"): 1, Kind("web"): 1}
    waiting.refused.add("a")
    for _ in range(2):
        waiting.remove("a")
    assert "a" not in waiting
    assert not waiting.refused
    assert dict(waiting.kinds) == {Kind("web"): 1}
