"""Files in the form of the Alibaba trace; their rows are made up, not copied from the trace."""

import pytest

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"


@pytest.fixture
def pod_file(tmp_path):
    """A function that writes a pod list of some rows."""

    def write(*rows, header=PODS):
        path = tmp_path / "pods.csv"
        path.write_text(header + "".join(f"{row}\n" for row in rows))
        return path

    return write


@pytest.fixture
def node_file(tmp_path):
    """A function that writes a node list of some rows."""

    def write(*rows):
        path = tmp_path / "nodes.csv"
        path.write_text(NODES + "".join(f"{row}\n" for row in rows))
        return path

    return write
