"""The options of a run's cluster as a value; `testbed.cluster_flags` declares them for users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster_flags import WORKERS


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a run's cluster."""

    run: str
    """The run's id."""
    keep_cluster: bool = False
    """Use a kept cluster if there is one, and keep it."""
    recreate_cluster: bool = False
    """Make the cluster anew, in place of a kept one."""
    node_image: str | None = None
    """Image of kind's nodes; by default the one that was built here, or else the one that kind's authors publish."""
    workers: int = WORKERS
    """Nodes of a kind cluster, beside the control plane."""
    pytest_kind: bool = False
    """Make kind clusters through pytest-kind instead of kind's own command."""
    kubeconfig: Path | None = None
    """The kubeconfig of the user's own cluster, for the provider external."""
    context: str | None = None
    """The context of the kubeconfig; its current one by default."""
    xen: Path | None = None
    """The description of a Xen host and of guests, for the provider xen."""
    workload_image: str | None = None
    """Image of the pods on the user's own cluster, which must be able to pull it."""
    session: str = ""
    """Distinguishes sessions that run side by side: tox's environment."""
    diagnostics: Path | None = None
    """The folder for diagnostics of failed runs; with None, none are collected."""
    say: Callable[[str], None] = lambda text: None
    """Called with messages for the user: why a kept cluster is not used again, what was removed."""
