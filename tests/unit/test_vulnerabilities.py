"""What scripts/vulnerabilities makes of the answers of pip-audit, which a module stands in for here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "vulnerabilities"
FOUND = {"name": "h2", "version": "4.3", "vulns": [{"id": "PYSEC-1", "fix_versions": ["4.4"]}]}
FINE = {"name": "numpy", "version": "2.4", "vulns": []}
UNKNOWN = {"name": "grpcio", "skip_reason": "not found"}


@pytest.fixture
def script(tmp_path):
    """Runs the script with what pip-audit prints."""

    def run(answer):
        (tmp_path / "pip_audit.py").write_text(f"print({answer!r})")
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, env=environment, check=False)

    return run


def test_a_known_vulnerability_fails_and_names_the_remedy(script):
    done = script(json.dumps({"dependencies": [FOUND, FINE]}))
    assert done.returncode == 1
    assert "scheduler.txt: h2 4.3 has PYSEC-1, fixed in 4.4: scripts/lock" in done.stdout


def test_no_known_vulnerability_is_fine(script):
    done = script(json.dumps({"dependencies": [FINE]}))
    assert done.returncode == 0
    assert "scheduler.txt: no known vulnerability in 1 packages" in done.stdout


@pytest.mark.parametrize("answer", [json.dumps({"dependencies": [UNKNOWN, FINE]}), "", "no json"])
def test_what_could_not_be_checked_is_said(script, answer):
    done = script(answer)
    assert done.returncode == 0
    assert "NOT CHECKED" in done.stdout
