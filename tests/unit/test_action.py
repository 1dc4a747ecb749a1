"""The GitHub Action gives the plugin the options that its inputs promise."""

import argparse
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from testbed.experiment.presets import PRESETS
from testbed.plugin.flags import add_options

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def given(action, tmp_path):
    """A function that runs the action's tests with some inputs, and returns what pytest was given."""
    (step,) = [one for one in action["runs"]["steps"] if "pytest" in one.get("run", "")]
    python = tmp_path / "python"
    python.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)

    def run(**inputs):
        values = {name: of["default"] for name, of in action["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        env = {
            name: values[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text)[1]] for name, text in step["env"].items()
        }
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={"PATH": path, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()

    return run


def plugin_options():
    parser = argparse.ArgumentParser()
    add_options(
        SimpleNamespace(
            getgroup=lambda *_: SimpleNamespace(addoption=parser.add_argument), addini=lambda *_, **__: None
        )
    )
    return parser


def test_inputs_become_options_that_the_plugin_has(given):
    program, name, *arguments = given(
        tests="tests/a tests/b",
        baseline="my baseline.json",
        fail_on="pod_completion_time:p99:+10%\n\n  pod_outcome:oom_killed:+0\n",
        repetitions="3",
    )
    assert (program, name, *arguments[:2]) == ("-m", "pytest", "-m", "cluster")
    options, rest = plugin_options().parse_known_args(arguments[2:])
    assert rest == ["tests/a", "tests/b"]
    assert options.carico_baseline == "my baseline.json"
    assert options.carico_fail_on == ["pod_completion_time:p99:+10%", "pod_outcome:oom_killed:+0"]
    assert options.carico_repetitions == 3
    assert options.carico_preset == "ci"
    assert options.carico_html == "carico-report.html"


def test_empty_inputs_give_no_options(given):
    assert given() == ["-m", "pytest", "-m", "cluster", "--carico-preset=ci", "--carico-html=carico-report.html"]


def test_a_value_is_never_code(given, tmp_path):
    given(baseline="$(touch harm)", fail_on="`touch harm`", tests="; touch harm")
    assert not (tmp_path / "harm").exists()


def test_every_input_is_described_and_used(action):
    text = (ROOT / "action.yml").read_text()
    for name, described in action["inputs"].items():
        assert set(described) == {"description", "default"}
        assert f"${{{{ inputs.{name} }}}}" in text
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    for preset in PRESETS:
        assert preset in action["inputs"]["preset"]["description"]


def test_inputs_reach_scripts_as_variables_only(action):
    for step in action["runs"]["steps"]:
        if "run" in step:
            assert "${{" not in step["run"]
            assert step["shell"] == "bash"
