"""The pages about scenarios of one's own and about frames do what they say."""

import pytest

from tests.kits.how_to import HowTo

pytestmark = pytest.mark.docs


def test_the_scenarios_of_the_page_run(tmp_path):
    page = HowTo("docs/how-to/own-scenario.md", tmp_path)
    assert list(page.write_files()) == ["night-batch.yaml", "test_night_batch.py", "bad-night.yaml"]
    night, tested, bad = map(page.type, page.commands)
    assert "night-batch · small · 60 pods" in night
    assert "1 passed" in tested
    assert "bad-night · small · 60 pods" in bad


def test_the_frames_of_the_page_answer_its_questions(tmp_path):
    page = HowTo("docs/how-to/frames.md", tmp_path)
    page.write_files()
    (made,) = page.commands
    page.type(made)
    printed = page.run("look.py")
    assert printed.count("kube-scheduler:cpu=500m") == 4
