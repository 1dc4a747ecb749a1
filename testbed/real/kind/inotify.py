"""How many more inotify instances the user may open: a kernel limit that all nodes on one machine share."""

from __future__ import annotations

from contextlib import ExitStack

from inotify_simple import INotify


def free_instances(at_most: int) -> int:
    """Return how many instances can be opened now, by opening them for a moment.

    Parameters
    ----------
    at_most : int
        Instances to try to open.

    Examples
    --------
    >>> free_instances(0)
    0
    """
    with ExitStack() as opened:
        for number in range(at_most):
            try:
                opened.enter_context(INotify())
            except OSError:
                return number
    return at_most
