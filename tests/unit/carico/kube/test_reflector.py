"""Pods are followed through whatever the API server and the network do."""

import queue
import random
import threading
import time

import pytest

from carico.clock import SystemClock
from carico.errors import KubeUnreachable
from carico.kube.reflector import SILENT_S, Reflector
from carico.testing import ManualClock
from tests.kits.fake_api_server import pod


class Followed:
    """What a reflector has told; the first pod named `end` stops it."""

    def __init__(self, pods, clock=None):
        self.told = []
        self.waits = []
        self.following = []
        self.reflector = Reflector(
            pods,
            self._changed,
            clock or SystemClock(),
            random.Random(1),
            deleted=lambda uid: self.told.append(("gone", uid)),
            listed=lambda: self.told.append("listed"),
            following=lambda following: self.following.append(following),
        )
        self.stop = self.reflector._stop
        self.reflector._wait = self.waits.append

    def _changed(self, found):
        self.told.append(found["metadata"]["name"])
        if found["metadata"]["name"] == "end":
            self.stop.set()

    def run(self):
        self.reflector.run()
        return self.told


END = ("ADDED", pod("end", 999))


@pytest.fixture
def follow(client):
    return lambda: Followed(client.pods("spec.schedulerName=carico"))


def versions(server):
    return [request.query["resourceVersion"] for request in server.asked if "watch" in request.query]


def test_lists_then_watches_from_there(server, follow):
    server.set_pods(pod("a"))
    server.watches = [[("ADDED", pod("b", 101)), ("MODIFIED", pod("a", 102)), ("DELETED", pod("b", 103)), END]]
    assert follow().run() == ["a", "listed", "b", "a", ("gone", "uid-b"), "end"]
    assert versions(server) == ["100"]


def test_a_closed_stream_is_resumed_where_it_ended(server, follow):
    bookmark = ("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
    server.watches = [[("ADDED", pod("a", 101))], [bookmark], [END]]
    followed = follow()
    assert followed.run() == ["listed", "a", "end"]
    assert versions(server) == ["100", "101", "150"]
    assert followed.waits == [], "that is no failure"


def test_a_cut_stream_is_resumed_where_it_ended(server, follow):
    server.watches = [[("ADDED", pod("a", 101)), "cut"], [END]]
    followed = follow()
    assert followed.run() == ["listed", "a", "end"]
    assert versions(server) == ["100", "101"]
    assert len(followed.waits) == 1
    assert followed.following[:2] == [True, False]


@pytest.mark.parametrize("silence_s", [0.3])
def test_a_silent_stream_is_resumed_where_it_ended(server, follow):
    server.watches = [[("ADDED", pod("a", 101)), "stall"], [END]]
    assert follow().run() == ["listed", "a", "end"]
    assert versions(server) == ["100", "101"]


@pytest.mark.parametrize("gone", [["gone"], [("ERROR", {"code": 410, "message": "too old"})]], ids=["http", "event"])
def test_if_the_version_is_too_old_pods_are_listed_again_and_deletions_are_told(server, follow, gone):
    server.set_pods(pod("a"), pod("b"))
    server.watches = [gone, gone, [END]]
    followed = follow()
    listing = followed.reflector._list

    def list_and_lose_a():
        listing()
        server.set_pods(pod("b"), pod("c"))

    followed.reflector._list = list_and_lose_a
    assert followed.run() == ["a", "b", "listed", ("gone", "uid-a"), "b", "c", "listed", "b", "c", "listed", "end"]


def test_a_listing_that_fails_is_tried_again(server, follow):
    server.statuses = [500, 403]
    server.watches = [[END]]
    followed = follow()
    assert followed.run() == ["listed", "end"]
    assert len(followed.waits) == 2


def test_a_pod_that_a_callback_failed_on_is_told_again(server, follow, caplog):
    server.watches = [[("ADDED", pod("a", 101))], [END]]
    followed = follow()
    tell, failures = followed.reflector._changed, [KeyError("spec")]

    def fail_once(found):
        if failures:
            server.set_pods(pod("a", 101))
            raise failures.pop()
        tell(found)

    followed.reflector._changed = fail_once
    assert followed.run() == ["listed", "a", "listed", "end"]
    assert len(followed.waits) == 1
    assert "KeyError: 'spec'" in caplog.text


class Broken:
    """A server that is down for so many calls, or closes streams at once."""

    def __init__(self, failures=0, empty=0):
        self.failures, self.empty = failures, empty

    def list(self):
        if self.failures:
            self.failures -= 1
            raise KubeUnreachable("down")
        return [], "1"

    def close(self):
        pass

    def watch(self, version):
        if self.empty:
            self.empty -= 1
            return
        yield END


@pytest.mark.parametrize(
    ("wait_s", "hurried", "waits"), [(30.0, True, [5.0]), (30.0, False, [5.0, 25.0]), (2.0, True, [2.0])]
)
def test_who_needs_the_pods_shortens_a_long_wait(follow, wait_s, hurried, waits):
    waited = []
    reflector = follow().reflector
    del reflector._wait
    reflector._stop.wait = waited.append
    if hurried:
        reflector.hurry()
    else:
        reflector._hurried.wait = waited.append
    reflector._wait(wait_s)
    assert waited == waits
    assert not reflector._hurried.is_set()


def test_waits_grow_are_spread_and_bounded():
    followed = Followed(Broken(failures=12), ManualClock())
    followed.run()
    limits = [min(30, 0.2 * 2**n) for n in range(12)]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(followed.waits, limits, strict=True))
    assert len({wait / limit for wait, limit in zip(followed.waits, limits, strict=True)}) == 12


def test_a_server_that_closes_at_once_is_not_flooded():
    followed = Followed(Broken(empty=5), ManualClock())
    followed.run()
    assert len(followed.waits) == 5
    assert followed.waits[-1] > 1


class TestInAThread:
    @pytest.fixture
    def told(self):
        return queue.SimpleQueue()

    def test_closing_ends_it_promptly_and_tells_nothing_afterwards(self, client, server, told):
        server.watches = [[("ADDED", pod("a", 101)), "stall"]]
        pods = client.pods("metadata.namespace=jobs")
        with Reflector(pods, lambda one: told.put(one["metadata"]["name"]), SystemClock(), random.Random(1)) as follow:
            assert told.get(timeout=5) == "a"
            began = time.monotonic()
        assert not follow.is_alive()
        assert time.monotonic() - began < 2, "the stream would have been silent for five seconds"
        server.put("/api/v1/namespaces/jobs/pods/b", **pod("b"))
        assert told.empty()

    def test_it_starts_and_closes_without_a_server(self, told, caplog):
        follow = Reflector(Broken(failures=10**6), told.put, SystemClock(), random.Random(1))
        with follow:
            assert follow.is_alive()
        assert not follow.is_alive()


class TestCatchingUp:
    """Whoever must know all pods does not trust a stream that is silent."""

    @pytest.fixture
    def pods(self):
        """What the API has, and what is done while it is listed."""

        class Pods:
            def __init__(self):
                self.here, self.meanwhile, self.listed = [], lambda: None, 0

            def list(self):
                found, self.listed = list(self.here), self.listed + 1
                self.meanwhile()
                return found, "100"

            def watch(self, version):
                yield from ()

            def close(self):
                pass

        return Pods()

    @pytest.fixture
    def clock(self):
        return ManualClock()

    @pytest.fixture
    def followed(self, pods, clock):
        """Has listed the pods a and b, and has had no news since for longer than it is trusted."""
        pods.here = [pod("a"), pod("b")]
        followed = Followed(pods, clock)
        followed.reflector.follow()
        followed.told.clear()
        clock.advance(SILENT_S + 0.1)
        return followed

    def test_what_a_stuck_stream_does_not_bring_is_listed(self, pods, clock, followed):
        pods.here = [pod("b"), pod("c")]
        followed.reflector.catch_up()
        assert followed.told == [("gone", "uid-a"), "b", "c"]
        followed.told.clear()
        followed.reflector.catch_up()
        assert followed.told == [], "it was listed a moment ago"
        clock.advance(SILENT_S + 0.1)
        pods.here = []
        followed.reflector.catch_up()
        assert sorted(followed.told) == [("gone", "uid-b"), ("gone", "uid-c")]

    @pytest.mark.parametrize("kind", ["MODIFIED", "BOOKMARK"])
    def test_a_stream_that_has_just_brought_something_is_trusted(self, pods, followed, kind):
        followed.reflector._take(
            kind, pod("a", 101) if kind == "MODIFIED" else {"metadata": {"resourceVersion": "101"}}
        )
        followed.reflector.catch_up()
        assert pods.listed == 1

    def test_what_the_stream_brings_meanwhile_is_newer_than_the_listing(self, pods, followed):
        def news():
            followed.reflector._take("DELETED", pod("a", 101))
            followed.reflector._take("ADDED", pod("c", 102))

        pods.meanwhile = news
        followed.reflector.catch_up()
        assert followed.told == [("gone", "uid-a"), "c", "b"], "a is not told again, and c is not gone"
        assert followed.reflector._known == {"uid-b", "uid-c"}

    def test_a_failure_is_raised_and_changes_nothing(self, pods, followed):
        def fail():
            raise KubeUnreachable("down")

        pods.meanwhile = fail
        for _ in range(2):
            with pytest.raises(KubeUnreachable, match="down"):
                followed.reflector.catch_up()
        assert followed.told == []

    def test_of_several_threads_one_lists(self, pods, followed):
        arrived = threading.Barrier(3)

        def catch_up():
            arrived.wait(5)
            followed.reflector.catch_up()

        threads = [threading.Thread(target=catch_up) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert pods.listed == 2, "once at the beginning, and once by one of three"

    def test_over_the_network_while_the_stream_is_open(self, server, client):
        server.set_pods(pod("a"))
        server.watches = [["stall"]]
        told = queue.Queue()
        clock = ManualClock()
        selection = client.pods("spec.schedulerName=carico")
        with Reflector(selection, lambda found: told.put(found["metadata"]["name"]), clock, random.Random(1)) as watch:
            assert told.get(timeout=5) == "a"
            while not versions(server):  # the stream is open
                time.sleep(0.01)
            server.set_pods(pod("a"), pod("b"))
            clock.advance(SILENT_S + 0.1)
            watch.catch_up()
            assert [told.get_nowait(), told.get_nowait()] == ["a", "b"]
