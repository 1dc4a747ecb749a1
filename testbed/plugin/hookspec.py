"""The hooks that a conftest.py or another plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider


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
