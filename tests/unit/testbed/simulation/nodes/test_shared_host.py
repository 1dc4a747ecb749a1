"""A host's limit is shared by all its threads, whichever node they run on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.nodes.shared_host import work_per_cpu_second

TASKS = st.lists(st.tuples(st.floats(0.0, 4.0), st.floats(0.01, 8.0), st.booleans()), min_size=1, max_size=12)


@given(TASKS, st.floats(0.1, 20.0))
def test_pods_do_as_much_as_the_limit_allows_and_never_more_than_their_cpus(tasks, limit):
    rate, threads, system = map(np.array, zip(*tasks, strict=True))
    work = work_per_cpu_second(rate, threads, system.astype(bool), limit)
    assert np.all((work >= 0) & (work <= 1 + 1e-12))
    assert np.all(work[system] == 1), "the platform is not limited"
    done = (rate * work)[~system].sum()
    assert done == pytest.approx(min(limit, rate[~system].sum()))


def test_pods_of_crowded_and_of_other_nodes_take_the_same_time_at_the_limit(make_nodes):
    """Five and six pods of four threads on nodes of four cores; six pods share a node at 2/3 of a CPU each."""

    def completion_s(host_limit):
        nodes = make_nodes(nodes=2, cores=4, host_limit=host_limit)
        for node, pods in enumerate((5, 6)):
            for pod in range(pods):
                nodes.start((node, pod), work=8.0, node=node, threads=4)
        ended = nodes.until_all_ended()
        return ended[0, 0], ended[1, 0]

    assert completion_s(1.0) == (pytest.approx(10.0), pytest.approx(12.0))
    limited = 11 * (2 / 3) / 8
    assert completion_s(limited) == (pytest.approx(12.0, abs=0.1), pytest.approx(12.0, abs=0.1))


def test_a_host_that_is_not_full_limits_nobody(make_nodes):
    nodes = make_nodes(nodes=2, cores=4, host_limit=0.5)
    nodes.start("alone", work=8.0, threads=4)
    assert nodes.until_all_ended() == {"alone": pytest.approx(2.0)}
