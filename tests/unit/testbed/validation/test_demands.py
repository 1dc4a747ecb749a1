"""What programs take: measured on a cluster, put in place of the models."""

import msgspec
import pytest

from testbed.errors import ClusterError, UsageError
from testbed.validation.demands import check_measurable, measured_demands, twin_of
from workloads.scenario import JobSpec, Scenario, load_scenario


class Template:
    """A platform that knows what its pods are, and nothing else."""

    def template(self, job, work, scenario):
        return {"spec": {"containers": [{"name": job.workload}]}}


def scenario_of(*jobs):
    return Scenario("small", "a test", list(jobs))


PI = JobSpec("digits", "pi", 3, {"digits": 1500})
MLP = JobSpec("fit", "mlp", 2, {"threads": 2})
LAST = "accuracy=0.9 wall_s=3.21 cpu_s=1.25 peak_rss_mib=20\n"


def measured(api, *jobs, rounds=2):
    return measured_demands(api, "ns", Template(), scenario_of(*jobs), ["node-a", "node-b"], rounds, lambda text: None)


def test_pods_of_every_job_run_on_every_node_and_tell_what_they_took(api, server):
    server.log = LAST
    assert measured(api, PI, MLP) == {"digits": [1.25] * 4, "fit": [1.25] * 4}
    pods = server.within("/api/v1/namespaces/ns/pods")
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-a"] * 4 + ["node-b"] * 4


@pytest.mark.parametrize("log", ["", "3.14159\n", "Traceback\n", "cpu_s=unknown"])
def test_a_pod_that_does_not_tell_is_an_error_with_what_it_said(api, server, log):
    server.log = log
    with pytest.raises(ClusterError, match="digits-0-0 does not tell its CPU time"):
        measured(api, PI)


def test_a_pod_that_fails_ends_it_at_once(api, server):
    server.ending = "Failed"
    with pytest.raises(ClusterError, match="must succeed: digits-0-0 is Failed"):
        measured(api, PI)


def test_the_twin_has_what_was_measured_and_is_the_same_otherwise():
    scenario = load_scenario("pi-two-nodes")
    (job,) = scenario.jobs
    twin = twin_of(scenario, {job.name: [1.0, 2.0]})
    (simulated,) = twin.jobs
    assert simulated.demand.cpu_seconds == 1.5
    assert simulated.demand.memory_bytes == job.demand.memory_bytes
    back = {"workload": job.workload, "parameters": job.parameters}
    assert msgspec.structs.replace(twin, jobs=[msgspec.structs.replace(simulated, **back)]) == scenario


def test_a_program_of_several_threads_keeps_its_shape():
    (fit,) = twin_of(scenario_of(MLP), {"fit": [20.0]}).jobs
    assert (fit.demand.cpu_seconds, fit.demand.phases) == (20.0, MLP.demand.phases)


def test_what_cannot_be_measured_is_refused():
    check_measurable(scenario_of(PI, MLP))
    with pytest.raises(UsageError, match="job noise: the workload stress does not tell"):
        check_measurable(scenario_of(PI, JobSpec("noise", "stress", 1, {"cpu": 1, "duration_s": 5})))
