"""The kept corpus: for every target, a file of inputs that reach different code, found by fuzzing and minimised.

A line is an input, as a JSON string in which every character stands for a byte. Seeds are not there: they are in the
code of the targets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MOST_BYTES = 10 << 10
"""The most bytes of a target's inputs; the smallest are kept."""
LONGEST = 1 << 10
"""Longer inputs are not kept."""


def kept(target: str) -> list[bytes]:
    """Return the kept inputs of a target."""
    file = FOLDER / f"{target}.jsonl"
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return [json.loads(line).encode("latin-1") for line in lines]


def keep(target: str, inputs: Iterable[bytes]) -> int:
    """Replace the kept inputs of a target by the smallest of these, and return how many they are."""
    lines, size = [], 0
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        line = json.dumps(data.decode("latin-1"))
        if len(data) > LONGEST or size + len(line) > MOST_BYTES:
            break
        lines.append(line + "\n")
        size += len(line) + 1
    file = FOLDER / f"{target}.jsonl"
    if lines:
        FOLDER.mkdir(exist_ok=True)
        file.write_text("".join(lines), encoding="ascii")
    else:
        file.unlink(missing_ok=True)
    return len(lines)


def files_in(folder: Path) -> list[bytes]:
    """Return the contents of a folder's files."""
    return [file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()] if folder.exists() else []


def write_files(folder: Path, inputs: Iterable[bytes]) -> None:
    """Write each input to a file named by its hash, as libFuzzer does."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
