"""Fixtures that tests of programs share."""

import signal
from pathlib import Path

import pytest


@pytest.fixture
def awaits_sigterm():
    """Whether a process catches SIGTERM or holds it back to wait for it, as the kernel sees it."""

    def look(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        masks = (int(status.split(f"{mask}:")[1].split()[0], 16) for mask in ("SigCgt", "SigBlk"))
        return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)

    return look
