"""What a session wants of its cluster. Importing this imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORKERS = 2


@dataclass(frozen=True)
class Wishes:
    """What a session wants of its cluster."""

    run: str
    """The run's id."""
    keep: bool = False
    """Use a kept cluster if there is one, and keep it."""
    recreate: bool = False
    """Make it anew in place of one that was kept."""
    session: str = ""
    """Tells sessions apart that run side by side: tox's environment."""
    node_image: str | None = None
    """What kind runs as a node; by default what was made here, else what kind's authors publish."""
    workers: int = WORKERS
    """Nodes of a kind cluster, beside the control plane."""
    diagnostics: Path | None = None
    """Where to put what may tell why a run failed."""
    say: Callable[[str], None] = lambda text: None
    """Is told what a user should know: why a kept cluster is not used again, what was removed."""
    kubeconfig: Path | None = None
    """Leads to somebody's cluster, for the provider external."""
    context: str | None = None
    """Of the kubeconfig; its current one by default."""
    workload_image: str | None = None
    """What pods run on somebody's cluster, which must be able to pull it."""
