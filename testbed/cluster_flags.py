"""The options of a run's cluster, declared once for the command line and for pytest. Importing this is cheap."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.arguments import count

WORKERS = 2


@dataclass(frozen=True)
class Flag:
    """An option of the command line and of pytest; its value is the field of `ClusterOptions` with the same name."""

    name: str
    help: str
    metavar: str | None = None
    """None for a switch."""
    convert: Callable[[str], Any] = str
    default: Any = None

    @property
    def spelling(self) -> str:
        """The option's name after the dashes."""
        return self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.metavar is None


CLUSTER_FLAGS = (
    Flag(
        "keep_cluster",
        "keep the real cluster at the end, and reuse a kept one if nothing has changed (default: remove it)",
        default=False,
    ),
    Flag("recreate_cluster", "always create the real cluster anew, in place of a kept one", default=False),
    Flag(
        "node_image",
        "image of kind's nodes (default: the one that 'carico-testbed images build' has made, or else the one that "
        "kind's authors publish)",
        "IMAGE",
    ),
    Flag(
        "workers",
        f"nodes of a kind cluster in addition to the control plane (default: {WORKERS})",
        "N",
        convert=count,
        default=WORKERS,
    ),
    Flag(
        "pytest_kind",
        "make kind clusters through pytest-kind (extra 'kind') instead of kind's own command",
        default=False,
    ),
    Flag(
        "kubeconfig",
        "kubeconfig of your own cluster, for the provider external; the testbed touches only what it makes there",
        "FILE",
        Path,
    ),
    Flag("xen", "description of a Xen host and of the guests to make on it, for the provider xen", "FILE", Path),
    Flag("context", "context of the kubeconfig (default: its current one)", "NAME"),
    Flag(
        "workload_image",
        "image of pods on your own cluster, which must be able to pull it; 'carico-testbed images build' builds it",
        "IMAGE",
    ),
)
ATTEMPTS_HELP = (
    "run a repetition on kind or kwok up to N times, until the hypervisor gives less than a tenth of the machine's CPU "
    "time to other guests during an attempt; discarded attempts are reported"
)


def add_cluster_options(command: ArgumentParser, without: Collection[str] = ()) -> None:
    """Declare the options of a command that may make a real cluster, without those that say nothing of its clusters."""
    for flag in CLUSTER_FLAGS:
        if flag.name in without:
            command.set_defaults(**{flag.name: flag.default})
        elif flag.is_switch:
            command.add_argument(f"--{flag.spelling}", action="store_true", help=flag.help)
        else:
            command.add_argument(
                f"--{flag.spelling}", metavar=flag.metavar, type=flag.convert, default=flag.default, help=flag.help
            )
    command.add_argument("--attempts", metavar="N", type=count, default=1, help=f"{ATTEMPTS_HELP} (default: 1)")


def chosen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster's options, fields of `ClusterOptions`, out of all options by name."""
    return {flag.name: values[flag.name] for flag in CLUSTER_FLAGS}
