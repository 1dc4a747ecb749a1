"""A process checks at its start that it can write its files."""

import os

import pytest

from carico.errors import InvalidConfig
from carico.files import require_writable


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
