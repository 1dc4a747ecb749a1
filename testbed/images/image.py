"""Images that are built on this machine; the tag of an image is a digest of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from testbed.images.docker import Docker
from testbed.images.programs import OnProgress

REGISTRY = "carico.local"
"""The registry in the names of images that are built here; none can be pulled from it."""
RECIPES = Path(str(resources.files("testbed.images") / "recipes"))
MASK_UNITS = RECIPES / "common" / "mask-units"
"""A script for a machine's root, which leaves out services that the machine does not need."""


@dataclass(frozen=True)
class Image:
    """An image that can be built.

    Parameters
    ----------
    name : str
        Its repository, without the registry.
    parts : tuple of str, bytes or Path
        Its inputs: texts, bytes, files and folders.
    make : callable
        Builds the image in the daemon under the given tag, and reports progress.
    """

    name: str
    parts: tuple[str | bytes | Path, ...]
    make: Callable[[str, OnProgress], None]

    @cached_property
    def tag(self) -> str:
        """The image's full name, for example carico.local/node:0123456789abcdef; computed once, on first use."""
        return f"{REGISTRY}/{self.name}:{digest_of(*self.parts)}"

    def ensure(self, docker: Docker, on_progress: OnProgress) -> str:
        """Build the image unless the daemon has it, and return its tag.

        Raises
        ------
        BuildFailed
            If a step fails.
        Unprepared
            If there is no daemon, or something else is missing.
        """
        tag = self.tag
        if not docker.has(tag):
            self.make(tag, on_progress)
        return tag


def digest_of(*parts: str | bytes | Path) -> str:
    """Return a digest of the parts, 16 hexadecimal digits; of a folder, names, modes and contents count."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in sorted(part.rglob("*")) if part.is_dir() else [part]:
                if not file.is_file() or "__pycache__" in file.parts:
                    continue
                name = file.relative_to(part) if part.is_dir() else Path(file.name)
                executable = bool(file.stat().st_mode & 0o100)
                digest.update(f"{name}\0{executable}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
        else:
            digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0\0")
    return digest.hexdigest()[:16]
