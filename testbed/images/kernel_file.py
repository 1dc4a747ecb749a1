"""What is in the files of a Linux kernel: the program within a boot image, and what modules depend on."""

from __future__ import annotations

import gzip
import lzma
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from testbed.errors import BuildFailed

_HEADER = b"HdrS"
_HEADER_AT = 0x202
_SETUP_SECTORS_AT = 0x1F1
_PAYLOAD_AT = 0x248
_SECTOR = 512
_ELF = b"\x7fELF"
_XZ, _GZIP = b"\xfd7zXZ\0", b"\x1f\x8b"
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def uncompressed_kernel(boot_image: bytes) -> bytes:
    """Return the program within a boot image (bzImage), an ELF file, which hypervisors start faster.

    Raises
    ------
    BuildFailed
        If these are not the bytes of a boot image, or its program is compressed by anything but xz or gzip.
    """
    if boot_image[_HEADER_AT : _HEADER_AT + len(_HEADER)] != _HEADER:
        raise BuildFailed("the kernel is no boot image for x86 (bzImage): its header does not say HdrS")
    offset, length = struct.unpack_from("<II", boot_image, _PAYLOAD_AT)
    begin = ((boot_image[_SETUP_SECTORS_AT] or 4) + 1) * _SECTOR + offset
    payload = boot_image[begin : begin + length]
    try:
        if payload.startswith(_XZ):
            # The kernel's build appends the program's length, which is no part of the stream.
            program = lzma.LZMADecompressor().decompress(payload)
        elif payload.startswith(_GZIP):
            program = gzip.decompress(payload[:-4])
        else:
            raise BuildFailed(
                f"the kernel is compressed by neither xz nor gzip (it begins with {payload[:4].hex(' ')}): use Debian's"
            )
    except (lzma.LZMAError, OSError, EOFError) as error:
        raise BuildFailed(f"the kernel cannot be decompressed: {error}") from error
    if not program.startswith(_ELF):
        raise BuildFailed("what the kernel's boot image contains is no ELF file")
    return program


def wanted_modules(tree: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the modules in a folder whose names match, and those that they depend on, in the order of loading.

    Parameters
    ----------
    tree : Path
        A folder with modules, uncompressed, at any depth.
    patterns : iterable of str
        Names without ``.ko``, or shell patterns.

    Raises
    ------
    BuildFailed
        If nothing matches a pattern, or a module is missing that another depends on.
    """
    files = {_name(file): file for file in sorted(tree.rglob("*.ko"))}
    ordered: dict[str, Path] = {}
    for pattern in patterns:
        matching = [name for name in files if fnmatchcase(name, pattern.replace("-", "_"))]
        if not matching:
            raise BuildFailed(f"the kernel has no module {pattern} below {tree}")
        for name in matching:
            _add(name, files, ordered)
    return list(ordered.values())


def _add(name: str, files: Mapping[str, Path], ordered: dict[str, Path]) -> None:
    if name in ordered:
        return
    if name not in files:
        raise BuildFailed(f"the kernel has no module {name}, which another module depends on")
    for below in _dependencies(files[name].read_bytes()):
        _add(below, files, ordered)
    ordered[name] = files[name]


def _dependencies(module: bytes) -> Iterator[str]:
    found = _DEPENDS.search(module)
    if found is not None:
        yield from filter(None, found[1].decode().replace("-", "_").split(","))


def _name(file: Path) -> str:
    # The kernel takes both characters for the same.
    return file.name.removesuffix(".ko").replace("-", "_")
