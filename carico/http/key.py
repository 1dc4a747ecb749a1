"""The key that callers of a process's status show for pages that not everybody may read.

The API server hands on requests of `carico status` to a pod, but neither its caller's certificate nor its token. So the
caller shows a key in a header, which it has from a Secret that only administrators may read.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from carico.config import StatusConfig
from carico.errors import InvalidConfig
from carico.rpc.tls import is_loopback

HEADER = "Carico-Key"


class StatusKey:
    """Decides who may read a page: on loopback everybody, elsewhere who shows the key; without a key nobody.

    Parameters
    ----------
    where : StatusConfig

    Raises
    ------
    InvalidConfig
        If the key's file cannot be read, or is empty.
    """

    def __init__(self, where: StatusConfig) -> None:
        self._file = None if where.key is None else Path(where.key)
        self._open = self._file is None and is_loopback(where.host)
        if self._file is not None and not self._read():
            raise InvalidConfig(f"status.key must name a file with a key, {self._file} is empty or cannot be read")

    def why_not(self, shown: str | None) -> str:
        """Return why a caller may not read a page; an empty text means that it may.

        Parameters
        ----------
        shown : str or None
            What the caller's header says.
        """
        if self._open:
            return ""
        key = self._read()
        if not key:
            return "this page is for callers on the same machine: give the process a `status.key` to show it to others"
        if hmac.compare_digest(key, (shown or "").encode()):
            return ""
        return f"this page needs the right {HEADER} header: use `carico status` or `carico costs`"

    def _read(self) -> bytes:
        """Return the key as the file has it now, so that it can be replaced; empty if there is none."""
        try:
            return b"" if self._file is None else self._file.read_bytes().strip()
        except OSError:
            return b""
