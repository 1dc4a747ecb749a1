"""Finds a misspelt method of a scheduler of one's own, which would never be called: every method has a default."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from testbed.schedulers.interface import Scheduler
from workloads.errors import did_you_mean


def misspelt_method(kind: type[Scheduler]) -> tuple[str, str] | None:
    """Return the name of a method that was probably meant to be one of the interface's, and the question which one.

    A method counts only if nothing else can be meant: it is public, takes as many parameters as the method that it
    resembles, which the class does not have, and is used nowhere in the class.

    Examples
    --------
    >>> class Misspelt(Scheduler):
    ...     def score(self, pod, node): return 1.0
    ...     def fliter(self, pod, node): return True
    >>> misspelt_method(Misspelt)
    ('fliter', ", did you mean 'filter'?")
    """
    lacking = {
        name: method for name, method in _methods(Scheduler) if inspect.getattr_static(kind, name, None) is method
    }
    own = [one for base in kind.__mro__[: kind.__mro__.index(Scheduler)] for one in _methods(base)]
    used = {name for _, method in own for name in _names(method.__code__)}
    for name, method in own:
        alike = [other for other, its in lacking.items() if _parameters(its) == _parameters(method)]
        if not (name.startswith("_") or hasattr(Scheduler, name) or name in used) and (
            meant := did_you_mean(name, alike)
        ):
            return name, meant
    return None


def _methods(kind: type[Any]) -> list[tuple[str, FunctionType]]:
    return [(name, one) for name, one in vars(kind).items() if isinstance(one, FunctionType)]


def _parameters(method: FunctionType) -> int:
    return len(inspect.signature(method).parameters)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, in comprehensions and inner functions, too."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
