"""``carico-testbed clean``: remove the real clusters that no process uses."""

from __future__ import annotations

import argparse

from testbed.commands import HELP
from testbed.providers import XEN, makers
from testbed.requirements import missing_packages


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    clean = commands.add_parser(
        "clean",
        help=HELP["clean"],
        description="Removes the real clusters that the testbed has made on this machine and that no process uses: "
        "kept clusters, and those of killed runs. The exit code is 1 if one of them is still there.",
    )
    clean.set_defaults(run=_clean)


def _clean(options: argparse.Namespace) -> int:
    known = makers()
    from testbed.real.lifecycle import sweep
    from testbed.real.registry import Registry

    registry = Registry()
    with registry.locked():
        said = list(sweep(registry, known, kept=True))
        left = [noted for folder, noted in registry.all() if not folder.is_used]
    said += [f"cluster {one.name} is left: {_why_unknown(one.kind)}" for one in left if one.kind not in known]
    print("\n".join(said) if said else "no cluster is left")
    return 1 if left else 0


def _why_unknown(kind: str) -> str:
    return str(missing_packages(XEN)) if kind == XEN else f"this version has no provider {kind}"
