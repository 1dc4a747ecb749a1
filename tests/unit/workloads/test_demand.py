"""Demand models: what they say about the real programs, and what they refuse."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.demand import MIB, MODELS, Demand, Phase, demand_of, mlp, pi, stress, task, web
from workloads.errors import InvalidDemand, WorkloadError

parameters = st.dictionaries(
    st.sampled_from(["digits", "threads", "cpu_seconds", "memory", "cpu", "vm_bytes", "vm", "duration_s", "colour"]),
    st.floats() | st.integers(-(10**6), 10**6).map(float) | st.sampled_from(["750Mi", "0", "1e3", "much", ""]),
    max_size=3,
)


class TestPi:
    def test_work_grows_with_the_square_of_the_digits(self):
        assert pi(4000).cpu_seconds == pytest.approx(4 * pi(2000).cpu_seconds)
        assert pi(1).cpu_seconds > 0

    def test_keeps_one_thread_busy_and_needs_no_memory(self):
        demand = pi()
        assert [phase.threads for phase in demand.phases] == [1.0]
        assert demand.memory_bytes < 32 * MIB
        assert demand.duration_s == math.inf

    def test_takes_what_the_program_takes(self):
        assert pi(1_000_000).cpu_seconds == pytest.approx(pi(1000).cpu_seconds * 1e6)
        with pytest.raises(InvalidDemand, match="digits must be at most 1000000, as for the program, got 1e\\+200"):
            pi(1e200)


class TestMlp:
    def test_is_parallel_four_fifths_of_the_time(self):
        demand = mlp(threads=4)
        parallel, serial = demand.phases
        seconds = [phase.share * demand.cpu_seconds / phase.threads for phase in (parallel, serial)]
        assert (parallel.threads, serial.threads) == (4, 1)
        assert seconds[0] / sum(seconds) == pytest.approx(0.8)

    def test_memory_grows_to_what_is_asked_for(self):
        demand = mlp(memory="650Mi")
        assert 0 < demand.initial_memory_bytes < demand.memory_bytes == 650 * MIB
        assert 0 < demand.memory_ramp < 1

    def test_memory_never_exceeds_what_is_asked_for(self):
        assert mlp(memory="50Mi").initial_memory_bytes == mlp(memory="50Mi").memory_bytes == 50 * MIB

    def test_its_work_grows_with_the_samples_unless_it_is_given(self):
        assert mlp(samples=500).cpu_seconds == pytest.approx(mlp().cpu_seconds / 10)
        assert mlp(samples=500, cpu_seconds=9.0).cpu_seconds == 9.0

    def test_its_threads_spin(self):
        assert 0 < mlp().contention_loss < 1


class TestStress:
    def test_ends_by_time_and_not_by_work(self):
        demand = stress(duration_s=60, cpu=8, cpu_load=25)
        assert (demand.cpu_seconds, demand.duration_s) == (math.inf, 60)
        assert demand.phases == (Phase(1.0, 2.0),)

    def test_vm_workers_hold_memory_and_hardly_compute(self):
        demand = stress(duration_s=60, vm=4, vm_bytes="4Gi")
        assert demand.memory_bytes == pytest.approx(4 * 2**30, rel=0.01)
        assert 0 < demand.phases[0].threads < 0.02

    def test_memory_may_be_a_plain_number_of_bytes(self):
        assert stress(1, vm=1, vm_bytes=2.0**30) == stress(1, vm=1, vm_bytes="1Gi")

    def test_every_pod_has_the_same_endless_work(self):
        assert stress(1, cpu=1).draw_work(3, np.random.default_rng(0)) == [math.inf] * 3


class TestWeb:
    def test_computes_as_much_as_its_requests_take(self):
        demand = web(duration_s=60, rate_per_s=50, service_ms=4)
        assert demand.phases == (Phase(1.0, 0.2),)
        assert (demand.service.rate_per_s, demand.service.cpu_seconds) == (50, 0.004)

    def test_more_requests_than_it_can_serve_are_refused(self):
        with pytest.raises(InvalidDemand, match="keep 5 threads busy, the server has 4: its queue would grow"):
            web(duration_s=60, rate_per_s=1000, service_ms=5, threads=4)


class TestTask:
    def test_a_task_may_vary_and_grow(self):
        demand = task(cores=1, cpu_seconds=60, memory="1Gi", variation=0.5, growth=0.25)
        assert (demand.variation, demand.memory_ramp) == (0.5, 0.25)
        assert demand.initial_memory_bytes < demand.memory_bytes == 2**30
        with pytest.raises(InvalidDemand, match=r"growth must be a share from 0 to 1, got 1.5"):
            task(cores=1, cpu_seconds=60, growth=1.5)

    def test_a_task_may_read_from_a_disk(self):
        assert task(cores=1, cpu_seconds=1, reads="1500Mi").read_bytes == 1500 * 2**20
        assert task(cores=1, cpu_seconds=1).read_bytes == 0
        for reads in ("many", "-1Gi"):
            with pytest.raises(WorkloadError, match="is not a quantity"):
                task(cores=1, cpu_seconds=1, reads=reads)
        with pytest.raises(InvalidDemand, match="a pod that reads has a fixed amount of work in one phase"):
            Demand(cpu_seconds=math.inf, duration_s=1, memory_bytes=0, read_bytes=1)
        with pytest.raises(InvalidDemand, match="the rest finite and not negative"):
            Demand(cpu_seconds=1, memory_bytes=0, read_bytes=-1)

    def test_ends_by_work_and_not_by_time(self):
        demand = task(cores=1.5, cpu_seconds=60, memory="1Gi")
        assert (demand.cpu_seconds, demand.duration_s) == (60, math.inf)
        assert demand.phases == (Phase(1.0, 1.5),)
        assert (demand.memory_bytes, demand.variation) == (2**30, 0)


class TestDrawWork:
    def test_has_the_mean_and_the_variation_that_the_model_says(self):
        demand = Demand(cpu_seconds=5.0, variation=0.2, memory_bytes=0)
        works = np.array(demand.draw_work(20_000, np.random.default_rng(1)))
        assert works.mean() == pytest.approx(5.0, rel=0.01)
        assert works.std() / works.mean() == pytest.approx(0.2, rel=0.03)
        assert works.min() > 0

    def test_the_seed_decides(self):
        draws = [pi().draw_work(5, np.random.default_rng(seed)) for seed in (1, 1, 2)]
        assert draws[0] == draws[1] != draws[2]
        assert all(type(work) is float for work in draws[0])

    def test_without_variation_nothing_is_drawn(self):
        rng = np.random.default_rng(1)
        before = rng.bit_generator.state
        assert Demand(cpu_seconds=2.0, memory_bytes=0).draw_work(2, rng) == [2.0, 2.0]
        assert rng.bit_generator.state == before


class TestInvalid:
    @pytest.mark.parametrize(
        "changes",
        [
            {"cpu_seconds": 0},
            {"cpu_seconds": -1},
            {"cpu_seconds": math.nan},
            {"cpu_seconds": math.inf},
            {"memory_bytes": -1},
            {"memory_bytes": math.inf},
            {"memory_bytes": math.nan},
            {"variation": -0.1},
            {"initial_memory_bytes": math.nan},
            {"memory_ramp": -1},
            {"duration_s": 0},
            {"duration_s": math.nan},
            {"contention_loss": 1.0},
            {"contention_loss": -0.1},
            {"contention_loss": math.nan},
            {"cycles": 0},
            {"phases": ()},
            {"phases": (Phase(0.5, 1),)},
            {"phases": (Phase(1.0, 0),)},
            {"phases": (Phase(1.5, 1), Phase(-0.5, 1))},
            {"phases": (Phase(0.5, 1), Phase(0.25, 1), Phase(0.25, 1))},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, changes):
        with pytest.raises(InvalidDemand):
            Demand(**{"cpu_seconds": 1.0, "memory_bytes": 0.0} | changes)

    @pytest.mark.parametrize(
        ("workload", "given_", "message"),
        [
            ("tensor", {}, "no workload is named 'tensor'; known: mlp, pi, stress, task, web"),
            ("pi", {"digit": 5}, "'pi' does not take 'digit', did you mean 'digits'\\? Its parameters: digits=2000"),
            (
                "stress",
                {"cpu": 1},
                "'stress' needs duration_s; its parameters: duration_s, cpu=0, \\[cpu_load\\], vm=0",
            ),
            ("pi", {"digits": "2000"}, "digits must be a positive number, got '2000'"),
            ("pi", {"digits": -5}, "digits must be a positive number, got -5"),
            ("mlp", {"threads": math.nan}, "threads must be a positive number, got nan"),
            ("mlp", {"cpu_seconds": math.inf}, "cpu_seconds must be a positive number, got inf"),
            ("mlp", {"samples": 15}, "samples must be 16 or more, one of each class, got 15"),
            ("mlp", {"contention_loss": 1.5}, "contention_loss must be a share from 0 to 1, got 1.5"),
            ("mlp", {"contention_loss": "much"}, "contention_loss must be a share from 0 to 1, got 'much'"),
            ("stress", {"duration_s": 1}, "a stressor without workers does nothing: give cpu or vm"),
            ("stress", {"duration_s": 1, "cpu": -1}, "cpu must be a whole number from 0 to 1024, got -1"),
            ("stress", {"duration_s": 1, "cpu": 0.5}, "cpu must be a whole number from 0 to 1024, got 0.5"),
            (
                "stress",
                {"duration_s": 1, "cpu": 1, "vm_bytes": "4Gi"},
                "vm_bytes means nothing without workers: give vm",
            ),
            ("stress", {"duration_s": 1, "vm": 1, "cpu_load": 25}, "cpu_load means nothing without workers: give cpu"),
            ("stress", {"duration_s": 1, "vm": 1, "vm_bytes": "0"}, "vm_bytes must be more than 0, got 0"),
            ("web", {"duration_s": 1, "threads": 1.5}, "threads must be a whole number from 0 to 1000, got 1.5"),
            ("stress", {"duration_s": 1, "cpu": 1, "cpu_load": 130}, "cpu_load is in per cent, at most 100, got 130"),
            ("web", {"duration_s": 1, "service_ms": 0}, "service_ms must be a positive number, got 0"),
        ],
    )
    def test_the_message_says_what_is_wrong(self, workload, given_, message):
        with pytest.raises(InvalidDemand, match=message):
            demand_of(workload, given_)

    @given(st.sampled_from([*MODELS, "other"]), parameters)
    def test_any_parameters_make_a_demand_or_are_refused(self, workload, given_):
        with contextlib.suppress(WorkloadError):
            demand = demand_of(workload, given_)
            assert demand.cpu_seconds > 0
            assert demand.initial_memory_bytes <= demand.memory_bytes
