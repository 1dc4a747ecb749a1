"""The exceptions of the workloads package.

::

    WorkloadError (also ValueError)
    ├── InvalidQuantity     not a Kubernetes quantity, or one that makes no sense
    ├── InvalidDemand       a demand model's parameter makes no sense
    ├── InvalidHistogram    a latency or a quantile that makes no sense
    ├── InvalidScenario     a scenario file is not what the schema says
    ├── Misfit              a value is not what its schema says
    ├── UnknownScenario     no scenario of that name
    └── InvalidTrace        the file of a trace is invalid, or gives no scenario
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

Key = Any
"""A step of a path: a key of a mapping, which is text unless it is wrong, or an index of a list."""


class WorkloadError(ValueError):
    """Base of all errors about what was asked to run.

    Parameters
    ----------
    message : str
    *path : str or int
        The keys and indices that lead to the wrong value in what was read, as far as they are known here.
    """

    def __init__(self, message: str, *path: Key) -> None:
        super().__init__(message)
        self.path = path


class InvalidQuantity(WorkloadError):
    """Not a Kubernetes quantity, or one that makes no sense where it stands."""


class InvalidDemand(WorkloadError):
    """A demand model's parameter makes no sense."""


class InvalidHistogram(WorkloadError):
    """A latency or a quantile that makes no sense."""


class InvalidScenario(WorkloadError):
    """A scenario file is not what the schema says."""


class Misfit(WorkloadError):
    """A value is not what its schema says; the message begins with all of the path.

    Parameters
    ----------
    problem : str
    *path : str or int
    """

    def __init__(self, problem: str, *path: Key) -> None:
        super().__init__(_labelled(problem, path), *path)
        names = [index for index, key in enumerate(path) if not isinstance(key, int)]
        self.brief = _labelled(problem, path[names[-1] :] if names else path)
        """The message with the end of the path only, for a place whose line is known."""


class UnknownScenario(WorkloadError):
    """No scenario of that name."""


class InvalidTrace(WorkloadError):
    """The file of a trace is invalid, or gives no scenario."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a question for an error message about an unknown name; an empty text if no known name is close.

    Examples
    --------
    >>> did_you_mean("poison", ["burst", "poisson"]), did_you_mean("x", ["y"])
    (", did you mean 'poisson'?", '')
    """
    close = get_close_matches(given, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def suggested(given: str, known: Iterable[str], rest: str = "") -> str:
    """Return the end of an error message about an unknown name: what was meant, if a known name is close, and the rest.

    Parameters
    ----------
    given : str
    known : iterable of str
    rest : str, optional
        How the message goes on, beginning with a small letter; by default with all known names.

    Examples
    --------
    >>> suggested("poison", ["burst", "poisson"]), suggested("x", ["y"])
    (", did you mean 'poisson'? Known: burst, poisson", '; known: y')
    >>> suggested("poison", ["burst", "poisson"], "write one of them"), suggested("x", [])
    (", did you mean 'poisson'? Write one of them", '; known: none')
    """
    names = list(known)
    meant = did_you_mean(given, names)
    rest = rest or f"known: {', '.join(names) or 'none'}"
    return f"{meant} {rest[0].upper()}{rest[1:]}" if meant else f"; {rest}"


def shown(value: object) -> str:
    """Return a value for a message, in one line and shortened.

    Examples
    --------
    >>> shown("five"), shown(None), shown([]), shown({"a": 1}), shown(True), shown(1.5)
    ("'five'", 'nothing', 'an empty list', 'a mapping', 'true', '1.5')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
    if isinstance(value, float | date):
        return str(value)
    kinds = ((list | tuple, "list"), (dict, "mapping"), (object, f"value of the type {type(value).__name__}"))
    kind = next(word for kind, word in kinds if isinstance(value, kind))
    return f"a {kind}" if value else f"an empty {kind}"


def _labelled(problem: str, path: Sequence[Key]) -> str:
    label = ""
    for key in path:
        if isinstance(key, int) and label:
            label += f"[{key}]"
        else:
            label += "." * bool(label) + (key if isinstance(key, str) and key.isidentifier() else shown(key))
    return f"{label}: {problem}" if label else problem
