"""The CPU time of programs: printed in the runs themselves, and put in place of the models."""

import msgspec
import pytest

from testbed.errors import ResultsError, UsageError
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from testbed.validation.demands import check_measurable, demands_table, measured_demands, twin_of
from workloads.scenario import JobSpec, Scenario, load_scenario


def scenario_of(*jobs):
    return Scenario("small", "a test", list(jobs))


PI = JobSpec("digits", "pi", 3, {"digits": 1500})
MLP = JobSpec("fit", "mlp", 2, {"threads": 2})


def runs_with_cpu_s(scenario, **told):
    """Two runs whose pods have printed the given CPU-seconds, by job."""
    runs = [FakeProvider().run(scenario, parse_spec("carico"), seed, {}) for seed in (1, 2)]
    return [
        msgspec.structs.replace(run, pods=[msgspec.structs.replace(pod, cpu_s=told.get(pod.job)) for pod in run.pods])
        for run in runs
    ]


def test_all_pods_of_all_runs_count():
    scenario = scenario_of(PI, MLP)
    found = measured_demands(scenario, runs_with_cpu_s(scenario, digits=1.25, fit=3.0))
    assert found == {"digits": [1.25] * 6, "fit": [3.0] * 4}
    assert demands_table(found)[1:] == [
        "  a pod of digits: 1.25 CPU-seconds (1.25 to 1.25, n = 6)",
        "  a pod of fit: 3.00 CPU-seconds (3.00 to 3.00, n = 4)",
    ]


def test_a_job_whose_pods_print_no_cpu_time_is_an_error():
    scenario = scenario_of(PI, MLP)
    with pytest.raises(ResultsError, match="no log of a pod of fit has its times"):
        measured_demands(scenario, runs_with_cpu_s(scenario, digits=1.25))


def test_the_twin_differs_only_in_the_measured_demand():
    scenario = load_scenario("pi-two-nodes")
    (job,) = scenario.jobs
    twin = twin_of(scenario, {job.name: [1.0, 2.0]})
    (simulated,) = twin.jobs
    assert simulated.demand.cpu_seconds == 1.5
    assert simulated.demand.memory_bytes == job.demand.memory_bytes
    back = {"workload": job.workload, "parameters": job.parameters}
    assert msgspec.structs.replace(twin, jobs=[msgspec.structs.replace(simulated, **back)]) == scenario


def test_a_program_of_several_threads_keeps_its_shape_and_loses_nothing_more_to_contention():
    (fit,) = twin_of(scenario_of(MLP), {"fit": [20.0]}).jobs
    assert (fit.demand.cpu_seconds, fit.demand.phases) == (20.0, MLP.demand.phases)
    assert fit.demand.contention_loss == 0 < MLP.demand.contention_loss, "what was lost is part of what was measured"


def test_a_workload_that_prints_no_cpu_time_is_refused():
    check_measurable(scenario_of(PI, MLP))
    with pytest.raises(UsageError, match="job noise: the workload stress does not print its CPU time"):
        check_measurable(scenario_of(PI, JobSpec("noise", "stress", 1, {"cpu": 1, "duration_s": 5})))
