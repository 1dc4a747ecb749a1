"""Checkpoints: what was learned comes back, and nothing else is taken for it."""

import json
import os
import random
import socket
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.checkpoint import (
    MOST_BYTES,
    MOST_BYTES_OF_AN_AGENT,
    continue_from,
    read_checkpoint,
    write_checkpoint,
)
from carico.demand.memory import MOST_WORKLOADS
from carico.demand.regression import MOST_WORKLOADS as MOST_OF_A_NODE
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
    write_checkpoint(file, "thesis-rebased", learned.save(), owner="node-a")
    restored = NodeModel()
    restored.restore(read_checkpoint(file, "thesis-rebased", owner="node-a"))
    for name, array in learned.save().items():
        assert np.array_equal(restored.save()[name], array, equal_nan=True), name


def test_a_model_that_knows_nothing_can_be_saved_too(tmp_path):
    file = tmp_path / "state.json"
    write_checkpoint(file, "thesis-rebased", NodeModel().save(), owner="node-a")
    NodeModel().restore(read_checkpoint(file, "thesis-rebased", owner="node-a"))


def test_the_file_is_replaced_whole_or_not_at_all(tmp_path, learned):
    file = tmp_path / "state.json"
    write_checkpoint(file, "v", learned.save(), owner="node-a")
    before = file.read_bytes()
    with pytest.raises(TypeError):
        write_checkpoint(file, object(), learned.save(), owner="node-a")
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_huge_or_sparse_file_is_not_read(tmp_path):
    file = tmp_path / "state.json"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(InvalidState, match=r"has 1099511627776 bytes, a state has at most 8388608; delete it"):
        read_checkpoint(file, "v", owner="node-a")


def test_a_file_that_is_longer_than_it_says_is_not_read_to_its_end():
    with pytest.raises(InvalidState, match=r"/proc/self/stat has 11 bytes, a state has at most 10; delete it"):
        read_checkpoint(Path("/proc/self/stat"), "v", owner="node-a", most_bytes=10)


class TestWhateverHasTheName:
    """Nothing but a regular file is read, and nothing is waited for."""

    @pytest.fixture
    def file(self, tmp_path):
        return tmp_path / "state.json"

    def test_a_named_pipe_is_not_waited_for(self, file):
        os.mkfifo(file)
        with pytest.raises(InvalidState, match="it is not a regular file; delete it"):
            read_checkpoint(file, "v", owner="node-a")

    def test_a_symbolic_link_is_not_followed(self, file, learned):
        other = file.with_name("other.json")
        write_checkpoint(other, "v", learned.save(), owner="node-a")
        file.symlink_to(other)
        with pytest.raises(InvalidState, match=r"cannot read the checkpoint .*symbolic link"):
            read_checkpoint(file, "v", owner="node-a")

    def test_a_folder_is_refused(self, file):
        file.mkdir()
        with pytest.raises(InvalidState, match="Is a directory"):
            read_checkpoint(file, "v", owner="node-a")

    def test_a_device_is_refused(self):
        with pytest.raises(InvalidState, match="it is not a regular file; delete it"):
            read_checkpoint(Path("/dev/zero"), "v", owner="node-a")

    def test_a_socket_is_refused(self, file):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(file))
            with pytest.raises(InvalidState, match="cannot read the checkpoint"):
                read_checkpoint(file, "v", owner="node-a")

    @pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, lambda file: file.symlink_to("/etc/passwd")])
    def test_it_is_moved_aside(self, file, plant, caplog):
        plant(file)
        continue_from(file, "v", pytest.fail, owner="node-a")
        assert [one.name for one in file.parent.iterdir()] == ["state.json.unusable"]
        assert "starting without the checkpoint" in caplog.text


def test_one_that_cannot_be_moved_aside_stops_nothing(tmp_path, monkeypatch, caplog):
    def refuse(self, target):  # patched: modes do not restrict root, and only root can mount read-only
        raise OSError(30, "Read-only file system", str(self))

    file = tmp_path / "state.json"
    file.write_text("port: 1\n")
    monkeypatch.setattr(Path, "replace", refuse)
    continue_from(file, "v", pytest.fail, owner="node-a")
    assert file.read_text() == "port: 1\n"
    (record,) = caplog.records
    assert "starting without the checkpoint, which cannot be moved aside ([Errno 30] Read-only" in record.message
    assert "cannot read the checkpoint" in record.message


def test_one_whose_name_leaves_no_room_for_a_suffix_stops_nothing(tmp_path, caplog):
    file = tmp_path / ("s" * 255)
    file.write_text("port: 1\n")
    continue_from(file, "v", pytest.fail, owner="node-a")
    assert "cannot be moved aside ([Errno 36] File name too long" in caplog.text


@pytest.mark.parametrize("levels", [11, 100, *range(900, 1000, 5), 100_000])
def test_values_nested_deeply_are_refused(tmp_path, levels):
    """At depths that Python can just read, it can no longer show the value in a message."""
    file = tmp_path / "state.json"
    nested = "[" * levels + "]" * levels
    file.write_text(f'{{"version": 2, "variant": "v", "owner": "node-a", "state": {{"pods": {nested}}}}}')
    continue_from(file, "v", NodeModel().restore, owner="node-a")
    assert not file.exists()


class TestTheLargestStates:
    """A state of workloads whose names are as long as Kubernetes allows fits, and leaves little to spare."""

    NAMES = tuple(f"{'n' * 63}/{number:0253}" for number in range(MOST_WORKLOADS))

    def size(self, file, state, **options):
        write_checkpoint(file, "demand", state, owner="node-a")
        assert read_checkpoint(file, "demand", owner="node-a", **options) == state
        return file.stat().st_size

    def test_of_the_extender(self, tmp_path):
        rng = random.Random(1)

        def known():
            return [rng.uniform(1e-5, 1e-4), 1e-5 * rng.random(), 19 * rng.random(), 1e5 * rng.random()]

        parts = {part: {name: known() for name in self.NAMES} for part in ("cpu", "memory")}
        size = self.size(tmp_path / "costs.json", {**parts, "at_unix_s": 1_790_000_000.25})
        assert MOST_BYTES / 2 < size <= MOST_BYTES

    def test_of_an_agent(self, tmp_path):
        rng = random.Random(1)
        names = self.NAMES[:MOST_OF_A_NODE]
        side = range(1 + len(names))
        costs = {
            "workloads": list(names),
            "mean": [rng.random() for _ in side],
            "covariance": [[-1e-5 * rng.random() for _ in side] for _ in side],
        }
        peaks = {name: [rng.random() for _ in range(6)] for name in names}
        state = {"cpu": costs, "memory": costs, "peaks": peaks, "at_unix_s": 1_790_000_000.25}
        size = self.size(tmp_path / "state.json", state, most_bytes=MOST_BYTES_OF_AN_AGENT)
        assert size <= MOST_BYTES_OF_AN_AGENT / 2


def test_there_may_be_none_yet(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "state.json", "v", owner="node-a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot read the checkpoint"),
        (b"\xff", "cannot read the checkpoint"),
        (b"[]", "not a checkpoint of version 2; delete it"),
        (b'{"version": 1, "variant": "v", "state": {}}', "not a checkpoint of version 2; delete it"),
        (b'{"version": 2, "variant": "w"}', "is of the variant 'w', not 'v'; delete it"),
        (b'{"version": 2, "variant": "v"}', "is of the owner None, not 'node-a'; delete it"),
        (b'{"version": 2, "variant": "v", "owner": "b"}', "is of the owner 'b', not 'node-a'; delete it"),
        (b'{"version": 2, "variant": "v", "owner": "node-a", "state": 3}', "holds no state; delete it"),
        (b'{"version": 2, "variant": "v", "owner": "node-a", "state": {}}', "of checksum None, it holds one of '44136"),
    ],
)
def test_anything_else_is_refused(tmp_path, content, message):
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(InvalidState, match=message):
        read_checkpoint(file, "v", owner="node-a")


@pytest.mark.parametrize("change", ["other value", "truncated", "bit"])
def test_a_damaged_state_is_noticed(tmp_path, change):
    file = tmp_path / "state.json"
    write_checkpoint(file, "v", {"pods": [21.0]}, owner="node-a")
    content = file.read_bytes()
    damaged = {
        "other value": content.replace(b"21.0", b"22.0"),
        "truncated": content[:-1],
        "bit": content.replace(b"pods", b"rods"),
    }
    file.write_bytes(damaged[change])
    with pytest.raises(InvalidState, match="delete it"):
        read_checkpoint(file, "v", owner="node-a")


def test_a_file_that_was_formatted_anew_is_still_whole(tmp_path, learned):
    """The checksum is of the values, so that people may look at a checkpoint with tools that order and indent JSON."""
    file = tmp_path / "state.json"
    write_checkpoint(file, "v", learned.save(), owner="node-a")
    before = read_checkpoint(file, "v", owner="node-a")
    file.write_text(json.dumps(json.loads(file.read_bytes()), indent=2, sort_keys=True))
    assert read_checkpoint(file, "v", owner="node-a") == before


@given(content=st.binary(max_size=80))
def test_no_bytes_break_a_model(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("state") / "state.json"
    file.write_bytes(content)
    with pytest.raises(InvalidState):
        read_checkpoint(file, "v", owner="node-a")


@given(value=st.recursive(st.none() | st.floats() | st.text(), st.lists))
def test_no_value_breaks_a_model(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("state") / "state.json"
    write_checkpoint(file, "v", {"pods": value}, owner="node-a")
    with suppress(InvalidState):
        NodeModel().restore(read_checkpoint(file, "v", owner="node-a"))
