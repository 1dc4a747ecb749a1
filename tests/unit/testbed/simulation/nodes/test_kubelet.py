"""Kubelets: from a bound pod to a finished one, in the order and with the delays of a real one."""

import pytest

from testbed.simulation.nodes.kubelet import weights_of

MIB, GIB = 2**20, 2**30


def no_delays(**changes):
    delays = ("start_delay", "running_visible", "finished_visible")
    return {f"{name}_{bound}_s": 0.0 for name in delays for bound in ("min", "max")} | changes


def entries(machine, *kinds):
    return [(what, detail) for _, what, detail in machine.log.of(*kinds)]


class TestLife:
    def test_of_a_pod_alone(self, make_machine, make_pod):
        machine = make_machine()
        pod = make_pod("pod", work=2.0)
        machine.bind(pod)
        machine.env.run(10)
        assert entries(machine, "bound", "event", "running", "finished") == [
            ("bound", "pod"),
            ("event", (0, +1)),
            ("running", "pod"),
            ("event", (0, -1)),
            ("finished", "pod"),
        ]
        assert pod.outcome == "succeeded"
        assert pod.finished_s - pod.started_s == pytest.approx(2.0)
        assert machine.kubelets.running.tolist() == [0]

    def test_the_delays_are_those_of_the_parameters(self, make_machine, make_pod):
        machine = make_machine(nodes=40)
        pods = [make_pod(f"pod-{node}", work=3.0) for node in range(40)]
        for node, pod in enumerate(pods):
            machine.bind(pod, node=node)
        machine.env.run(20)
        created = [at for at, _, (_, change) in machine.log.of("event") if change > 0]
        assert all(0.5 <= at <= 1.0 for at in created)
        assert max(created) - min(created) > 0.4
        seen = {(what, name): at for at, what, name in machine.log.of("running", "finished")}
        for pod in pods:
            assert 0.3 <= seen["running", pod.name] - pod.started_s <= 1.3
            # The end is noticed at the end of the tick.
            assert 0.2 <= seen["finished", pod.name] - pod.finished_s <= 1.0 + 0.1

    def test_the_event_precedes_the_burst_that_it_announces(self, make_machine, make_pod):
        machine = make_machine(**no_delays(start_delay_min_s=0.5, start_delay_max_s=0.5))
        busy_at_event = []
        machine.kubelets._pod_event = lambda pod, change, at: busy_at_event.append(
            (change, machine.fleet._counters.busy_s[0])
        )
        pod = make_pod("pod", work=1.0)
        machine.bind(pod)
        machine.env.run(5)
        busy = float(machine.fleet._counters.busy_s[0])
        assert busy_at_event == [(+1, 0.0), (-1, pytest.approx(1.2))]
        assert busy == pytest.approx(0.2 + 1.0 + 0.2), "a burst before the container and one after it"

    def test_the_burst_is_over_when_the_pod_starts(self, make_machine, make_pod):
        machine = make_machine(cores=1, **no_delays(), start_cpu_s=1.0, background_cores=0)
        pod = make_pod("pod", work=1.0)
        machine.bind(pod)
        machine.env.run(10)
        assert pod.started_s == pytest.approx(1.0)
        assert pod.finished_s == pytest.approx(2.0)

    def test_what_a_start_still_takes_when_the_pod_runs_delays_the_pod(self, make_machine, make_pod):
        machine = make_machine(cores=1, **no_delays(), start_cpu_s=0, started_cpu_s=0.5, background_cores=0)
        pod = make_pod("pod", work=2.0)
        machine.bind(pod)
        machine.env.run(10)
        assert pod.started_s == 0
        assert pod.finished_s == pytest.approx(2.5, abs=0.1)

    def test_a_pod_that_ends_before_the_api_shows_it_running_is_never_shown_running(self, make_machine, make_pod):
        machine = make_machine(running_visible_min_s=3.0, running_visible_max_s=3.0)
        machine.bind(make_pod("quick", work=0.2), make_pod("slow", work=5.0))
        machine.env.run(15)
        assert entries(machine, "running", "finished") == [
            ("finished", "quick"),
            ("running", "slow"),
            ("finished", "slow"),
        ]

    def test_running_counts_containers(self, make_machine, make_pod):
        machine = make_machine(nodes=2, **no_delays())
        for name in "abc":
            machine.bind(make_pod(name, work=2.0), node=1)
        machine.env.run(1.95)
        assert machine.kubelets.running.tolist() == [0, 3]
        machine.env.run(10)
        assert machine.kubelets.running.tolist() == [0, 0]

    def test_what_ends_in_a_tick_is_noted_at_once(self, make_machine, make_pod):
        # Whatever is recorded at this very moment, or a limit that cuts the run off now, sees it as it is.
        machine = make_machine(**no_delays(), start_cpu_s=0)
        pod = make_pod("pod", work=1.0)
        machine.bind(pod)
        while pod.finished_s is None:
            machine.env.step()
        assert (pod.outcome, machine.kubelets.running.tolist()) == ("succeeded", [0])

    @pytest.mark.parametrize("work", [1e-6, 0.01, 0.05, 0.2])
    def test_no_pod_ends_before_it_starts(self, make_machine, make_pod, work):
        machine = make_machine(start_cpu_s=0)
        pods = [make_pod(f"pod-{i}", work=work) for i in range(5)]
        machine.bind(*pods)
        machine.env.run(10)
        assert all(pod.started_s <= pod.finished_s <= pod.started_s + work + 0.1 for pod in pods)


class TestStarts:
    def test_are_limited_per_node(self, make_machine, make_pod):
        machine = make_machine(nodes=2, **no_delays(), starts_per_s=4)
        for node in (0, 1):
            machine.bind(*(make_pod(f"{node}-{i}", work=0.1) for i in range(9)), node=node)
        machine.env.run(10)
        for node in (0, 1):
            created = [at for at, _, (where, change) in machine.log.of("event") if (where, change) == (node, +1)]
            assert created == pytest.approx([0.25 * i for i in range(9)])

    def test_many_at_once_compete(self, make_machine, make_pod):
        machine = make_machine(cores=4, **no_delays(), starts_per_s=1e6, system_weight=157 / 3)
        pods = [make_pod(f"pod-{i}", work=100) for i in range(10)]
        hog = make_pod("hog", work=1000, workload="stress", parameters={"cpu": 4, "duration_s": 900})
        machine.bind(hog)
        machine.env.run(1)
        machine.bind(*pods)
        machine.env.run(10)
        # Ten bursts of 0.2 s share the one core that system.slice is sure of.
        assert [pod.started_s for pod in pods] == pytest.approx([1 + 2.0] * 10, abs=0.15)


class TestEnds:
    def test_a_duration_ends_a_pod_successfully(self, make_machine, make_pod):
        machine = make_machine()
        pod = make_pod(work=float("inf"), workload="stress", parameters={"cpu": 1, "duration_s": 7.77})
        machine.bind(pod)
        machine.env.run(20)
        assert pod.outcome == "succeeded"
        assert pod.finished_s - pod.started_s == pytest.approx(7.77)
        assert float(machine.fleet._counters.busy_s[0]) == pytest.approx(7.77 + 0.4, abs=0.2)

    def test_a_pod_that_was_killed_does_not_end_a_second_time(self, make_machine, make_pod):
        machine = make_machine(memory=GIB)
        limit = {"cpu": 1, "duration_s": 5, "vm": 1, "vm_bytes": "780Mi"}
        pods = [make_pod(name, work=float("inf"), workload="stress", parameters=limit) for name in "ab"]
        machine.bind(*pods)
        machine.env.run(20)
        assert sorted(pod.outcome for pod in pods) == ["oom_killed", "succeeded"]
        assert sorted(entries(machine, "finished")) == [("finished", "a"), ("finished", "b")]
        assert sum(change for _, _, (_, change) in machine.log.of("event")) == 0

    def test_stopping_fails_a_running_pod(self, make_machine, make_pod):
        machine = make_machine()
        pod = make_pod(work=100)
        machine.bind(pod)
        machine.env.run(3.03)
        stop = pod.stop
        stop()
        assert (pod.outcome, pod.finished_s, pod.stop) == ("failed", 3.03, None)
        stop()
        machine.env.run(10)
        assert entries(machine, "event", "finished")[-2:] == [("event", (0, -1)), ("finished", "pod")]
        assert float(machine.fleet._counters.busy_s[0]) < 4, "it computes no more"


class TestDeleted:
    def test_before_its_start_a_pod_leaves_no_trace_on_the_node(self, make_machine, make_pod):
        machine = make_machine()
        pod = make_pod()
        machine.bind(pod)
        pod.deleted = True
        machine.env.run(5)
        assert entries(machine, "bound", "event", "running", "finished") == [("bound", "pod"), ("finished", "pod")]
        assert (pod.outcome, pod.started_s, machine.fleet._counters.busy_s[0]) == ("unfinished", None, 0)

    def test_during_its_start_a_pod_never_computes(self, make_machine, make_pod):
        machine = make_machine(**no_delays(), start_cpu_s=2.0)
        pod = make_pod(work=50)
        machine.bind(pod)
        machine.env.run(1)
        pod.deleted = True
        machine.env.run(10)
        assert entries(machine, "event", "running", "finished") == [
            ("event", (0, +1)),
            ("event", (0, -1)),
            ("finished", "pod"),
        ]
        assert (pod.outcome, pod.started_s, pod.finished_s) == ("unfinished", None, None)
        assert float(machine.fleet._counters.busy_s[0]) == pytest.approx(2.2), "two bursts and nothing else"


class TestWeights:
    @pytest.mark.parametrize(
        ("millicpu", "weight"),
        [
            (0, 1),
            (1, 1),
            (2, 1),
            (10, 1),
            (100, 4),
            (200, 8),
            (250, 10),
            (500, 20),
            (1000, 39),
            (2000, 79),
            (4000, 157),
        ],
    )
    def test_cgroup_weight_is_kubernetes_formula(self, make_pod, millicpu, weight):
        # 1 + (shares - 2) x 9999 // 262142 with shares = millicpu x 1024 // 1000; kubepods of 4 cores have 157.
        assert weights_of(make_pod(millicpu=millicpu), 8 * GIB).cpu_weight == weight

    @pytest.mark.parametrize(
        ("millicpu", "memory", "adjust"),
        [
            (0, 0, 1000),
            (100, 0, 999),
            (0, 1, 999),
            (0, 750 * MIB, 1000 - 91),
            (500, 4 * GIB, 500),
            (0, 8 * GIB, 3),
        ],
    )
    def test_oom_score_is_kubernetes_formula(self, make_pod, millicpu, memory, adjust):
        # 1000 of BestEffort; else 1000 - 1000 x request // capacity, within 3 and 999.
        assert weights_of(make_pod(millicpu=millicpu, memory_bytes=memory), 8 * GIB).oom_score_adj == adjust
