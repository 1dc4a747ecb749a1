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

    def run(answer, *, fails=""):
        (tmp_path / "pip_audit.py").write_text(f"print({answer!r})\n{fails}")
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


def test_what_the_database_does_not_know_is_said(script):
    done = script(json.dumps({"dependencies": [UNKNOWN, FINE]}))
    assert done.returncode == 0
    assert "NOT CHECKED: 1 of the 2 packages of scheduler.txt" in done.stdout


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        ("raise requests.ConnectionError('no route')", "requests.exceptions.ConnectionError: no route"),
        (
            "try: raise requests.HTTPError('503')\nexcept OSError as error: raise RuntimeError from error",
            "requests.exceptions.HTTPError: 503",
        ),
        ("raise SystemExit('ERROR:pip_audit._cli:Could not connect to it\\nERROR:Tip')", "Could not connect to it"),
    ],
)
def test_without_a_network_it_says_that_nothing_was_checked(script, fails, why):
    done = script("", fails=f"import requests\n{fails}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"NOT CHECKED: {lock}.txt against known vulnerabilities: {why}" for lock in ("scheduler", "workloads")
    ]


@pytest.mark.parametrize(
    ("answer", "fails", "said"),
    [
        ("", "raise KeyError('vulns')", "KeyError: 'vulns'"),
        ("", "raise SystemExit('ERROR:pip_audit._cli:invalid specifier')", "invalid specifier"),
        ("no json", "", "it printed 'no json\\n', JSON with `dependencies` is wanted"),
        ("{}", "", "JSON with `dependencies` is wanted"),
        ("[]", "", "JSON with `dependencies` is wanted"),
    ],
    ids=["a crash", "a refusal", "no JSON", "other JSON", "a list"],
)
def test_a_failure_of_pip_audit_itself_is_no_lack_of_a_network(script, answer, fails, said):
    done = script(answer, fails=fails)
    assert done.returncode == 2
    assert "pip-audit has failed on scheduler.txt with exit code" in done.stderr
    assert said in done.stderr
    assert "NOT CHECKED" not in done.stdout
