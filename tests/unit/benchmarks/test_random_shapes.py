"""Random shapes are scenarios that can run."""

import pytest

from benchmarks.random_shapes import random_shape
from benchmarks.shapes import Shape
from testbed.schedulers.spec import parse_spec
from testbed.simulation.checks import check
from testbed.simulation.parameters import parameters_from


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("number", range(30))
def test_a_shape_is_a_scenario_whose_pods_fit(number, large):
    shape = Shape(*random_shape(number, large=large))
    for job in shape.scenario.jobs:
        assert job.pods >= 2
        for node in shape.scenario.cluster.each_node:
            assert job.demand.memory_bytes <= node.memory_bytes * (0.4 if large else 0.2)
            assert max(phase.threads for phase in job.demand.phases) <= 0.9 * node.cores
    rivals = {spec.text: spec for spec in map(parse_spec, shape.rivals)}
    assert len(rivals) >= 6
    for spec in rivals.values():
        check(shape.scenario, spec, parameters_from({}))


def test_a_number_stands_for_one_shape():
    assert random_shape(7) == random_shape(7) != random_shape(8)
