"""The GitHub Action, and the workflows on the page about the gate, have the form that GitHub and GitLab want."""

import re
import subprocess
import sys

import pytest

from tests.kits.how_to import ROOT, HowTo

pytestmark = pytest.mark.docs


def check(schema, file):
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_action():
    check("github-actions", ROOT / "action.yml")


@pytest.mark.parametrize(
    ("file", "schema"), [(".github/workflows/schedulers.yml", "github-workflows"), (".gitlab-ci.yml", "gitlab-ci")]
)
def test_the_page_about_the_gate(tmp_path, file, schema):
    page = HowTo("docs/how-to/gate.md", tmp_path)
    (text,) = [content for kind, content in page.blocks if kind == "yaml" and content.startswith(f"# {file}\n")]
    (tmp_path / "shown.yml").write_text(text)
    check(schema, tmp_path / "shown.yml")


def test_the_page_gives_the_action_inputs_that_it_has():
    page = (ROOT / "docs/how-to/gate.md").read_text()
    (given,) = re.findall(r"^        with:\n((?: {10}.*\n)+)", page, re.MULTILINE)
    inputs = re.findall(r"^ {10}([\w-]+):", given, re.MULTILINE)
    known = re.findall(r"^  ([\w-]+):$", (ROOT / "action.yml").read_text(), re.MULTILINE)
    assert inputs
    assert set(inputs) <= set(known)
