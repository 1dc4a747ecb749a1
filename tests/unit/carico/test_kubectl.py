"""`kubectl carico`: found by kubectl under its name, and completed by it."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from carico import __version__
from carico.kubectl import completions

ROOT = Path(__file__).parents[3]
NAMES = "kubectl-carico", "kubectl_complete-carico"


@pytest.fixture
def installed(tmp_path):
    """A folder with the programs that an installation makes, to be added to PATH."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for name in NAMES:
        module, _, function = declared[name].partition(":")
        assert callable(getattr(import_module(module), function))
        script = tmp_path / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
    return tmp_path


def run(installed, *command):
    environment = os.environ | {"PATH": f"{installed}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_program_is_the_command_under_another_name(installed):
    assert run(installed, NAMES[0], "--version").stdout == f"carico {__version__}\n"
    done = run(installed, NAMES[0], "status", "-h")
    assert done.stdout.startswith("usage: kubectl carico status ")
    assert all(option in done.stdout for option in ("-n NS", "--kubeconfig FILE", "--context NAME"))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_kubectl_finds_it(installed, tmp_path):
    assert run(installed, "kubectl", "carico", "--version").stdout == f"carico {__version__}\n"
    done = run(installed, "kubectl", "carico", "status", "--kubeconfig", str(tmp_path / "none"), "-n", "batch")
    assert done.returncode == 4
    assert "none" in done.stderr
    assert "carico" in run(installed, "kubectl", "plugin", "list").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["sta"], ["status", ":4"]),
        (["status", "--con"], ["--context", ":4"]),
        (["deploy", "--telemetry", ""], ["cgroup", "procfs", ":4"]),
        (["monitoring", "d"], ["dashboard", ":4"]),
        (["status", "--kubeconfig", ""], [":0"]),
        (["no-such-thing", "--ver"], ["--version", ":4"]),
    ],
)
def test_completions(typed, offered):
    assert completions(typed) == offered


def test_without_anything_typed_all_commands_are_offered(installed):
    lines = run(installed, NAMES[1], "").stdout.splitlines()
    assert {"status", "costs", "explain", "deploy"} < set(lines)
    assert lines[-1] == ":4"
