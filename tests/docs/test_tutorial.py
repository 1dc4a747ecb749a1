"""The tutorial does what it says, with the numbers that it shows."""

import re

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
    printed = [page.type(first), page.type(own), page.type(saved), page.type(passed)]
    page.type(broken)
    printed += [page.type(failed, code=1), page.type(compared)]
    report = (page.folder / "report.html").read_text(encoding="utf-8")
    assert "gate: FAILED (2 ok, 1 regressed)" in report
    assert all(f">{figure}</td>" in report for figure in ("10.2 s", "5.79 s"))
    shown = [content for kind, content in page.blocks if kind == ""]
    for one, whole in zip(shown, printed, strict=True):
        assert re.fullmatch("".join(map(pattern, lines(one))), "".join(lines(whole))), one
    assert sum(len(lines(one)) for one in shown) > 20


def lines(text):
    return [line for line in text.splitlines(keepends=True) if line.strip()]


def pattern(line):
    """What a shown line stands for: any lines that are left out, a line with a path of the reader's, or itself."""
    return "(?:.*\n)*" if line == "...\n" else ".*\n" if "/home/you/" in line else re.escape(line)
