"""Nodes whose costs are far from what the others report, learned by real nodes under virtual time."""

from dataclasses import replace

import pytest

from carico.demand.regression import Estimate
from carico.outliers import LASTING_S
from tests.kits.demanding_nodes import DemandingNodes


class Hostile:
    """A node's model, of which the reports say that a pod costs so many cores."""

    def __init__(self, model, cores, variance=1e-4):
        self._model, self._cost = model, Estimate(cores, variance)

    def __getattr__(self, name):
        return getattr(self._model, name)

    def report(self, now):
        report = self._model.report(now)
        workloads = {name: replace(known, cores=self._cost) for name, known in report.workloads.items()}
        return replace(report, workloads=workloads)


@pytest.fixture
def busy():
    """Return a function that lets pods run on nodes, of which one may lie."""

    def run(seconds, lie=None, sizes=(4.0,) * 5, pods_cores=1.0):
        nodes = DemandingNodes(len(sizes))
        for (name, model), cores in zip(nodes.models.items(), sizes, strict=True):
            model.resize(cores, 16.0)
            nodes.place(pods_cores, 0.5, name)
        if lie is not None:
            nodes.models["node-1"] = Hostile(nodes.models["node-1"], *lie)
        nodes.run(seconds)
        return nodes.scheduler

    return run


@pytest.mark.parametrize("cores", [0.0, 0.1, 8.0, 10_000.0])
def test_who_lies_for_long_is_one(busy, cores):
    (outlier,) = busy(LASTING_S + 20, (cores,)).outliers.present
    assert (outlier.node, outlier.about, outlier.says) == ("node-1", "cores of a pod of pi", cores)
    assert outlier.others == pytest.approx(1.0, abs=0.3)


def test_who_has_lied_for_a_moment_is_none(busy):
    assert busy(LASTING_S - 10, (8.0,)).outliers.present == []


def test_who_knows_hardly_anything_is_none(busy):
    assert busy(LASTING_S + 20, (8.0, 0.9)).outliers.present == []


def test_nodes_of_any_size_that_tell_the_truth_are_none(busy):
    assert busy(LASTING_S + 20, sizes=(2.0, 16.0, 2.0, 2.0, 64.0)).outliers.present == []
