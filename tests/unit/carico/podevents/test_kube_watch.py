"""Pods by the API: which ones count, and that listing and watch are joined whatever happens in between."""

import queue

import pytest

from carico.errors import CaricoError, PodEventsError
from carico.podevents.kube_watch import KubeWatch
from carico.podevents.source import PodChange, may_be_left_out
from carico.testing import ManualClock


def pod(uid, namespace="default", phase="Running", owner=None, annotations=None):
    metadata = {"uid": uid, "namespace": namespace, "name": f"{uid}-0", "annotations": annotations}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "x"}]
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}


class FakePods:
    """The pods of one node; a version is the number of events until then."""

    def __init__(self, *pods):
        self.pods = {one["metadata"]["uid"]: one for one in pods}
        self.before_watch = lambda: None
        self.problem = None
        self.news = queue.SimpleQueue()
        """What a watch that waits is woken with: an exception is its failure, None its end."""
        self._events = []

    def list(self):
        if self.problem:
            raise self.problem
        return list(self.pods.values()), str(len(self._events))

    def watch(self, version):
        self.before_watch()
        seen, woken_by = int(version), "a look"
        while woken_by is not None:
            if isinstance(woken_by, Exception):
                raise woken_by
            yield from self._events[seen:]
            seen = len(self._events)
            woken_by = self.news.get()

    def close(self):
        self.news.put(None)

    def put(self, one):
        self._tell("MODIFIED" if one["metadata"]["uid"] in self.pods else "ADDED", one)
        self.pods[one["metadata"]["uid"]] = one

    def delete(self, uid):
        self._tell("DELETED", self.pods.pop(uid))

    def _tell(self, kind, one):
        self._events.append((kind, one))
        self.news.put("an event")


AGENT = pod("agent", namespace="carico", owner="DaemonSet")


@pytest.fixture
def watching(told):
    """A function that begins to watch; all is closed at the end."""
    sources = []

    def watching(api, **options):
        sources.append(KubeWatch(api, "n1", clock=ManualClock(2.0), **options))
        sources[-1].start(told)
        return sources[-1]

    yield watching
    for source in sources:
        source.close()


def test_pods_count_from_their_binding_to_their_end(watching, told):
    api = FakePods(AGENT)
    watching(api)
    api.put(pod("a", phase="Pending"))
    assert told.wait_for(1) == [PodChange(+1, 2.0, "a", "default/a-0")]
    api.put(pod("a"))
    api.put(pod("b"))
    told.wait_for(2)
    api.put(pod("a", phase="Succeeded"))
    assert told.wait_for(1) == [PodChange(-1, 2.0, "a", "default/a-0")]
    api.delete("a")
    api.put(pod("c", phase="Pending"))
    told.wait_for(2)
    api.put(pod("c", phase="Failed"))
    told.wait_for(1)
    api.delete("b")
    told.wait_for(0)
    assert told.steps == [1, 1, -1, 1, -1, -1]


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
    api = FakePods(one, pod("a"), pod("job", owner="Job", annotations={"other": "1"}))
    watching(api)
    assert told.so_far() == 2
    api.put(one)
    api.delete("a")
    told.wait_for(1)
    assert told.steps == [1, 1, -1]


STATES = {"runs": {"running": {"startedAt": "2030-01-01T12:00:00Z"}}, "crashed": {"waiting": {"reason": "Crash"}}}


@pytest.mark.parametrize(
    ("containers", "init_containers", "may"),
    [
        ([], [], False),
        (["runs"], [], False),
        (["crashed", "runs"], [], False),
        (["crashed"], ["runs"], False),
        (["crashed"], ["crashed"], True),
    ],
)
def test_a_pod_none_of_whose_containers_runs_need_not_be_counted(containers, init_containers, may):
    shown = pod("a")
    shown["status"]["containerStatuses"] = [{"state": STATES[each]} for each in containers]
    shown["status"]["initContainerStatuses"] = [{"state": STATES[each]} for each in init_containers]
    assert may_be_left_out(shown, ()) == may


@pytest.mark.parametrize(
    "shown",
    [
        pod("a", namespace="kube-system"),
        pod("a", owner="DaemonSet"),
        pod("a", annotations={"kubernetes.io/config.mirror": "1"}),
    ],
    ids=["namespace", "DaemonSet", "static"],
)
def test_a_pod_of_the_platform_need_not_be_counted(shown):
    assert may_be_left_out(shown, ["kube-system"])


def test_the_caller_chooses_the_excluded_namespaces(watching, told):
    watching(FakePods(pod("a", namespace="batch"), pod("b", namespace="kube-system")), excluded_namespaces=("batch",))
    assert told.so_far() == 1


def test_what_happens_between_listing_and_watch_is_not_lost(watching, told):
    api = FakePods(AGENT, pod("a"), pod("b"))

    def meanwhile():
        api.before_watch = lambda: None
        api.delete("a")
        api.put(pod("c"))
        api.put(pod("d"))

    api.before_watch = meanwhile
    watching(api)
    told.wait_for(3)
    api.put(pod("e"))
    told.wait_for(4)
    assert sum(told.steps) == 4
    assert told.steps.count(-1) == 1


def test_after_a_cut_what_was_missed_is_told(watching, told, quick_reconnects, caplog):
    api = FakePods(AGENT, pod("a"), pod("b"))
    watching(api)
    told.wait_for(2)
    del api.pods["b"]
    api.pods["c"], api.pods["d"] = pod("c"), pod("d")
    api.news.put(CaricoError("connection reset"))
    told.wait_for(3)
    assert told.running == {uid: f"default/{uid}-0" for uid in "acd"}
    assert "cannot be watched: connection reset" in caplog.text


def test_a_watch_that_ends_is_begun_again_and_is_no_failure(watching, told, quick_reconnects, caplog):
    api = FakePods(AGENT, pod("a"))
    watching(api)
    api.news.put(None)
    api.put(pod("b"))
    told.wait_for(2)
    assert "trying again" not in caplog.text


def test_an_api_that_does_not_answer_is_an_error_at_the_start(told):
    api = FakePods()
    api.problem = CaricoError("403: pods is forbidden")
    source = KubeWatch(api, "n1")
    with pytest.raises(PodEventsError, match="pods of n1 cannot be listed: 403"):
        source.start(told)
    source.close()


def test_a_closed_source_tells_no_more(watching, told):
    api = FakePods(AGENT)
    source = watching(api)
    source.close()
    api.put(pod("a"))
    assert told.so_far() == 0
