"""The reference of scenario files names every field and every choice that there is."""

from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from workloads.arrivals import PATTERNS
from workloads.demand import MODELS
from workloads.scenario import ClusterShape, JobSpec, NodeChange, NodePool, Scenario

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scenario.md"


@pytest.mark.parametrize("struct", [Scenario, JobSpec, ClusterShape, NodePool, NodeChange, *PATTERNS])
def test_every_field_is_there(struct):
    text = PAGE.read_text(encoding="utf-8")
    missing = [one.name for one in msgspec.structs.fields(struct) if f"{one.name}" not in text]
    assert not missing


def test_every_choice_is_there():
    text = PAGE.read_text(encoding="utf-8")
    choices = {
        choice
        for struct in (JobSpec, NodeChange)
        for hint in get_type_hints(struct).values()
        for choice in get_args(hint)
        if isinstance(choice, str)
    }
    assert {"failed", "rest", "fail-job"} <= choices
    for choice in [*choices, *MODELS]:
        assert f"`{choice}`" in text
    for pattern in PATTERNS:
        assert f"pattern: {pattern.__struct_config__.tag}" in text
