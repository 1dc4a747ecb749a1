"""A pod list of a trace, all the way to a run: CSV, scenario, YAML, simulated cluster."""

import pytest

from testbed.schedulers.spec import parse_spec
from testbed.simulation.provider import SimulatedProvider
from workloads.scenario import load_scenario
from workloads.traces.cli import main

# Made up, in the form of the trace.
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,6000,12288,1,460,,LS,Running,1000,3000,1000
b,6000,12288,1,460,,LS,Succeeded,1200,1700,1200
c,2000,1024,0,0,,BE,Failed,1300,2500,1300
d,2000,1024,0,0,,BE,Pending,1350,1400,
"""


@pytest.mark.parametrize("scheduler", ["carico", "kube-scheduler"])
def test_pods_live_as_long_as_in_the_trace_where_there_is_room(tmp_path, capsys, scheduler):
    pods, scenario = tmp_path / "pods.csv", tmp_path / "scenario.yaml"
    pods.write_text(PODS)
    assert main(["alibaba", str(pods), "--time-scale", "100", "--usage", "0.5"]) == 0
    scenario.write_text(capsys.readouterr().out)
    run = SimulatedProvider().check(load_scenario(str(scenario)), parse_spec(scheduler), {"warm_up_s": 2.0}).run(1)
    assert {pod.outcome for pod in run.pods} == {"succeeded"}
    arrived = sorted((pod.created_s, pod.finished_s - pod.started_s) for pod in run.pods)
    assert [at for at, _ in arrived] == pytest.approx([0, 2, 3], abs=0.01)
    assert [took for _, took in arrived] == pytest.approx([20, 5, 12], abs=0.5)
