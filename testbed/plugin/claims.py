"""Marks for authors of tests: what a cluster test claims about the paper, and which outcome is expected of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def not_reproduced(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a claim that must fail: by an assertion, not by another error.

    Parameters
    ----------
    reason : str
        The paper's number and the measured one; the summary prints it.

    Examples
    --------
    >>> not_reproduced("thesis: 3 pods, here 4").kwargs["strict"]
    True
    """
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def depends_on_seed(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a claim that holds on about half of the seeds, so that no outcome can be expected of it.

    Parameters
    ----------
    reason : str
        On how many of how many seeds the claim was found to hold; the summary prints it.

    Examples
    --------
    >>> depends_on_seed("holds on 9 of 20 seeds").kwargs["strict"]
    False
    """
    return pytest.mark.xfail(strict=False, raises=AssertionError, reason=reason)


def claimed(
    cases: Iterable[Any], missing: Mapping[Any, str], undecided: Mapping[Any, str] | None = None
) -> list[ParameterSet]:
    """Return the cases of a parametrised claim, with the marks of those that do not simply hold.

    Parameters
    ----------
    cases : iterable
        Values of the parameter, or tuples of values for several parameters.
    missing : mapping
        The reason of each case that is not reproduced; see `not_reproduced`.
    undecided : mapping, optional
        The reason of each case that depends on the seed; see `depends_on_seed`.

    Examples
    --------
    >>> [case.id for case in claimed(["mean", "std"], {"std": "thesis: 1.5 s, here 3 s"})]
    ['mean', 'std']
    """
    undecided = undecided or {}
    values = {case: case if isinstance(case, tuple) else (case,) for case in cases}
    unknown = [case for case in (*missing, *undecided) if case not in values]
    if unknown:
        raise ValueError(f"reasons are given for {unknown}, which are not among the cases: {list(values)}")
    marks = {case: not_reproduced(reason) for case, reason in missing.items()}
    marks |= {case: depends_on_seed(reason) for case, reason in undecided.items()}
    return [
        pytest.param(*parts, id="-".join(map(str, parts)), marks=marks.get(case, ())) for case, parts in values.items()
    ]
