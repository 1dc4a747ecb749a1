"""Waits for processes that a test has started, and for their output."""

from pathlib import Path

from testbed.real.waiting import wait_until


def wait_for(log, text, poll_s=0.01):
    wait_until(text, lambda: "" if log.exists() and text in log.read_text() else "not yet", 20, poll_s)


def is_alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_ended(pid):
    wait_until("it has ended", lambda: "it is alive" if is_alive(pid) else "", 10, 0.01)
