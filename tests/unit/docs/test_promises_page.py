"""The page of promises names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/promises.md"
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_promise_is_shown_by_tests_that_exist():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 31))
    for number, _, tests in ROWS:
        named = re.findall(r"\[(\w+)\]\((\S+?)\)", tests)
        assert named, f"no test shows promise {number}"
        for name, place in named:
            module = ast.parse((PAGE.parent / place).read_text(encoding="utf-8"))
            known = [one.name for one in module.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
            assert name in known, f"promise {number}: there is no {name} in {place}"
