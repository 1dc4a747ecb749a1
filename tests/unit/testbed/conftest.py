"""Pytest sessions inside the tests, on a cluster that takes no time."""

import pytest
import scipy.special  # noqa: F401

import testbed.cli
import testbed.experiment.session
import testbed.plugin.summary
import testbed.simulation.provider  # noqa: F401

# Imported although nothing here uses them: a session inside a test forgets what it was the first to import, and numpy
# cannot be imported twice.
CONFTEST = """
import pytest
from testbed.testing import FakeProvider

PROVIDER = FakeProvider()

@pytest.fixture(scope="session")
def carico_provider():
    return PROVIDER
"""


@pytest.fixture
def session(pytester, monkeypatch):
    """A function that runs pytest with the plugin, on the files that the test has made."""
    for variable in ("CI", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # no other plugin matters, and all take time
    pytester.makeini("[pytest]")
    pytester.makeconftest(CONFTEST)

    def run(*arguments, **options):
        return pytester.runpytest_inprocess("-p", "testbed.plugin", *arguments, **options)

    return run


@pytest.fixture
def mixed(pytester):
    """A unit test, and two cluster tests in a file of their own."""
    pytester.makepyfile(
        test_unit="def test_quick(): pass",
        test_slow="""
            import pytest
            pytestmark = pytest.mark.cluster

            def test_one(carico_experiment):
                assert carico_experiment.run("pi-2000", "carico", pods=2)

            @pytest.mark.parametrize("n", [1, 2])
            def test_many(n): pass
        """,
    )


@pytest.fixture(autouse=True)
def free_cpus(monkeypatch):
    """As if nothing else ran: tests may."""
    monkeypatch.setattr("testbed.experiment.free_resources._free_cpus", lambda sleep, uptime: 2.0)
