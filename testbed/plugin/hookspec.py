"""What a conftest.py or another plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider


@pytest.hookspec(firstresult=True)
def pytest_carico_provider(config: pytest.Config) -> ClusterProvider | None:
    """Return the cluster that experiments run on; None leaves it to --carico-provider.

    It is asked for once, in every process of the session, before the first cluster test: what its `preflight` finds
    keeps the tests from running.

    Examples
    --------
    In a conftest.py::

        def pytest_carico_provider(config):
            return MyProvider()
    """
