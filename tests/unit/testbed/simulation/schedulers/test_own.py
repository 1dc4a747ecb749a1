"""A scheduler of one's own on the simulated cluster: what it is asked, what it is told, and what its errors do."""

from itertools import pairwise

import pytest

from testbed.errors import OwnCodeFailed
from testbed.schedulers import Scheduler
from testbed.schedulers.spec import OwnSpec
from testbed.simulation.cluster import SimulatedCluster
from testbed.simulation.parameters import SimulationParameters
from tests.unit.testbed.simulation.simulated_runs import job, scenario
from workloads.scenario import NodeChange


class First(Scheduler):
    """Prefers the node with the lowest name, and notes what it is told."""

    seen: list  # set by the fixture

    def start(self, cluster):
        self.cluster = cluster
        self.seen.append(("start", [node.name for node in cluster.nodes], cluster.now()))

    def score(self, pod, node):
        return -int(node.name.rpartition("-")[2])

    def reserve(self, pod, node):
        self.seen.append(("reserve", pod.name, node.name, len(node.pods), node.free_millicpu))

    def unreserve(self, pod, node):
        self.seen.append(("unreserve", pod.name, node.name, len(node.pods), pod.running))

    def observe(self, node):
        self.seen.append(("observe", node.name, node.telemetry, self.cluster.now()))


@pytest.fixture(autouse=True)
def seen(monkeypatch):
    told = []
    monkeypatch.setattr(First, "seen", told, raising=False)
    return told


def run(kind, of=None, seed=1, **parameters):
    of = of or scenario(job(pods=4), nodes=2)
    spec = OwnSpec("own", kind=kind)
    return SimulatedCluster(of, spec, seed, SimulationParameters(warm_up_s=2.0, **parameters)).run()


def told(seen, what):
    return [one[1:] for one in seen if one[0] == what]


def test_the_highest_score_wins_among_the_nodes_that_have_room_for_the_requests(seen):
    crowd = scenario(job(pods=4, requests={"cpu": "1500m"}), nodes=2)
    repetition = run(First, crowd)
    assert sorted(pod.node for pod in repetition.pods) == ["node-0", "node-0", "node-1", "node-1"]
    assert told(seen, "start") == [(["node-0", "node-1"], -2.0)]
    assert [free for *_, free in told(seen, "reserve")] == [2300, 800, 2300, 800]
    assert repetition.settings["scheduler"].endswith(":First")


def test_it_is_told_when_pods_are_over(seen):
    run(First)
    ended = told(seen, "unreserve")
    assert len(ended) == 4
    assert all(running for *_, running in ended)
    assert ended[-1][2] == 0


def test_telemetry_arrives_once_a_second_and_as_late_as_the_settings_say(seen):
    run(First, report_delay_s=1.5)
    mine = [(telemetry, now) for name, telemetry, now in told(seen, "observe") if name == "node-0"]
    assert [round(later - earlier, 6) for (_, earlier), (_, later) in pairwise(mine)] == [1.0] * (len(mine) - 1)
    for telemetry, now in mine:
        assert now - telemetry.at_s == pytest.approx(1.5)
        assert 0 <= telemetry.cpu_utilisation <= 1
    assert max(telemetry.cpu_utilisation for telemetry, _ in mine) > 0.5


def test_lost_reports_do_not_arrive(seen):
    run(First, report_loss=1.0)
    assert told(seen, "observe") == []


def test_a_failed_node_has_no_telemetry_until_it_is_back(seen):
    of = scenario(
        job(pods=1, workload="stress", parameters={"duration_s": 40, "cpu": 1}),
        node_changes=[NodeChange(5.0, "node-1", "failed"), NodeChange(20.0, "node-1", "recovered")],
    )
    run(First, of)
    heard = [now for name, _, now in told(seen, "observe") if name == "node-1"]
    assert any(now < 5 for now in heard)
    assert not any(6 < now < 20 for now in heard)
    assert any(now > 20 for now in heard)


class Filling(First):
    def filter(self, pod, node):
        return len(node.pods) < 1

    def observe(self, node):
        if not node.pods:
            self.cluster.retry(node)


def test_refused_pods_are_tried_again_when_a_pod_ends_or_when_it_asks_for_it():
    repetition = run(Filling)
    spans = sorted((pod.started_s, pod.finished_s) for pod in repetition.pods if pod.node == "node-0")
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert {pod.outcome for pod in repetition.pods} == {"succeeded"}


class AtRandom(Scheduler):
    pass


def test_the_same_seed_gives_the_same_run_and_equal_scores_are_decided_by_chance():
    first, again, other = (run(AtRandom, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert [pod.node for pod in first.pods] != [pod.node for pod in other.pods]


def test_one_that_uses_no_requests_sees_none(seen):
    class NoRequests(First):
        uses_requests = False

    run(NoRequests, scenario(job(pods=4, requests={"cpu": "1500m"}), nodes=2))
    assert {free for *_, free in told(seen, "reserve")} == {3800}


def test_agents_of_carico_may_run_beside_it():
    repetition = run(First, agents=True)
    assert any(value is not None for value in repetition.nodes[0].capacity_signal)


def test_its_errors_name_the_call_and_the_place():
    class Broken(First):
        def score(self, pod, node):
            return 1 / 0

    class NotANumber(First):
        def score(self, pod, node):
            return float("nan")

    class NoStart(First):
        def start(self, cluster):
            raise RuntimeError("no idea")

    with pytest.raises(OwnCodeFailed, match=r"own: score\(.*, node-0\) raised ZeroDivisionError: .*test_own.py, line"):
        run(Broken)
    with pytest.raises(OwnCodeFailed, match=r"own: score\(.*, node-0\) returned nan: a finite number is needed"):
        run(NotANumber)
    with pytest.raises(OwnCodeFailed, match="own: start raised RuntimeError: no idea"):
        run(NoStart)


def test_errors_that_the_caller_sees_first_name_the_method():
    class Text(First):
        def score(self, pod, node):
            return "x"

    class Fewer(First):
        def filter(self, pod):
            return True

    for kind, method, said in (
        (Text, Text.score, r"score\(.*, node-0\) returned 'x': a finite number is needed"),
        (Fewer, Fewer.filter, r"filter\(.*, node-0\) raised TypeError: .*filter\(\) takes 2 positional"),
    ):
        line = method.__code__.co_firstlineno
        with pytest.raises(OwnCodeFailed, match=rf"own: {said}.* \(.*test_own.py, line {line}\)$"):
            run(kind)
