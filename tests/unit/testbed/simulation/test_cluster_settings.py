"""Settings of a simulated run, its telemetry and progress, and the effect of waking refused pods."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from carico.model.variants import DEFAULT_VARIANT
from testbed.errors import InvalidSetting, UsageError
from testbed.schedulers.spec import parse_spec
from testbed.simulation.provider import SimulatedProvider

from .simulated_runs import SMALL, check, cluster, job, run, scenario, small


class TestSettings:
    @pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
    @pytest.mark.parametrize(
        "parameters",
        [
            {"tick_s": 0.05},
            {"tick_s": 0.02},
            {"warm_up_s": 0.5},
            {"warm_up_s": 10.1},
            {"start_delay_min_s": 0, "start_delay_max_s": 0, "start_cpu_s": 0, "stop_cpu_s": 0},
            {"background_cores": 0, "background_cores_per_pod": 0, "background_memory": 0},
            {"background_cores": 3.5, "background_cores_per_pod": 0.5},
            {"system_weight": 0},
            {"system_weight": 1e9, "start_cpu_s": 5},
            {"contention_loss": 0.5, "node_speed_variation": 0.5},
            {"starts_per_s": 0.5},
            {"platform_millicpu": 0, "platform_memory_mib": 0},
            {"pod_creations_per_s": 1, "pod_creations_burst": 1, "bindings_per_s": 1, "bindings_burst": 1},
            {"scheduling_attempts_per_s": 1},
            {"backoff_initial_s": 0.001, "backoff_max_s": 0.001, "carico_backoff_max_s": 0.001},
            {"running_visible_max_s": 30, "finished_visible_min_s": 0, "finished_visible_max_s": 0},
            {"pressure": "at-least-one-waiting"},
        ],
        ids=str,
    )
    def test_extremes(self, scheduler, parameters):
        of = scenario(job(pods=8, parameters={"digits": 1000}), limit_s=600.0)
        repetition = run(of, scheduler, **parameters)
        check(of, repetition)
        assert repetition.job_completion_time_s["pi"] is not None

    def test_without_warm_up_the_series_begin_at_one_second_too(self):
        repetition = run(scenario(job(pods=8), limit_s=10.0), warm_up_s=0)
        assert repetition.nodes[0].time_s[:3] == [1.0, 2.0, 3.0]

    def test_agents_that_hear_nothing_offer_nothing(self):
        of = scenario(job(pods=2), limit_s=10.0)
        repetition = run(of, "carico", sample_loss=1.0)
        check(of, repetition)
        assert {pod.node for pod in repetition.pods} == {None}
        assert {capacity for node in repetition.nodes for capacity in node.pod_capacity} == {0.0}

    @pytest.mark.parametrize(
        ("seed", "settings", "error"),
        [(-1, {}, UsageError), (1, {"colour": "red"}, InvalidSetting), (1, {"tick_s": "fast"}, InvalidSetting)],
    )
    def test_what_makes_no_sense_is_refused(self, seed, settings, error):
        with pytest.raises(error):
            SimulatedProvider().check(SMALL, parse_spec("carico"), settings).run(seed)

    def test_settings_may_be_text(self):
        as_text = SimulatedProvider().check(SMALL, parse_spec("kube-scheduler"), {"warm_up_s": "2"}).run(1)
        assert msgspec.json.encode(as_text) == msgspec.json.encode(small("kube-scheduler"))


class TestWatching:
    def test_telemetry_is_10_hz_from_the_beginning(self):
        telemetry = []
        repetition = cluster(SMALL, observer=DEFAULT_VARIANT, telemetry=telemetry).run()
        times = [float(sample.at_s) for sample in telemetry]
        assert times == pytest.approx([(tick + 1) / 10 for tick in range(len(times))])
        assert len(times) // 10 == len(repetition.nodes[0].time_s)
        # The mean of ten samples is the second's.
        means = np.array([sample.cpu_utilisation for sample in telemetry[:100]]).reshape(10, 10, 2).mean(axis=1)
        assert means == pytest.approx(np.array([node.cpu_utilisation[:10] for node in repetition.nodes]).T, abs=1e-6)

    def test_progress_is_told_every_second(self):
        told = []
        repetition = cluster(SMALL).run(told.append)
        assert len(told) == len(repetition.nodes[0].time_s)
        assert {(progress.phase, progress.pods) for progress in told} == {("running", 24)}
        for before, after in pairwise(told):
            assert before.bound <= after.bound <= 24
            assert before.finished <= after.finished <= after.bound

    def test_progress_counts_no_pod_twice(self):
        hungry = job("hungry", pods=3, workload="mlp", parameters={"cpu_seconds": 8, "memory": "900Mi", "threads": 1})
        told = []
        repetition = cluster(scenario(hungry, nodes=1, memory="2Gi"), background_memory=0).run(told.append)
        assert len(repetition.pods) > 3
        assert max(progress.bound for progress in told) <= 3
        assert max(progress.finished for progress in told) <= 3

    def test_without_agents_there_is_no_telemetry(self):
        with pytest.raises(UsageError, match="kube-scheduler has none: name an observer"):
            cluster(SMALL, telemetry=[])


class TestWakeUp:
    """Room that a node learns of is no event of the cluster."""

    of = scenario(job(pods=9, workload="task", parameters={"cores": 1, "cpu_seconds": 30}))

    def test_without_it_refused_pods_wait_for_the_first_that_ends(self):
        one = cluster(self.of, "carico", wake_up=False, background_memory_variation=0.0)
        first = min(pod.finished_s for pod in one.run().pods)
        assert [pod.scheduled_s > first for pod in one._api.pods] == [False] * 4 + [True] * 5
        assert one.wake_ups == 0

    def test_with_it_they_follow_as_soon_as_there_is_room(self):
        one = cluster(self.of, "carico")
        repetition = one.run()
        assert sum(pod.scheduled_s < 10 for pod in repetition.pods) > 4
        assert one.wake_ups > 0
        assert one.scheduling_attempts >= len(repetition.pods) + 5
        check(self.of, repetition)

    def test_the_call_and_the_watch_take_their_time(self):
        one = cluster(self.of, "carico", warm_up_s=2.0, bind_latency_s=0.5, watch_latency_s=1.0)
        heard = []
        one._api.watch(node_changed=lambda node: heard.append((one._env.now, node)))
        one._annotate(1)
        one._env.run(0)
        assert heard == [(-0.5, 1)]

    def test_the_back_off_is_that_of_caricos_own_scheduler(self):
        crowd = scenario(job(pods=25, parameters={"digits": 1500}), nodes=1)
        attempts = {}
        for longest in (1.0, 10.0):
            one = cluster(crowd, "carico", carico_backoff_max_s=longest)
            assert one.run().settings["backoff_max_s"] == 10, "what the cluster's has"
            attempts[longest] = one.scheduling_attempts
        assert attempts[1.0] > 1.5 * attempts[10.0]
