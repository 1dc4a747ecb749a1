"""The plugin costs next to nothing in sessions that do not use it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
HEAVY = ("numpy", "scipy", "simpy", "msgspec", "yaml", "matplotlib", "kubernetes")
UNUSED = {
    "pytest_carico",
    "testbed",
    "testbed.arguments",
    "testbed.cluster_flags",
    "testbed.comparison",
    "testbed.errors",
    "testbed.experiment",
    "testbed.experiment.presets",
    "testbed.plugin",
    "testbed.plugin.fixtures",
    "testbed.plugin.flags",
    "testbed.plugin.hookspec",
    "testbed.plugin.markers",
    "testbed.providers",
}
"""All that an unused plugin may import. Add nothing that is not needed to declare options, fixtures and hooks."""
CONFTEST = """
import sys
from pathlib import Path

def pytest_unconfigure(config):
    Path("imported").write_text("\\n".join(sys.modules))
"""
UNIT = "def test_quick(): pass"
CLUSTER = f"import pytest\n\n{UNIT}\n\n@pytest.mark.cluster\ndef test_slow(): pass"


def imported(folder, test, *arguments):
    """Return the modules that a pytest session has imported at its end."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set((folder / "imported").read_text().split())


def test_importing_the_plugin_imports_nothing_heavy():
    modules = "testbed, testbed.plugin.session, testbed.__main__"
    code = f"import sys, {modules}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_session_that_uses_nothing_imports_what_declares_options_and_fixtures_and_no_more(tmp_path):
    assert imported(tmp_path, UNIT, "-p", "pytest_carico") - imported(tmp_path, UNIT) == UNUSED


def test_a_session_whose_cluster_tests_are_left_out_imports_nothing_heavy(tmp_path):
    found = imported(tmp_path, CLUSTER, "-p", "pytest_carico")
    assert "testbed.plugin.session" in found
    assert not found.intersection(HEAVY)
