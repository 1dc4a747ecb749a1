"""What a run wants of its cluster: declared once for the command line and for pytest. Importing this is cheap."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.arguments import count

WORKERS = 2


@dataclass(frozen=True)
class ClusterOptions:
    """What a run wants of its cluster."""

    run: str
    """The run's id."""
    keep_cluster: bool = False
    """Use a kept cluster if there is one, and keep it."""
    recreate_cluster: bool = False
    """Make the cluster anew in place of one that was kept."""
    node_image: str | None = None
    """What kind runs as a node; by default the image that was built here, else the one that kind's authors publish."""
    workers: int = WORKERS
    """Nodes of a kind cluster, beside the control plane."""
    kubeconfig: Path | None = None
    """Leads to the user's own cluster, for the provider external."""
    context: str | None = None
    """Of the kubeconfig; its current one by default."""
    workload_image: str | None = None
    """What pods run on the user's own cluster, which must be able to pull it."""
    session: str = ""
    """Tells sessions apart that run side by side: tox's environment."""
    diagnostics: Path | None = None
    """Where to put what may tell why a run failed."""
    say: Callable[[str], None] = lambda text: None
    """Is told what a user should know: why a kept cluster is not used again, what was removed."""


@dataclass(frozen=True)
class Flag:
    """An option of the command line and of pytest; its value is the field of `ClusterOptions` with the same name."""

    name: str
    help: str
    metavar: str | None = None
    """None of a switch."""
    convert: Callable[[str], Any] = str
    default: Any = None

    @property
    def spelling(self) -> str:
        """As it is written after the dashes."""
        return self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.metavar is None


CLUSTER_FLAGS = (
    Flag(
        "keep_cluster",
        "keep the real cluster at the end, and use it again if it is what would be made (default: it is removed)",
        default=False,
    ),
    Flag("recreate_cluster", "make the real cluster anew in place of one that was kept", default=False),
    Flag(
        "node_image",
        "what kind runs as a node (default: the image that 'carico-testbed images build' has made, else the one that "
        "kind's authors publish)",
        "IMAGE",
    ),
    Flag("workers", f"nodes of a kind cluster beside the control plane (default: {WORKERS})", "N", count, WORKERS),
    Flag(
        "kubeconfig",
        "leads to your own cluster, for the provider external; only what the testbed makes there is touched",
        "FILE",
        Path,
    ),
    Flag("context", "of the kubeconfig (default: its current one)", "NAME"),
    Flag(
        "workload_image",
        "what pods run on your own cluster, which must be able to pull it: as 'carico-testbed images build' makes it",
        "IMAGE",
    ),
)
ATTEMPTS_HELP = (
    "how often a repetition on kind and kwok is run at most, until the machine's hypervisor gives less than a tenth of "
    "its CPU time to others meanwhile; discarded attempts are reported"
)


def add_cluster_options(command: ArgumentParser) -> None:
    """Declare the options of a command that may make a real cluster."""
    for flag in CLUSTER_FLAGS:
        if flag.is_switch:
            command.add_argument(f"--{flag.spelling}", action="store_true", help=flag.help)
        else:
            command.add_argument(
                f"--{flag.spelling}", metavar=flag.metavar, type=flag.convert, default=flag.default, help=flag.help
            )
    command.add_argument("--attempts", metavar="N", type=count, default=1, help=f"{ATTEMPTS_HELP} (default: 1)")


def chosen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen of a cluster, out of all options by name: fields of `ClusterOptions`."""
    return {flag.name: values[flag.name] for flag in CLUSTER_FLAGS}
