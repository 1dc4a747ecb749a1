"""``scripts/xen-lab``: a host of Xen, emulated on this machine, with a control plane that guests can join."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from testbed.errors import TestbedError, Unprepared
from testbed.experiment.progress import line_on_stderr
from testbed.user_cache import user_cache
from tests.kits.xen_lab.lab import Lab
from tests.kits.xen_lab.qemu import GUEST_TYPES


def main() -> int:
    """Run a command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="scripts/xen-lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    helps = {
        "up": "start the lab, build its disks if they are missing, and write lab.json and guests.yaml",
        "down": "end the lab, and remove its files",
        "status": "say what runs; the exit code is 0 if all does",
        "images": "build the disks of the lab and of its guests, if they are missing",
    }
    for name, what in helps.items():
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument(
            "--folder", type=Path, default=user_cache() / "xen-lab", help="the lab's files (default: %(default)s)"
        )
        command.add_argument(
            "--kept",
            type=Path,
            default=user_cache(),
            help="folder that keeps programs and disks (default: %(default)s)",
        )
        if name == "up":
            command.add_argument(
                "--type", choices=GUEST_TYPES, default="pv", help="type of the guests (default: %(default)s)"
            )
        if name == "images":
            command.add_argument(
                "--check", action="store_true", help="only say whether they are there: exit code 3 if not"
            )
        command.set_defaults(run=globals()[f"_{name}"])
    options = parser.parse_args()
    try:
        return options.run(Lab(options.folder.absolute(), options.kept.absolute()), options)
    except TestbedError as error:
        print(f"xen-lab: {error}", file=sys.stderr)
        return 4 if isinstance(error, Unprepared) else 1


def _up(lab: Lab, options: argparse.Namespace) -> int:
    began = time.monotonic()
    line = line_on_stderr()
    try:
        facts = lab.up(line.show, options.type)
    finally:
        line.clear()
    print(f"the lab is up after {time.monotonic() - began:.0f} s: {lab.folder / 'lab.json'}")
    print(f"dom0:          ssh -i {facts.key} -o UserKnownHostsFile={facts.known_hosts} {facts.user}@{facts.address}")
    print(f"guests:        {facts.guests}")
    print(f"control plane: KUBECONFIG={facts.kubeconfig}")
    return 0


def _down(lab: Lab, options: argparse.Namespace) -> int:
    lab.down()
    return 0


def _status(lab: Lab, options: argparse.Namespace) -> int:
    print("\n".join(lab.status()) or "no lab is up")
    return 0 if lab.facts() is not None and lab.is_whole else 3


def _images(lab: Lab, options: argparse.Namespace) -> int:
    if options.check:
        there = lab.has_disks()
        print("the disks are there" if there else "disks are missing: scripts/xen-lab images builds them")
        return 0 if there else 3
    line = line_on_stderr()
    try:
        folders = lab.build(line.show)
    finally:
        line.clear()
    for folder in folders:
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
