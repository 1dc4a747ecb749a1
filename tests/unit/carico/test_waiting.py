"""Containers that need files of others begin once these are there."""

import signal
import subprocess
import sys

from carico.waiting import wait_for_files


def test_it_returns_once_all_files_are_there(tmp_path):
    first, second = tmp_path / "node.pem", tmp_path / "ready"
    sleeps = []

    def sleep(seconds):
        sleeps.append(seconds)
        (first if len(sleeps) == 1 else second).touch()

    wait_for_files([first, second], sleep)
    assert len(sleeps) == 2
    wait_for_files([first, second], sleep)
    assert len(sleeps) == 2


def test_what_is_missing_is_logged_now_and_then(tmp_path, caplog):
    (tmp_path / "there").touch()
    slept = 0.0

    def sleep(seconds):
        nonlocal slept
        slept += seconds
        if slept > 150:
            (tmp_path / "late").touch()

    wait_for_files([tmp_path / "there", tmp_path / "late"], sleep)
    assert caplog.messages == [f"waiting for {tmp_path}/late, which another container makes"] * 5


def test_the_program_ends_with_the_last_file_or_when_it_is_told_to(tmp_path):
    command = [sys.executable, "-m", "carico.waiting", str(tmp_path / "file")]
    (tmp_path / "file").touch()
    assert subprocess.run(command, timeout=60).returncode == 0
    (tmp_path / "file").unlink()
    waiting = subprocess.Popen(command)
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) in (0, -signal.SIGTERM)  # the latter if it had not begun yet
