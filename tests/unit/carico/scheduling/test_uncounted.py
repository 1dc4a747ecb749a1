"""Running pods that no report counts."""

from carico.scheduling.uncounted import UNCOUNTED_S, Uncounted


def test_a_pod_of_a_node_that_has_never_reported_is_not_left_out():
    pods = Uncounted(stale_after_s=5.0)
    pods.runs("pod", "node-0", now=0.0, optional=True)
    pods.reported("node-1", now=UNCOUNTED_S, says=True)
    assert not pods.left_out("pod", now=UNCOUNTED_S)
