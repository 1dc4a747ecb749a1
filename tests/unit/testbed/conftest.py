"""Pytest sessions inside the tests, on a cluster that takes no time."""

from importlib import import_module

import pytest

IMPORTED_ONCE = (
    "scipy.special",
    "testbed.cli",
    "testbed.experiment.session",
    "testbed.plugin.session",
    "testbed.plugin.summary",
    "testbed.real.external.platform",
    "testbed.real.kind.platform",
    "testbed.real.kwok.platform",
    "testbed.real.provider",
    "testbed.report.claims",
    "testbed.simulation.provider",
    "testbed.testing",
)
CONFTEST = """
import pytest
from testbed.testing import FakeProvider

PROVIDER = FakeProvider()

@pytest.fixture(scope="session")
def carico_provider():
    return PROVIDER
"""


@pytest.fixture(scope="session")
def imports():
    """Import what sessions need: a session inside a test forgets what it was the first to import.

    numpy cannot be imported twice, and the client of the Kubernetes API takes a second every time.
    """
    for module in IMPORTED_ONCE:
        import_module(module)


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch):
    """Tests run the same inside and outside a CI job."""
    for variable in ("CI", "PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def session(imports, pytester, monkeypatch):
    """A function that runs pytest with the plugin, on the files that the test has made."""
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
    """Pretend that the CPUs are free: other tests may be running."""
    monkeypatch.setattr("testbed.experiment.free_resources._free_cpus", lambda sleep, uptime: 2.0)
