"""The API server tells all watchers, of new and bound pods after its latency; its clients keep to their rates."""

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.control_plane.api import ApiServer, RateLimiter


def served_at(arrivals, per_s, burst):
    """When calls that are asked for at `arrivals` may be made."""
    env = simpy.Environment()
    limiter, served = RateLimiter(env, per_s, burst), []

    def call(at):
        yield env.timeout(at)
        yield limiter.wait()
        served.append(env.now)

    for arrival in arrivals:
        env.process(call(arrival))
    env.run()
    return served


def token_bucket(arrivals, per_s, burst):
    """The oracle: a bucket of `burst` tokens, refilled at `per_s`; who finds it empty waits for the next token."""
    tokens, now, served = float(burst), 0.0, []
    for arrival in sorted(arrivals):
        if arrival > now:
            tokens, now = min(burst, tokens + (arrival - now) * per_s), arrival
        if tokens < 1:
            now += (1 - tokens) / per_s
            tokens = 1.0
        tokens -= 1
        served.append(now)
    return served


class TestRateLimiter:
    def test_a_burst_at_once_then_the_rate(self):
        served = served_at([0.0] * 40, per_s=20, burst=30)
        assert served[:30] == pytest.approx([0.0] * 30)
        assert served[30:] == pytest.approx([0.05 * i for i in range(1, 11)])

    def test_without_a_burst_one_at_a_time(self):
        assert served_at([0.0] * 4, per_s=4, burst=1) == pytest.approx([0, 0.25, 0.5, 0.75])

    def test_idle_time_is_saved_up_to_the_burst(self):
        assert served_at([0.0] * 3 + [100.0] * 5, per_s=1, burst=3) == pytest.approx([0, 0, 0, 100, 100, 100, 101, 102])

    def test_a_client_slower_than_the_rate_never_waits(self):
        arrivals = [0.3 * i for i in range(10)]
        assert served_at(arrivals, per_s=4, burst=1) == pytest.approx(arrivals)

    @given(
        st.lists(st.integers(0, 50).map(lambda tenths: tenths / 10), min_size=1, max_size=30),
        st.sampled_from([0.5, 2.0, 8.0, 64.0]),
        st.integers(1, 10),
    )
    def test_agrees_with_a_token_bucket(self, arrivals, per_s, burst):
        served = served_at(arrivals, per_s, burst)
        assert served == pytest.approx(token_bucket(arrivals, per_s, burst), abs=1e-6)


class TestWatches:
    def test_everybody_hears_of_every_change_in_the_order_of_subscription(self, make_pod):
        env, heard = simpy.Environment(), []
        api = ApiServer(env)
        for who in "ab":
            api.watch(
                **{
                    what: lambda pod, who=who, what=what: heard.append((who, what, pod.name))
                    for what in ("created", "bound", "running", "finished")
                }
            )
        pod = make_pod("pod")
        api.create(pod)
        api.bind(pod, 3)
        api.show_running(pod)
        api.show_finished(pod)
        assert heard == [
            (who, what, "pod") for what in ("created", "bound", "running", "finished") for who in ("a", "b")
        ]
        assert (api.pods, pod.node, pod.scheduled_s) == ([pod], 3, env.now)

    def test_a_watcher_may_listen_to_some_changes_only(self, make_pod):
        api, heard = ApiServer(simpy.Environment()), []
        api.watch(finished=heard.append)
        pod = make_pod("pod")
        api.create(pod)
        api.bind(pod, 0)
        assert heard == []
        api.show_finished(pod)
        assert heard == [pod]

    def test_of_new_and_bound_pods_they_hear_after_the_latency(self, make_pod):
        env, heard = simpy.Environment(), []
        api = ApiServer(env, watch_latency_s=0.5)
        api.watch(
            **{
                what: lambda pod, what=what: heard.append((env.now, what))
                for what in ("created", "bound", "running", "finished")
            }
        )
        pod = make_pod("pod")
        api.create(pod)
        api.show_running(pod)
        env.run(1)
        api.bind(pod, 0)
        api.show_finished(pod)
        assert (pod.node, pod.scheduled_s) == (0, 1), "the API itself knows at once"
        env.run(2)
        assert heard == [(0, "running"), (0.5, "created"), (1, "finished"), (1.5, "bound")]

    def test_of_a_changed_node_they_hear_after_the_latency(self):
        env, heard = simpy.Environment(), []
        api = ApiServer(env, watch_latency_s=0.5)
        for who in "ab":
            api.watch(node_changed=lambda node, who=who: heard.append((env.now, who, node)))
        api.change_node(3)
        env.run(2)
        assert heard == [(0.5, "a", 3), (0.5, "b", 3)]
