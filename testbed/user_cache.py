"""The folder for files that outlive a run and belong to no project: built programs, and the registry of clusters."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return the folder `carico` in the user's cache, which need not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carico"
