"""The hooks that a conftest.py or another plugin may implement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider
    from testbed.measurement.own import Measurement
    from testbed.schedulers import Scheduler
    from workloads.scenario import Scenario


@pytest.hookspec(firstresult=True)
def pytest_carico_provider(config: pytest.Config) -> ClusterProvider | None:
    """Return the provider of experiments; None leaves the choice to --carico-provider.

    Every process of the session calls the hook once, before the first cluster test. Problems that the provider's
    `preflight` finds keep the tests from running.

    Examples
    --------
    In a conftest.py::

        def pytest_carico_provider(config):
            return MyProvider()
    """


@pytest.hookspec
def pytest_carico_schedulers(config: pytest.Config) -> Mapping[str, type[Scheduler]]:  # type: ignore[empty-body]
    """Return schedulers of one's own for the simulated cluster, by the name that a SPEC begins with.

    Examples
    --------
    In a conftest.py, for SPECs such as ``best-fit`` and ``best-fit:limit=0.5``::

        def pytest_carico_schedulers(config):
            return {"best-fit": BestFit}
    """


@pytest.hookspec
def pytest_carico_scenarios(config: pytest.Config) -> Iterable[Scenario]:  # type: ignore[empty-body]
    """Return scenarios that markers and `carico_experiment` can name.

    Examples
    --------
    In a conftest.py::

        def pytest_carico_scenarios(config):
            return [load_scenario("tests/night.yaml")]
    """


@pytest.hookspec
def pytest_carico_measurements(config: pytest.Config) -> Iterable[Measurement]:  # type: ignore[empty-body]
    """Return measurements that are added to every repetition, to tables, baselines and gates.

    Examples
    --------
    In a conftest.py::

        def pytest_carico_measurements(config):
            return [Measurement("idle_nodes", "nodes", "nodes that no pod has used", idle_nodes, less_is_better=False)]
    """
