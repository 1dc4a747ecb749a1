"""Pods by the API: which ones count, and that listing and watch are joined whatever happens in between."""

import queue

import pytest

from carico.errors import CaricoError, PodEventsError
from carico.podevents.kube_watch import KubeWatch
from carico.testing import ManualClock


def pod(uid, namespace="default", phase="Running", owner=None, annotations=None):
    metadata = {"uid": uid, "namespace": namespace, "annotations": annotations}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "x"}]
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}


class FakeApi:
    """The pods of one node; a watch replays them and then says what the test says."""

    def __init__(self, *pods):
        self.pods = {one["metadata"]["uid"]: one for one in pods}
        self.before_watch = lambda: None
        self.problem = None
        self.news = queue.SimpleQueue()

    def list_pods(self, node):
        assert node == "n1"
        if self.problem:
            raise self.problem
        return list(self.pods.values())

    def watch_pods(self, node):
        self.before_watch()
        for one in list(self.pods.values()):
            yield "ADDED", one
        while (item := self.news.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def put(self, one):
        kind = "MODIFIED" if one["metadata"]["uid"] in self.pods else "ADDED"
        self.pods[one["metadata"]["uid"]] = one
        self.news.put((kind, one))

    def delete(self, uid):
        self.news.put(("DELETED", self.pods.pop(uid)))


AGENT = pod("agent", namespace="carico", owner="DaemonSet")


@pytest.fixture
def watching(told):
    """Begins to watch; the thread is let go at the end."""
    apis, sources = [], []

    def watching(api, **options):
        apis.append(api)
        sources.append(KubeWatch(api, "n1", clock=ManualClock(2.0), **options))
        sources[-1].start(told)
        return sources[-1]

    yield watching
    for source in sources:
        source.close()
    for api in apis:
        api.news.put(None)


def test_pods_count_from_their_binding_to_their_end(watching, told):
    api = FakeApi(AGENT)
    source = watching(api)
    api.put(pod("a", phase="Pending"))
    assert told.wait_for(1) == [(1, 2.0)]
    api.put(pod("a"))
    api.put(pod("b"))
    told.wait_for(2)
    api.put(pod("a", phase="Succeeded"))
    told.wait_for(1)
    api.delete("a")
    api.put(pod("c", phase="Pending"))
    told.wait_for(2)
    api.put(pod("c", phase="Failed"))
    told.wait_for(1)
    api.delete("b")
    told.wait_for(0)
    assert source.count() == 0
    assert [change for change, _ in told.changes] == [1, 1, -1, 1, -1, -1]


@pytest.mark.parametrize(
    "one",
    [
        AGENT,
        pod("proxy", namespace="kube-system"),
        pod("log", owner="DaemonSet"),
        pod("static", annotations={"kubernetes.io/config.mirror": "0123"}),
        pod("over", phase="Succeeded"),
        pod("evicted", phase="Failed"),
    ],
    ids=lambda one: one["metadata"]["uid"],
)
def test_pods_that_do_not_count(one, watching, told):
    api = FakeApi(one, pod("a"), pod("job", owner="Job", annotations={"other": "1"}))
    source = watching(api)
    assert told.so_far() == source.count() == 2
    api.put(one)
    api.delete("a")
    told.wait_for(1)
    assert [change for change, _ in told.changes] == [1, 1, -1]


def test_the_namespaces_left_out_are_the_callers(watching, told):
    watching(FakeApi(pod("a", namespace="batch"), pod("b", namespace="kube-system")), excluded_namespaces=("batch",))
    assert told.so_far() == 1


def test_what_happens_between_listing_and_watch_is_not_lost(watching, told):
    api = FakeApi(AGENT, pod("a"), pod("b"))

    def meanwhile():
        del api.pods["a"]
        api.pods["c"] = pod("c")
        api.pods["d"] = pod("d")

    api.before_watch = meanwhile
    watching(api)
    told.wait_for(3)
    api.put(pod("e"))
    told.wait_for(4)
    assert sum(change for change, _ in told.changes) == 4
    assert [change for change, _ in told.changes].count(-1) == 1


def test_after_a_cut_what_was_missed_is_told(watching, told, quick_reconnects, caplog):
    api = FakeApi(AGENT, pod("a"), pod("b"))
    source = watching(api)
    told.wait_for(2)

    def meanwhile():
        api.before_watch = lambda: None
        del api.pods["b"]
        api.pods["c"], api.pods["d"] = pod("c"), pod("d")

    api.before_watch = meanwhile
    api.news.put(CaricoError("connection reset"))
    told.wait_for(3)
    assert source.failures == 1
    assert "cannot be watched: connection reset" in caplog.text


def test_a_watch_that_ends_is_begun_anew_and_is_no_failure(watching, told, quick_reconnects):
    api = FakeApi(AGENT, pod("a"))
    source = watching(api)
    api.news.put(None)
    api.put(pod("b"))
    told.wait_for(2)
    assert source.failures == 0


def test_an_api_that_does_not_answer_is_the_callers_problem_at_start(told):
    api = FakeApi()
    api.problem = CaricoError("403: pods is forbidden")
    source = KubeWatch(api, "n1")
    for ask in (source.count, lambda: source.start(told)):
        with pytest.raises(PodEventsError, match="pods of n1 cannot be listed: 403"):
            ask()
    source.close()


def test_closed_it_tells_no_more(watching, told):
    api = FakeApi(AGENT)
    source = watching(api)
    source.close()
    api.put(pod("a"))
    assert told.so_far() == 0
