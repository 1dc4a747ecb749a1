"""The tutorial does what it says, with the numbers that it shows."""

import pytest

from tests.kits.how_to import HowTo

pytestmark = pytest.mark.docs


@pytest.fixture
def page(tmp_path):
    return HowTo("docs/tutorial.md", tmp_path)


def test_it_ends_with_a_gate_that_fails_and_a_report_that_says_why(page):
    page.write_files()
    first, own, saved, passed, broken, failed, compared = page.commands
    assert first.startswith("carico-testbed run")
    assert own.startswith("carico-testbed run")
    printed = page.type(first) + page.type(own) + page.type(saved) + page.type(passed)
    page.type(broken)
    printed += page.type(failed, code=1) + page.type(compared)
    assert (page.folder / "report.html").is_file()
    shown = [line for kind, content in page.blocks if kind == "" for line in content.splitlines()]
    for line in shown:
        if line != "..." and "/home/you/" not in line:  # paths are the reader's own
            assert line in printed
    assert len(shown) > 20
