"""The options that name a cluster, and the connection to it; the latter needs the extra `scheduler`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carico.kube.objects import KubeObjects

OUTSIDE_A_POD = "outside a pod, name a cluster's kubeconfig with --kubeconfig FILE"
"""What to do where the account of a pod is the default and there is none."""


def of_cluster(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-n", "--namespace", metavar="NS", default="carico", help="CARICO's namespace (default: carico)"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="the cluster's kubeconfig (default: the file that KUBECONFIG names, or .kube/config in the home folder)",
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig (default: the current one)")


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[KubeObjects]:
    """Yield the cluster that the options name."""
    from carico.kube.client import KubeClient
    from carico.kube.objects import KubeObjects

    default = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    remedy = "name the cluster's with --kubeconfig FILE (and --context NAME) or the variable KUBECONFIG"
    client = KubeClient.from_config(options.kubeconfig or default, options.context, remedy=remedy)
    try:
        yield KubeObjects(client)
    finally:
        client.close()
