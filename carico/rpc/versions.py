"""Says that the other side is of another version of CARICO: once for every version, however many nodes there are."""

from __future__ import annotations

import logging

from carico import __version__

_log = logging.getLogger(__name__)

_MOST = 20
"""More versions than a cluster has at a time; what a node says of itself must not fill the log."""


class OtherVersions:
    """Remembers of which versions it has spoken.

    Parameters
    ----------
    here : str
        What runs here, for the log: ``this scheduler``.
    """

    def __init__(self, here: str) -> None:
        self._here = here
        self._known = {__version__}

    def note(self, there: str, version: str) -> None:
        """Take in of which version the other side is.

        Parameters
        ----------
        there : str
            The other side, for the log.
        version : str
            Empty if it is too old to say.
        """
        if version in self._known or len(self._known) > _MOST:
            return
        self._known.add(version)
        _log.warning(
            "%s is of %s, %s of %s: they keep working together; bring both up to date with carico deploy",
            there,
            f"version {version}" if version else "an older version",
            self._here,
            __version__,
        )
