"""The README is short, and its pictures show what one gets and how it works."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_has_at_most_700_words():
    assert len(README.split()) <= 700


def test_it_shows_the_report_and_the_architecture():
    pictures = re.findall(r"!\[[^]]+\]\((.+?)\)", README)
    assert {"docs/figures/report.png", "docs/figures/architecture.svg"} <= set(pictures)
    assert all((ROOT / picture).is_file() for picture in pictures)
