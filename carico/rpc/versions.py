"""Logs that the other side has another version of CARICO: once per version, however many nodes there are."""

from __future__ import annotations

import logging

from carico import __version__

_log = logging.getLogger(__name__)

_MOST = 20
"""More versions than a cluster has at a time: a node's claims must not fill the log."""


class OtherVersions:
    """Logs each other version once.

    Parameters
    ----------
    here : str
        A name for this side, for the log: ``this scheduler``.
    """

    def __init__(self, here: str) -> None:
        self._here = here
        self._known = {__version__}

    def note(self, there: str, version: str) -> None:
        """Note the version of the other side.

        Parameters
        ----------
        there : str
            A name for the other side, for the log.
        version : str
            Its version; empty if it is too old to send one.
        """
        if version in self._known or len(self._known) > _MOST:
            return
        self._known.add(version)
        _log.warning(
            "%s has %s, %s has %s: they keep working together; bring both up to date with carico deploy",
            there,
            f"version {version}" if version else "an older version",
            self._here,
            __version__,
        )
