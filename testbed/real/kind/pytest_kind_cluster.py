"""``python -m testbed.real.kind.pytest_kind_cluster``: makes a cluster through pytest-kind's `KindCluster`.

This is a process of its own, because that class has no deadline, writes into the working directory, and prints.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from testbed.programs.launcher import LAUNCHER


def main(name: str, image: str, config: str, kubeconfig: str, kind: str, kubectl: str) -> None:
    """Make a cluster from the arguments of the command line; an empty image stands for kind's default."""
    from pytest_kind.cluster import KindCluster  # an optional dependency

    own = kind_of_ours(Path(kind), Path(kubeconfig).with_name("kind"))
    cluster = KindCluster(
        name, kubeconfig=Path(kubeconfig), image=image or None, kind_path=own, kubectl_path=Path(kubectl)
    )
    cluster.create(config_file=config)


def kind_of_ours(kind: Path, script: Path) -> Path:
    """Write a wrapper of kind with two features that `KindCluster` lacks, and return its path.

    The wrapper ends with the process that starts it, and keeps a half-made cluster so that its logs can be read.
    """
    lines = (
        "#!/bin/sh",
        '[ "$1" = create ] && set -- "$@" --retain',
        f'exec {shlex.join(LAUNCHER)} $PPID {shlex.quote(str(kind))} "$@"',
    )
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script.chmod(0o700)
    return script


if __name__ == "__main__":
    main(*sys.argv[1:])
