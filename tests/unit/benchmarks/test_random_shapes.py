"""Random shapes are scenarios that can run."""

import pytest

from benchmarks.random_shapes import random_shape
from benchmarks.shapes import Shape
from testbed.schedulers.spec import parse_spec


@pytest.mark.parametrize("number", range(30))
def test_a_shape_is_a_scenario_whose_pods_fit(number):
    shape = Shape(*random_shape(number))
    for job in shape.scenario.jobs:
        assert job.pods >= 2
        for node in shape.scenario.cluster.each_node:
            assert job.demand.memory_bytes <= node.memory_bytes / 5
            assert max(phase.threads for phase in job.demand.phases) <= 0.9 * node.cores
    assert len({parse_spec(rival).text for rival in shape.rivals}) >= 6


def test_a_number_stands_for_one_shape():
    assert random_shape(7) == random_shape(7) != random_shape(8)
