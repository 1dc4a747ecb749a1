"""``python -m testbed.real.kind.pytest_kind_cluster``: makes a cluster through pytest-kind's `KindCluster`.

A process of its own, for that class has no deadline, writes where it runs, and prints.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from testbed.programs.tether import TETHER


def main(name: str, image: str, config: str, kubeconfig: str, kind: str, kubectl: str) -> None:
    """Make a cluster; the arguments are those of the command line, an empty image is kind's own."""
    from pytest_kind.cluster import KindCluster  # an extra

    own = kind_of_ours(Path(kind), Path(kubeconfig).with_name("kind"))
    KindCluster(name, Path(kubeconfig), image or None, own, Path(kubectl)).create(config_file=config)


def kind_of_ours(kind: Path, script: Path) -> Path:
    """Write a kind that does what `KindCluster` cannot ask for, and return it.

    It ends with the process that starts it, and leaves a cluster that it could not make for its logs to be read.
    """
    lines = (
        "#!/bin/sh",
        '[ "$1" = create ] && set -- "$@" --retain',
        f'exec {shlex.join(TETHER)} $PPID {shlex.quote(str(kind))} "$@"',
    )
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script.chmod(0o700)
    return script


if __name__ == "__main__":
    main(*sys.argv[1:])
