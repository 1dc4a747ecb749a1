"""Checkpoints: what was learned comes back, and nothing else is taken for it."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.checkpoint import read_checkpoint, write_checkpoint
from carico.errors import InvalidState
from carico.model.node_model import NodeModel


@pytest.fixture
def learned():
    model = NodeModel()
    for second in range(30):
        for tick in range(1, 11):
            model.observe([0.1 + 0.1 * (second % 3), 0.2], at=second + tick / 10)
        model.pod_event([1, 1, -2][second % 3], second + 0.95)
        model.step(second + 1.0)
    return model


def test_what_was_learned_comes_back(tmp_path, learned):
    file = tmp_path / "state.json"
    write_checkpoint(file, "thesis-rebased", learned.save())
    restored = NodeModel()
    restored.restore(read_checkpoint(file, "thesis-rebased"))
    for name, array in learned.save().items():
        assert np.array_equal(restored.save()[name], array, equal_nan=True), name


def test_a_model_that_knows_nothing_can_be_saved_too(tmp_path):
    file = tmp_path / "state.json"
    write_checkpoint(file, "thesis-rebased", NodeModel().save())
    NodeModel().restore(read_checkpoint(file, "thesis-rebased"))


def test_the_file_is_replaced_whole_or_not_at_all(tmp_path, learned):
    file = tmp_path / "state.json"
    write_checkpoint(file, "v", learned.save())
    before = file.read_bytes()
    with pytest.raises(TypeError):
        write_checkpoint(file, object(), learned.save())
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_huge_or_sparse_file_is_not_read(tmp_path):
    file = tmp_path / "state.json"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(InvalidState, match=r"has 1099511627776 bytes, a state has at most 16777216; delete it"):
        read_checkpoint(file, "v")


def test_there_may_be_none_yet(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "state.json", "v")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot read the checkpoint"),
        (b"\xff", "cannot read the checkpoint"),
        (b"[]", "not a checkpoint of version 1; delete it"),
        (b'{"version": 2}', "not a checkpoint of version 1; delete it"),
        (b'{"version": 1, "variant": "w"}', "learned by variant 'w', not 'v'; delete it"),
        (b'{"version": 1, "variant": "v", "state": 3}', "holds no state; delete it"),
    ],
)
def test_anything_else_is_refused(tmp_path, content, message):
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(InvalidState, match=message):
        read_checkpoint(file, "v")


@given(
    content=st.binary(max_size=80)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(
        lambda value: json.dumps({"version": 1, "variant": "v", "state": {"pods": value}}).encode()
    )
)
def test_no_bytes_break_a_model(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("state") / "state.json"
    file.write_bytes(content)
    model = NodeModel()
    with suppress(InvalidState):
        model.restore(read_checkpoint(file, "v"))
