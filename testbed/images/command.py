"""``carico-testbed images``: make what a real cluster is made of, where no image can be pulled."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from testbed.errors import Unprepared
from testbed.images.programs import PROGRAM_SETS, Programs
from testbed.progress import ProgressLine

_NEEDED_BYTES = 6 << 30
"""Go's own caches take most of it."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    images = commands.add_parser(
        "images",
        help="make what a real cluster is made of, where no image can be pulled",
        description="Makes what a real cluster is made of from sources, where no image can be pulled.",
    )
    kinds = images.add_subparsers(title="what", metavar="WHAT", required=True)
    programs = kinds.add_parser(
        "programs",
        help="build Kubernetes, etcd, CoreDNS, kind and kwok from Go modules",
        description="Builds the programs of a cluster from Go modules, whose versions are pinned: some ten minutes on "
        "two CPUs the first time, nothing later. Needs Go 1.24 or newer and a module proxy that it can reach.",
    )
    names = [programs.name for programs in PROGRAM_SETS]
    programs.add_argument("names", metavar="SET", nargs="*", help=f"{', '.join(names)} (default: all)")
    programs.add_argument(
        "--kept",
        metavar="FOLDER",
        type=Path,
        default=default_place(),
        help="where they are kept (default: %(default)s)",
    )
    programs.add_argument("--quiet", action="store_true", help="no progress on standard error")
    programs.set_defaults(run=lambda options: _programs(options, programs))


def default_place() -> Path:
    """Return where programs and images are kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carico"


def _programs(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    known = {programs.name: programs for programs in PROGRAM_SETS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no set {', '.join(unknown)}; known: {', '.join(known)}")
    builder = Programs(options.kept)
    wanted = [known[name] for name in options.names or known]
    missing = [programs for programs in wanted if not builder.place(programs).is_dir()]
    if missing:
        _check_room(options.kept)
    line = ProgressLine(lambda text: print(text, end="", file=sys.stderr, flush=True), sys.stderr.isatty())
    for programs in wanted:
        began = time.monotonic()
        try:
            folder = builder.build(programs, (lambda text: None) if options.quiet else line.show)
        finally:
            line.clear()
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        how = f"built in {time.monotonic() - began:.0f} s" if programs in missing else "was there"
        print(f"{programs.name:<12}{size:6.0f} MiB  {how}: {folder}")
    return 0


def _check_room(place: Path) -> None:
    there = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free < _NEEDED_BYTES:
        raise Unprepared(
            f"{free / 2**30:.1f} GiB are free at {there}, building takes up to {_NEEDED_BYTES / 2**30:.0f} GiB with "
            f"Go's own caches: make room, or name another place with --kept (and GOCACHE, GOMODCACHE)"
        )
