"""``python -m testbed.clusters.pytest_kind_cluster``: makes a cluster through pytest-kind's `KindCluster`.

A process of its own, for that class has no deadline, writes where it runs, and prints.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(name: str, image: str, config: str, kubeconfig: str, kind: str, kubectl: str) -> None:
    """Make a cluster; the arguments are those of the command line, an empty image is kind's own."""
    from pytest_kind.cluster import KindCluster  # an extra

    KindCluster(name, Path(kubeconfig), image or None, Path(kind), Path(kubectl)).create(config_file=config)


if __name__ == "__main__":
    main(*sys.argv[1:])
