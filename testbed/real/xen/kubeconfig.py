"""A kubeconfig that is used in another folder than its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def movable_kubeconfig(text: str, folder: Path) -> str:
    """Return a valid kubeconfig with absolute paths; those in `text` are relative to `folder`.

    Examples
    --------
    >>> print(movable_kubeconfig("clusters: [{cluster: {certificate-authority: ca.crt}}]", Path("/home")), end="")
    clusters:
    - cluster:
        certificate-authority: /home/ca.crt
    """
    document: dict[str, Any] = yaml.safe_load(text)
    for kind in ("cluster", "user"):
        for entry in document.get(f"{kind}s") or ():
            described = entry.get(kind) or {}
            described |= {name: str(folder / described[name]) for name in _FILES if described.get(name)}
    return yaml.safe_dump(document, sort_keys=False)
