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


AT_ONCE = """
from testbed.testing import FakeProvider


def pytest_carico_provider(config):
    return FakeProvider()
"""


def blocks_as_tests(page):
    """Write the page's tests, on a cluster that takes no time."""
    code = [content for kind, content in page.blocks if kind == "python"]
    text = "\n\n".join(code)
    (page.folder / "test_page.py").write_text(text if "import pytest" in text else f"import pytest\n\n\n{text}")
    (page.folder / "conftest.py").write_text(AT_ONCE)


def test_the_tests_of_the_page_about_pytest_pass(tmp_path):
    page = HowTo("docs/how-to/pytest.md", tmp_path)
    blocks_as_tests(page)
    assert "2 passed" in page.type("pytest -m cluster --carico-preset=ci")


def test_the_gates_of_the_page_about_them_judge(tmp_path):
    page = HowTo("docs/how-to/gate.md", tmp_path)
    blocks_as_tests(page)
    made, judged = [command for command in page.commands if command.startswith("pytest")][:2]
    assert "baseline.json (2 written)" in page.type(made)
    printed = page.type(judged)
    assert "2 passed" in printed
    assert "gate: passed" in printed
