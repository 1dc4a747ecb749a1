"""Files that a process keeps writing are looked at when it starts."""

import os

import pytest

from carico.errors import InvalidConfig
from carico.files import require_writable


def test_a_file_that_is_there_or_can_be_made_will_do_and_is_not_touched(tmp_path):
    file = tmp_path / "journal"
    require_writable(file, "journal.file")
    assert not file.exists()
    file.write_text("kept")
    require_writable(file, "journal.file")
    assert file.read_text() == "kept"


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a folder that exists, .*no does not: make it"):
        require_writable(tmp_path / "no" / "journal", "journal.file")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a file, .* is something else"):
        require_writable(tmp_path, "journal.file")


def test_what_may_not_be_written_is_named(tmp_path, monkeypatch):
    # Modes keep root from nothing, and only root can mount read-only.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InvalidConfig, match=rf"{tmp_path} is read-only for it: change its mode"):
        require_writable(tmp_path / "journal", "journal.file")
