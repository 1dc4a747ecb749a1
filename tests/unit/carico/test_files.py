"""Files are written whole or not at all, and a process checks at its start that it can write its files."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from carico.errors import InvalidConfig
from carico.files import not_following, require_writable, write_whole


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


@pytest.fixture
def planted(tmp_path):
    """A file, the name of its draft, and another file to which a symbolic link under that name points."""
    other = tmp_path / "other"
    other.write_text("untouched")
    file = tmp_path / "state.json"
    draft = tmp_path / f".state.json.{os.getpid()}.tmp"
    draft.symlink_to(other)
    return file, draft, other


def test_a_symbolic_link_in_place_of_the_draft_is_not_followed(planted):
    file, draft, other = planted
    write_whole(file, b"new")
    assert file.read_text() == "new"
    assert other.read_text() == "untouched"
    assert not file.is_symlink()
    assert not draft.is_symlink()


def test_a_symbolic_link_that_is_planted_just_before_the_draft_is_opened_is_not_followed(planted, monkeypatch):
    file, _, other = planted
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok: None)
    with pytest.raises(FileExistsError):
        write_whole(file, b"new")
    assert other.read_text() == "untouched"
    assert not file.exists()


def test_a_symbolic_link_in_place_of_the_file_is_replaced(tmp_path):
    other, file = tmp_path / "other", tmp_path / "state.json"
    other.write_text("untouched")
    file.symlink_to(other)
    write_whole(file, b"new")
    assert (file.read_text(), other.read_text(), file.is_symlink()) == ("new", "untouched", False)


def test_only_files_themselves_are_opened(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.write_text("content")
    link.symlink_to(file)
    os.mkfifo(pipe)
    os.close(not_following(str(file), os.O_RDONLY))
    with pytest.raises(OSError, match="symbolic link"):
        not_following(str(link), os.O_RDONLY)
    os.close(not_following(str(pipe), os.O_RDONLY))  # does not wait until somebody writes


def test_an_existing_or_possible_file_is_accepted_and_not_changed(tmp_path):
    file = tmp_path / "journal"
    require_writable(file, "journal.file", "nothing is recorded")
    assert not file.exists()
    file.write_text("kept")
    require_writable(file, "journal.file", "nothing is recorded")
    assert file.read_text() == "kept"


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a folder that exists, .*no does not: make it"):
        require_writable(tmp_path / "no" / "journal", "journal.file", "nothing is recorded")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a file, .* is something else"):
        require_writable(tmp_path, "journal.file", "nothing is recorded")


def test_a_read_only_path_is_named(tmp_path, monkeypatch):
    # Patched: file modes do not restrict root, and only root can mount read-only.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InvalidConfig, match=rf"{tmp_path} is read-only for it: change its mode"):
        require_writable(tmp_path / "journal", "journal.file", "nothing is recorded")


def test_a_disk_that_is_read_only_is_told_and_done_without(tmp_path, monkeypatch, caplog):
    # Patched, as above.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    require_writable(tmp_path / "journal", "journal.file", "decisions are not recorded")
    assert f"journal.file: the disk of {tmp_path} is read-only, so decisions are not recorded" in caplog.text
