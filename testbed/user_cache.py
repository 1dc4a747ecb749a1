"""The folder of what outlives a run and belongs to no project: programs and images that were built, clusters."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return the folder, which need not be there yet: `carico` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carico"
