"""`carico completion` and `carico-testbed completion`, as a shell uses them."""

import shutil
import subprocess

import pytest

import carico.cli
import testbed.cli
from workloads.scenario import scenario_names

PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p "$1" | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def offered(tmp_path, monkeypatch, capsys):
    """A function that returns what bash offers for the last of some words."""
    monkeypatch.chdir(tmp_path)

    def press_tab(*words):
        main = {"carico": carico.cli.main, "carico-testbed": testbed.cli.main}[words[0]]
        assert main(["completion", "bash"]) == 0
        script = tmp_path / "script"
        script.write_text(capsys.readouterr().out)
        shell = ["bash", "--norc", "-c", PRESS_TAB, "bash", str(script), *words]
        return set(subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split())

    return press_tab


pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on PATH")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("carico", "cos"), {"costs"}),
        (("carico", "compl"), {"completion"}),
        (("carico", "costs", "--kubec"), {"--kubeconfig"}),
        (("carico", "monitoring", "da"), {"dashboard"}),
        (("carico-testbed", "swe"), {"sweep"}),
    ],
)
def test_commands_options_and_choices_are_completed(offered, words, wanted):
    assert offered(*words) == wanted


@pytest.mark.parametrize("command", ["run", "sweep", "validate"])
def test_scenarios_of_the_catalogue_are_offered(offered, command):
    pi = {name for name in scenario_names() if name.startswith("pi-")}
    assert len(pi) > 1
    assert offered("carico-testbed", command, "pi-") == pi


def test_so_are_yaml_files_and_folders(offered, tmp_path):
    for name in ("pi-mine.yaml", "pi-mine.yml", "pi-notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "pi-others").mkdir()
    found = offered("carico-testbed", "run", "pi-")
    assert {"pi-2000", "pi-mine.yaml", "pi-mine.yml", "pi-others"} <= found
    assert "pi-notes.txt" not in found


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_know_the_scenarios_too(shell, capsys):
    assert testbed.cli.main(["completion", shell]) == 0
    assert f"({' '.join(scenario_names())})" in capsys.readouterr().out
