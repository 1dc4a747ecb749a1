"""Finds a scheduler of one's own by its name, and says what it is: its module, version and source."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from testbed.errors import InvalidSpec, suggested
from testbed.schedulers.interface import Scheduler
from testbed.schedulers.misspelt import misspelt_method
from workloads.errors import Misfit, did_you_mean
from workloads.fitting import fitted

GROUP = "carico_testbed.schedulers"
"""The entry points of installed packages that name schedulers."""


def installed() -> dict[str, EntryPoint]:
    """Return the schedulers that installed packages name by entry points; none of them is loaded."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load_class(path: str) -> type[Scheduler]:
    """Return the class that ``module:Class`` names; modules in the current folder are found, too.

    Raises
    ------
    InvalidSpec
        If there is none, or it is no scheduler; the message says why.
    """
    name, _, wanted = path.partition(":")
    here = _find_here()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise InvalidSpec(f"{path!r}: importing {name} failed: {error}") from error
        raise InvalidSpec(
            f"{path!r}: no module is named {error.name!r}, neither in {here} nor among the installed packages"
        ) from error
    except (Exception, SystemExit) as error:
        raise InvalidSpec(f"{path!r}: importing {name} failed: {type(error).__name__}: {error}") from error
    classes = {key: kind for key, kind in vars(module).items() if _is_scheduler(kind)}
    found = vars(module).get(wanted)
    if found is None:
        its = f"its schedulers: {', '.join(sorted(classes)) or 'none'}"
        raise InvalidSpec(f"{path!r}: {name} has no class {wanted!r}{suggested(wanted, classes, its)}")
    return checked(path, found)


def checked(name: str, found: object) -> type[Scheduler]:
    """Return what a name stands for, if it is a scheduler; raises InvalidSpec."""
    if not _is_scheduler(found):
        raise InvalidSpec(f"{name!r} is {found!r}: a class is needed whose base is testbed.schedulers.Scheduler")
    assert isinstance(found, type)
    assert issubclass(found, Scheduler)
    if found.filter is Scheduler.filter and found.score is Scheduler.score:
        wanted = ("filter", "score")
        added = sorted(set(dir(found)) - set(dir(Scheduler)))
        meant = next((f"{one!r}{close}" for one in added if (close := did_you_mean(one, wanted))), "")
        raise InvalidSpec(
            f"{name!r}: {found.__name__} has neither filter nor score, and would choose nodes by chance: define at "
            f"least one{f'; it has {meant}' if meant else ''}"
        )
    if (wrong := misspelt_method(found)) is not None:
        method, meant = wrong
        raise InvalidSpec(
            f"{name!r}: {found.__name__} has {method!r}, which nothing calls{meant} If not, write _{method}"
        )
    return found


def class_meant(name: str) -> str | None:
    """Return ``module:Class`` if a name is that of a module with schedulers, or of a class in one after a dot.

    Nothing is imported but the packages that the module is in.
    """
    for module, wanted in ((name, ""), name.rpartition(".")[::2]):
        classes = _classes_in(module)
        if classes and (not wanted or wanted in classes):
            return f"{module}:{wanted or classes[0]}"
    return None


def _classes_in(module: str) -> list[str]:
    """Return the names of the classes in a module whose base is called Scheduler; none if there is no such module."""
    _find_here()
    try:
        found = importlib.util.find_spec(module)
        source = "" if found is None or found.origin is None else Path(found.origin).read_text(encoding="utf-8")
        body = ast.parse(source).body
    except (Exception, SystemExit):  # a package raises any
        return []
    kinds = [one for one in body if isinstance(one, ast.ClassDef)]
    return [one.name for one in kinds if any(ast.unparse(base).endswith("Scheduler") for base in one.bases)]


def load_entry_point(point: EntryPoint) -> type[Scheduler]:
    """Return the class of an entry point; raises InvalidSpec."""
    try:
        return checked(point.name, point.load())
    except InvalidSpec:
        raise
    except Exception as error:
        raise InvalidSpec(
            f"{point.name!r}, of an installed package, cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {error}"
        ) from error


def converted(text: str, kind: type[Scheduler], written: Mapping[str, str]) -> dict[str, Any]:
    """Return a scheduler's parameters as its constructor takes them.

    Raises
    ------
    InvalidSpec
        If one is unknown, is missing, does not have its type, or is refused by the constructor.
    """
    taken = inspect.signature(kind).parameters
    check_options(text, written, *taken)
    hints = get_type_hints(kind.__init__)
    values: dict[str, Any] = {}
    for name, value in written.items():
        default = taken[name].default
        wanted = hints.get(name, str if default in (inspect.Parameter.empty, None) else type(default))
        try:
            values[name] = fitted(value, wanted, strict=False)
        except (Misfit, TypeError) as error:
            raise InvalidSpec(f"{text!r}: {name}: {error}") from error
    if lacking := [name for name, one in taken.items() if one.default is one.empty and name not in values]:
        raise InvalidSpec(f"{text!r}: {', '.join(f'{name}=...' for name in lacking)} must be given")
    try:
        kind(**values)
    except Exception as error:
        raise InvalidSpec(f"{text!r}: {kind.__name__} refuses its parameters: {error}") from error
    return values


def check_options(text: str, options: Mapping[str, str], *known: str) -> None:
    """Check that all options are known; raises InvalidSpec."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidSpec(f"{text!r}: unknown option {', '.join(unknown)}{suggested(unknown[0], known)}")


def path_of(kind: type[Scheduler]) -> str:
    """Return ``module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def version_of(kind: type[Scheduler]) -> str | None:
    """Return a scheduler's version: its own, or that of the installed package that has it."""
    return _version_of_package(kind.__module__.partition(".")[0]) if kind.version is None else kind.version


@cache
def _version_of_package(name: str) -> str | None:
    packages = packages_distributions().get(name, ())
    return version(packages[0]) if packages else None


def source_sha256(kind: type[Scheduler]) -> str | None:
    """Return a hash of the file that defines a scheduler; None if there is none."""
    try:
        file = inspect.getsourcefile(kind)
        return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return None


def parameters_of(kind: type[Scheduler], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters in force, with defaults, as values that JSON has."""
    bound = inspect.signature(kind).bind(**given)
    bound.apply_defaults()
    return {name: msgspec.to_builtins(value, enc_hook=repr) for name, value in bound.arguments.items()}


def _find_here() -> str:
    """Let modules in the current folder be found, and return the folder."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # for good, because other processes that run the scheduler take over the path
    return here


def _is_scheduler(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Scheduler) and found is not Scheduler
