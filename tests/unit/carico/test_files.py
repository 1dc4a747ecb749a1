"""Files are written whole or not at all, and a process checks at its start that it can write its files."""

import os

import pytest

from carico.errors import InvalidConfig
from carico.files import require_writable, write_whole


def test_a_file_is_replaced_with_its_mode_and_leaves_nothing_beside_it(tmp_path):
    file = tmp_path / "key"
    file.write_text("old")
    tmp_path.joinpath(f".key.{os.getpid()}.tmp").write_text("left by a process that was killed")
    write_whole(file, b"new", 0o600)
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    file = tmp_path / "state.json"
    write_whole(file, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_existing_or_possible_file_is_accepted_and_not_changed(tmp_path):
    file = tmp_path / "journal"
    require_writable(file, "journal.file")
    assert not file.exists()
    file.write_text("kept")
    require_writable(file, "journal.file")
    assert file.read_text() == "kept"


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a folder that exists, .*no does not: make it"):
        require_writable(tmp_path / "no" / "journal", "journal.file")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a file, .* is something else"):
        require_writable(tmp_path, "journal.file")


def test_a_read_only_path_is_named(tmp_path, monkeypatch):
    # Patched: file modes do not restrict root, and only root can mount read-only.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InvalidConfig, match=rf"{tmp_path} is read-only for it: change its mode"):
        require_writable(tmp_path / "journal", "journal.file")
