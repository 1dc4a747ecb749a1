"""Public traces: tables that others have published."""

import tempfile
from importlib import resources
from pathlib import Path

import numpy as np

from tests.fuzz.target import Target
from workloads.errors import InvalidTrace
from workloads.traces.alibaba import read_nodes, read_pods
from workloads.traces.azure import noise_of, read_noise

FILE = Path(tempfile.mkdtemp()) / "trace.csv"
PODS = (
    b"name,cpu_milli,memory_mib,num_gpu,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    b"a,4000,8192,0,LS,Succeeded,100,400,110\nb,1000,512,1,BE,Running,200,12902960,210\nc,10,1,0,BE,Pending,5,,\n"
)
NODES = b"sn,cpu_milli,memory_mib,gpu\nnode-1,64000,262144,2\nnode-2,96000,393216,0\n"
NOISE = (resources.files("workloads") / "traces" / "samples" / "azure_vm_noise.csv").read_bytes()


def read_with(reader):
    def read(data):
        FILE.write_bytes(data)
        return reader(FILE)

    return read


def pods_are_sound(pods):
    assert [pod.created_s for pod in pods] == sorted(pod.created_s for pod in pods)
    assert len({pod.name for pod in pods}) == len(pods)
    assert all(pod.lifetime_s is None or pod.lifetime_s >= 0 for pod in pods)


def nodes_are_sound(nodes):
    assert len({node.name for node in nodes}) == len(nodes) > 0
    assert all(node.millicpu >= 1000 and node.memory_mib >= 1 for node in nodes)


def noise_is_sound(samples):
    try:
        noise = noise_of(samples)
    except InvalidTrace:
        return
    assert noise.samples == len(samples)
    assert all(np.isfinite(value) and value >= 0 for value in noise.settings.values())


TARGETS = [
    Target("traces.pods", "Alibaba's list of pods", read_with(read_pods), (InvalidTrace,), pods_are_sound, (PODS,)),
    Target(
        "traces.nodes", "Alibaba's list of nodes", read_with(read_nodes), (InvalidTrace,), nodes_are_sound, (NODES,)
    ),
    Target(
        "traces.noise",
        "Azure's VM Noise Dataset",
        read_with(read_noise),
        (InvalidTrace,),
        noise_is_sound,
        (NOISE, NOISE[:600]),
        longest=8192,
    ),
]
