"""``carico-testbed images``: build the programs and images of real clusters, where no image can be pulled."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from carico.files import write_whole
from testbed.commands import HELP
from testbed.errors import Unprepared
from testbed.experiment.preflight import listed
from testbed.experiment.progress import line_on_stderr
from testbed.images.catalogue import PURPOSES, Catalogue, missing_for_programs
from testbed.images.control_plane import control_plane_images
from testbed.images.docker import Docker
from testbed.images.outdated import outdated_images, outdated_programs, remove_image, remove_programs
from testbed.images.programs import PROGRAM_SETS, OnProgress, Programs
from testbed.images.sbom import bill
from testbed.user_cache import user_cache


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    images = commands.add_parser(
        "images",
        help=HELP["images"],
        description="Builds the programs and images of real clusters from sources, where no image can be pulled. "
        "Everything is identified by its inputs, so only what has changed is built again.",
    )
    kinds = images.add_subparsers(title="what", metavar="WHAT", required=True)
    _add_build(kinds)
    _add_guest(kinds)
    _add_programs(kinds)
    _add_sbom(kinds)
    _add_prune(kinds)


def _add_build(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    lines = "\n".join(f"  {name:<18} {purpose}" for name, purpose in PURPOSES.items())
    build = kinds.add_parser(
        "build",
        help="build programs and images: the nodes of kind, CARICO, the workloads",
        description="Builds the programs of a cluster, and with them images in the local Docker daemon:\n\n"
        f"{lines}\n\n"
        "Nothing is pulled: images are based on this machine's own distribution, whose packages come from the mirror "
        "that apt is set to. Needs root (for debootstrap), Docker, debootstrap, Go 1.24 or newer, and 10 GiB of disk. "
        "Takes about twelve minutes on two CPUs the first time, and seconds when nothing has changed.",
    )
    build.add_argument("names", metavar="IMAGE", nargs="*", help="images to build (default: all)")
    _add_common(build)
    build.set_defaults(run=lambda options: _build(options, build))


def _add_guest(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    guest = kinds.add_parser(
        "guest",
        help="build the root disk and the kernel of Xen guests that are nodes",
        description="Builds what guests of a Xen host need to be nodes of a cluster: a root disk (root.img), a kernel "
        "and an initial file system, with facts about them (guest.json), in one folder. They serve guests of type pv, "
        "pvh and hvm. The disk is Debian with containerd, Kubernetes's programs, and the images of the control plane, "
        "of CARICO and of the workloads; on the host it is the read-only base of every guest's own disk. Needs root, "
        "Docker, debootstrap, mke2fs, Go and Debian's kernel package. Takes about five minutes on two CPUs once "
        "programs and images are built.",
    )
    _add_common(guest)
    guest.set_defaults(run=_guest)


def _add_programs(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    programs = kinds.add_parser(
        "programs",
        help="build Kubernetes, etcd, CoreDNS, kind and kwok from Go modules",
        description="Builds the programs of a cluster from Go modules, whose versions are pinned. Takes about ten "
        "minutes on two CPUs, and a second once they are built. Needs Go 1.24 or newer and a module proxy that it can "
        "reach.",
    )
    names = [programs.name for programs in PROGRAM_SETS]
    programs.add_argument("names", metavar="SET", nargs="*", help=f"sets to build: {', '.join(names)} (default: all)")
    _add_common(programs)
    programs.set_defaults(run=lambda options: _programs(options, programs))


def _add_sbom(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sbom = kinds.add_parser(
        "sbom",
        help="write the bill of materials of an image, as CycloneDX",
        description="Reads an image of the local Docker daemon and writes what it is made of (CycloneDX 1.6, JSON): "
        "packages of the distribution, of Python and of Go, with their versions. Scanners for known vulnerabilities "
        "read such files, for example osv-scanner. Needs the extra `sbom`, and Go for programs written in Go.",
    )
    sbom.add_argument(
        "name", metavar="IMAGE", help=f"{', '.join(PURPOSES)} as built here, or the full name of another image"
    )
    sbom.add_argument("--output", metavar="FILE", type=Path, help="where to write it (default: standard output)")
    _add_kept(sbom)
    sbom.set_defaults(run=_sbom)


def _add_prune(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    prune = kinds.add_parser(
        "prune",
        help="remove programs, disks and images that are out of date",
        description="Removes programs, disks of virtual machines, and images that were built here for other versions "
        "(of this project, of Go, of packages) and that nothing uses any more. An image that a container runs stays, "
        "and the output says so.",
    )
    prune.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    _add_kept(prune)
    prune.set_defaults(run=_prune)


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_kept(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress on standard error")


def _add_kept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kept",
        metavar="FOLDER",
        type=Path,
        default=user_cache(),
        help="folder that keeps programs (default: %(default)s); to use programs of another folder set "
        "CARICO_PROGRAMS=FOLDER",
    )


def _build(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    names = _chosen(options.names, tuple(PURPOSES), "image", parser)
    programs = Programs(options.kept)
    catalogue = Catalogue(Docker(), programs)
    problems = catalogue.missing(names, options.kept)
    if problems:
        raise Unprepared(listed(problems))
    if "node" in names:
        _build_programs(programs, [one.name for one in PROGRAM_SETS], options.quiet)
    for name in names:
        image = catalogue.image(name)
        how = _built(catalogue.docker.has(image.tag), partial(image.ensure, catalogue.docker), options.quiet)
        _report(name, catalogue.docker.size(image.tag), how, image.tag)
    return 0


def _guest(options: argparse.Namespace) -> int:
    programs = Programs(options.kept)
    catalogue = Catalogue(Docker(), programs)
    problems = catalogue.missing(("guest",), options.kept)
    if problems:
        raise Unprepared(listed(problems))
    _build_programs(programs, [one.name for one in PROGRAM_SETS], options.quiet)
    disk = catalogue.guest_disk()
    how = _built(disk.folder.is_dir(), disk.ensure, options.quiet)
    # The disk is sparse.
    _report("guest", sum(file.stat().st_blocks * 512 for file in disk.folder.iterdir()), how, str(disk.folder))
    return 0


def _programs(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    names = _chosen(options.names, tuple(programs.name for programs in PROGRAM_SETS), "set", parser)
    programs = Programs(options.kept)
    problems = missing_for_programs(programs, names, options.kept)
    if problems:
        raise Unprepared(listed(problems))
    _build_programs(programs, names, options.quiet)
    return 0


def _sbom(options: argparse.Namespace) -> int:
    catalogue = Catalogue(Docker(), Programs(options.kept))
    catalogue.docker.version()
    ours = options.name in PURPOSES
    image = catalogue.image(options.name).tag if ours else options.name
    if not catalogue.docker.has(image):
        remedy = f"carico-testbed images build {options.name}" if ours else f"docker pull {image}, or docker build"
        raise Unprepared(f"the Docker daemon has no image {image}: {remedy}")
    # The control plane's images are within the node's, where nothing else reads them.
    within = control_plane_images(catalogue.programs) if options.name == "node" else []
    text = bill(catalogue.docker, image, within)
    if options.output is None:
        print(text, end="")
    else:
        write_whole(options.output, text.encode())
    return 0


def _prune(options: argparse.Namespace) -> int:
    docker, programs = Docker(), Programs(options.kept)
    catalogue = Catalogue(docker, programs)
    folders = outdated_programs(catalogue)
    for folder in folders:
        print(folder if options.dry_run else remove_programs(folder), flush=True)
    docker.version()
    tags = outdated_images(catalogue)
    for tag in tags:
        print(tag if options.dry_run else remove_image(docker, tag), flush=True)
    if not folders and not tags:
        print("nothing is out of date")
    return 0


def _build_programs(builder: Programs, names: Sequence[str], quiet: bool) -> None:
    for programs in PROGRAM_SETS:
        if programs.name not in names:
            continue
        place = builder.place(programs)
        how = _built(place.is_dir(), partial(builder.build, programs), quiet)
        _report(programs.name, sum(file.stat().st_size for file in place.iterdir()), how, str(place))


def _chosen(
    names: Sequence[str], known: tuple[str, ...], what: str, parser: argparse.ArgumentParser
) -> tuple[str, ...]:
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"there is no {what} {', '.join(unknown)}; known: {', '.join(known)}")
    return tuple(name for name in known if name in names) if names else known


def _built(there: bool, make: Callable[[OnProgress], object], quiet: bool) -> str:
    """Build something, show the progress, and return in words whether it existed or how long building took."""
    line = line_on_stderr()
    began = time.monotonic()
    try:
        make((lambda text: None) if quiet else line.show)
    finally:
        line.clear()
    return "was there" if there else f"built in {time.monotonic() - began:.0f} s"


def _report(name: str, size: int, how: str, where: str) -> None:
    print(f"{name:<18}{size / 2**20:6.0f} MiB  {how}: {where}", flush=True)
