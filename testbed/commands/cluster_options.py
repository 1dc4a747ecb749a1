"""Options of the commands that make a real cluster, and what they wish of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from testbed.commands import arguments
from testbed.experiment.cluster_options import WORKERS, Wishes
from testbed.results import runs_folder


def add_cluster_options(command: argparse.ArgumentParser) -> None:
    """Declare the options of a command that makes a cluster."""
    command.add_argument(
        "--keep-cluster",
        action="store_true",
        help="keep a real cluster at the end, and use it again if it is what would be made (default: it is removed)",
    )
    command.add_argument(
        "--recreate-cluster", action="store_true", help="make a real cluster anew in place of one that was kept"
    )
    command.add_argument(
        "--attempts",
        metavar="N",
        type=arguments.count,
        default=1,
        help=f"{arguments.ATTEMPTS_HELP} (default: 1)",
    )
    command.add_argument("--node-image", metavar="IMAGE", help=arguments.NODE_IMAGE_HELP)
    command.add_argument("--workers", metavar="N", type=arguments.count, default=WORKERS, help=arguments.WORKERS_HELP)


def wishes_of(options: argparse.Namespace, run_id: str, root: Path) -> Wishes:
    """Return what these options say, for a run that is recorded below `root`."""
    return Wishes(
        run_id,
        options.keep_cluster,
        options.recreate_cluster,
        node_image=options.node_image,
        workers=options.workers,
        diagnostics=runs_folder(root) / run_id / "diagnostics",
        say=lambda text: print(f"carico-testbed: {text}", file=sys.stderr),
    )
