"""The page about a scheduler of one's own does what it says."""

import json

import pytest

from tests.kits.how_to import HowTo


@pytest.fixture
def page(tmp_path):
    return HowTo("docs/how-to/own-scheduler.md", tmp_path)


def test_its_scheduler_has_less_than_40_lines_and_runs(page):
    files = page.write_files()
    assert len(files["coolest.py"]) < 40
    here = [command for command in page.commands if "--provider" not in command]
    assert [command.split()[0] for command in here] == ["carico-testbed", "carico-testbed", "pytest"]
    first, late, tested = map(page.type, here)
    for shown in (first, late):
        assert "coolest:Coolest" in shown
        assert "carico  " in shown
        assert shown.count("PCT s") == 1, "one table: the schedulers are compared with one another"
    assert "1 passed" in tested
    run = json.loads((page.folder / ".carico/latest/run.json").read_text())
    used = next(one for one in run["schedulers"] if one["text"] == "coolest:limit=0.9")
    assert used["name"] == "coolest:Coolest"
    assert used["parameters"] == {"limit": 0.9, "cores_per_pod": 1.0}
    assert len(used["source_sha256"]) == 64
