"""Every target is given its seeds and its kept inputs: what was found once is not found again."""

import pytest

from tests.fuzz.corpus import FOLDER, kept
from tests.fuzz.targets import all_targets, target_named

TARGETS = all_targets()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_all_inputs_are_read_or_refused(target):
    assert target.attempt(target.seeds[0])
    for data in (b"", *target.seeds, *kept(target.name)):
        target.attempt(data)


def test_names_are_distinct_and_begin_with_the_module():
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert all(target_named(target.name) is target for target in TARGETS)


def test_inputs_are_kept_for_present_targets_only():
    assert {file.stem for file in FOLDER.glob("*")} <= {target.name for target in TARGETS}


def test_the_kept_corpus_is_small():
    assert sum(file.stat().st_size for file in FOLDER.glob("*")) < 300 << 10
