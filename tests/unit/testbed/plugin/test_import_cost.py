"""The plugin costs nothing in sessions that do not use it."""

import subprocess
import sys

HEAVY = ("numpy", "scipy", "simpy", "msgspec", "yaml", "matplotlib", "kubernetes")


def python(*arguments, cwd=None):
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_importing_the_plugin_imports_nothing_heavy():
    modules = "testbed, testbed.plugin, testbed.__main__"
    found = python("-c", f"import sys, {modules}; print([name for name in {HEAVY} if name in sys.modules])")
    assert found.strip() == "[]"


def test_a_session_without_cluster_tests_imports_nothing_heavy(tmp_path):
    (tmp_path / "test_unit.py").write_text(
        f"import sys\n\ndef test_quick():\n    assert not [name for name in {HEAVY} if name in sys.modules]\n"
    )
    # No other plugin is loaded: some import these packages themselves.
    others = [word for plugin in ("hypothesispytest", "pytest-kind") for word in ("-p", f"no:{plugin}")]
    python("-m", "pytest", "-p", "testbed.plugin", *others, str(tmp_path), cwd=tmp_path)
