"""What a report may say."""

import dataclasses

import pytest

from carico.demand.regression import Estimate
from carico.demand.report import DiskReport
from carico.errors import InvalidInput


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e12])
@pytest.mark.parametrize("field", ["cores", "gib", "held_gib", "baseline_gib"])
def test_numbers_that_no_node_can_have_are_refused(report, field, value):
    with pytest.raises(InvalidInput, match=rf"a: {field} must be in \[0, .+\], got"):
        dataclasses.replace(report("a"), **{field: value})


def test_a_node_has_a_size(report):
    with pytest.raises(InvalidInput, match="a: cores must be more than 0"):
        dataclasses.replace(report("a"), cores=0.0)


@pytest.mark.parametrize("estimate", [Estimate(-1.0, 1.0), Estimate(1.0, -1.0), Estimate(float("nan"), 1.0)])
def test_estimates_are_numbers_that_a_pod_can_have(report, estimate):
    with pytest.raises(InvalidInput, match="demand_cores must be in"):
        dataclasses.replace(report("a"), demand_cores=estimate)
    with pytest.raises(InvalidInput, match="a pod's cores must be in"):
        dataclasses.replace(report("a").workloads["pi"], cores=estimate)
    with pytest.raises(InvalidInput, match="pods must be in"):
        dataclasses.replace(report("a").workloads["pi"], pods=-1)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e7])
def test_reads_are_numbers_that_a_node_can_have(report, value):
    with pytest.raises(InvalidInput, match=r"a pod's reads must be in \[0, .+\], got"):
        dataclasses.replace(report("a").workloads["pi"], reads=Estimate(value, 0.1))
    for field, name in (("reads", "reads under way"), ("level", "level of reads")):
        with pytest.raises(InvalidInput, match=rf"{name} must be in \[0, .+\], got"):
            dataclasses.replace(DiskReport(1.0, 2.0), **{field: value})


@pytest.mark.parametrize("exposed", [-0.1, 2.1, float("nan")])
def test_no_more_pods_are_exposed_than_run(report, exposed):
    known = dataclasses.replace(report("a").workloads["pi"], pods=2)
    with pytest.raises(InvalidInput, match=r"exposed pods must be in \[0, 2\], got"):
        dataclasses.replace(known, exposed=exposed)
