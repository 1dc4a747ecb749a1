"""Archives as the Linux kernel unpacks them into its initial file system (cpio, format "newc")."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import PurePosixPath

_MAGIC = "070701"
_END = "TRAILER!!!"


def cpio_archive(files: Mapping[str, tuple[int, bytes]], folders: tuple[str, ...] = ()) -> bytes:
    """Return an archive, uncompressed, owned by root and without times: equal files give equal bytes.

    Parameters
    ----------
    files : mapping
        Permissions and content by path, without a leading slash; the folders that they are in are added.
    folders : tuple of str
        Further folders, which stay empty.
    """
    within = {str(parent) for name in (*files, *folders) for parent in PurePosixPath(name).parents} - {"."}
    entries = dict.fromkeys(sorted(within | set(folders)), (stat.S_IFDIR | 493, b""))
    entries |= {name: (stat.S_IFREG | mode, content) for name, (mode, content) in sorted(files.items())}
    packed = [_entry(number, name, *entry) for number, (name, entry) in enumerate(entries.items(), start=1)]
    return b"".join([*packed, _entry(0, _END, 0, b"")])


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    # Inode, mode, owner, group, links, time, size, device (two numbers), the device that it stands for (two numbers),
    # length of the name, checksum.
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    head = (_MAGIC + "".join(f"{field:08X}" for field in fields)).encode() + encoded
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + b"\0" * (-len(part) % 4)
