"""Archives for the kernel's initial file system, compared with what cpio itself unpacks."""

import shutil
import stat
import subprocess

import pytest

from testbed.images.cpio import cpio_archive

FILES = {"init": (0o755, b"#!/bin/sh\n"), "modules/xen/00-a.ko": (0o644, bytes(range(256))), "empty": (0o600, b"")}


def test_entries_are_aligned_and_end_with_the_trailer():
    archive = cpio_archive(FILES, ("dev",))
    assert archive.startswith(b"070701")
    assert len(archive) % 4 == 0
    assert archive.rstrip(b"\0").endswith(b"TRAILER!!!")
    assert archive == cpio_archive(dict(reversed(FILES.items())), ("dev",))


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs busybox, whose cpio unpacks the archive")
def test_busybox_unpacks_what_was_packed(tmp_path):
    archive = cpio_archive(FILES, ("dev", "proc"))
    subprocess.run(["busybox", "cpio", "-i"], input=archive, cwd=tmp_path, check=True, capture_output=True)
    found = {str(file.relative_to(tmp_path)): file for file in tmp_path.rglob("*")}
    assert set(found) == {*FILES, "dev", "proc", "modules", "modules/xen"}
    for name, (mode, content) in FILES.items():
        assert found[name].read_bytes() == content
        assert stat.S_IMODE(found[name].stat().st_mode) == mode
    assert stat.S_IMODE(found["modules"].stat().st_mode) == 0o755
