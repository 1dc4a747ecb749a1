"""The programs that decide what a sweep measures: this project's packages, and modules of the user's own."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

OURS = ("carico", "testbed", "workloads")
"""This project's packages; in an editable install their sources change without their version."""
_LIBRARIES = {"site-packages", "dist-packages"}
"""The folders of installed packages."""


def hashes_of(modules: Iterable[str]) -> dict[str, str]:
    """Return hashes of this project's packages, and of modules with all that they import; nothing is imported.

    Imports are followed within functions, too, but not into the standard library, nor into installed packages that none
    of the modules belongs to. Files that a module reads are not known.

    Parameters
    ----------
    modules : iterable of str
        The names of modules.

    Returns
    -------
    dict of str to str
        SHA-256, by the name of a package or module, in the order of names.
    """
    waiting = list(modules)
    own = {name.partition(".")[0] for name in waiting}
    seen, found = set(OURS), {name: _of_package(name) for name in OURS}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file_of(name, own)
        if file is not None:
            content = file.read_bytes()
            found[name] = hashlib.sha256(content).hexdigest()
            waiting += _imported(content, name if file.stem == "__init__" else name.rpartition(".")[0])
    return dict(sorted(found.items()))


def _of_package(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    found = hashlib.sha256()
    for folder in map(Path, spec.submodule_search_locations or ()):
        for file in sorted(folder.rglob("*.py")):
            found.update(f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _file_of(name: str, own: set[str]) -> Path | None:
    """Return the file of a module; None if it is not one of the user's own, or there is none."""
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names or top in OURS:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module without a spec, such as __main__
        return None
    if spec is None:
        return None
    files = [Path(spec.origin)] if spec.has_location and spec.origin is not None else []
    if rest:  # found by its path: the import system would import the packages that it is in
        within = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
        files = [file for base in within for file in _may_be_at(base)]
    is_own = (file for file in files if file.is_file() and (top in own or not _LIBRARIES & set(file.parts)))
    return next(is_own, None)


def _may_be_at(base: Path) -> list[Path]:
    return [base / "__init__.py", base.with_name(f"{base.name}.py"), *base.parent.glob(f"{base.name}.*.so")]


def _imported(source: bytes, package: str) -> Iterator[str]:
    """Yield the names of what a module may import, with the packages that it is in."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # an extension module
        return
    for node in nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) + 1 - node.level]
                base = ".".join([*above, *([base] if base else [])])
            # What is imported from a package may be a module.
            names = [f"{base}.{one.name}" for one in node.names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
