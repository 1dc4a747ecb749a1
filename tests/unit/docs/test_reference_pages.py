"""The pages of the reference that are written from the code are up to date, and complete."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages():
    return runpy.run_path(str(ROOT / "docs/make_reference.py"))["pages"]()


def test_the_pages_are_up_to_date(pages):
    for name, text in pages.items():
        assert (ROOT / "docs/reference" / name).read_text(encoding="utf-8") == text, "run python docs/make_reference.py"


def test_what_readers_look_for_is_there(pages):
    for option in ("`--carico-fail-on METRIC:STATISTIC:LIMIT`", "`--over NAME=VALUE,...`", "### carico deploy"):
        assert option in pages["options.md"]
    assert "| `pod_completion_time` | s | from a pod's start to its end | less | `mean`, `p99` |" in pages["metrics.md"]
    assert "| `job_completion_time_s` | object of number or null |" in pages["results.md"]
    assert "| `hold_off_s` | `1.0` | How long after a pod event" in pages["parameters.md"]
