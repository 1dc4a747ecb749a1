"""The software bill of materials of an image: what it is made of, as CycloneDX.

The image itself is read: the status that dpkg keeps of its packages, the metadata of Python's distributions, and the
modules that Go writes into a program. So it says what is in the image, not what was meant to be.
"""

from __future__ import annotations

import email.parser
import re
import shutil
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from testbed.errors import Unprepared
from testbed.images.docker import Docker

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom

_LARGEST_METADATA = 2**24
"""The largest text that is read, bytes; dpkg's status of a whole node has a third of a MiB."""
_STATUS = re.compile(r"var/lib/dpkg/status(\.d/[^/]+)?")
_METADATA = re.compile(r".*\.dist-info/METADATA")
_MODULE = re.compile(r"^\t(?:mod|dep|=>)\t(\S+)\t(v\S+)", re.MULTILINE)
_GO = re.compile(r": (go\d\S*)$", re.MULTILINE)


class Part(NamedTuple):
    """Something that an image is made of."""

    kind: str
    """The type of a package URL: deb, pypi, golang."""
    name: str
    version: str


def parts_of(docker: Docker, images: Iterable[str]) -> list[Part]:
    """Return what images are made of, in the order of kinds and names.

    Raises
    ------
    DockerFailed
        If the daemon does not have an image.
    Unprepared
        If an image has a program written in Go, and there is no Go here that could read its modules.
    """
    found: set[Part] = set()
    for image in images:
        with docker.exported(image) as stream, tarfile.open(fileobj=stream, mode="r|") as files:
            found.update(_parts(files))
    return sorted(found)


def bill(docker: Docker, image: str, others: Iterable[str] = ()) -> str:
    """Return the bill of materials of an image, as JSON; the same image always gives the same text.

    Parameters
    ----------
    docker : Docker
    image : str
    others : iterable of str, optional
        Images that `image` brings along.

    Raises
    ------
    Unprepared
        If the library that writes bills is not installed, or as in `parts_of`.
    DockerFailed
        If the daemon does not have an image.
    """
    try:
        from cyclonedx.model.bom import Bom
        from cyclonedx.model.component import Component, ComponentType
        from cyclonedx.output.json import JsonV1Dot6
        from packageurl import PackageURL
    except ModuleNotFoundError as error:
        raise Unprepared(f"there is no {error.name}: pip install 'carico-testbed[sbom]'") from error
    identity, created = docker.identity(image)
    whole = Component(name=image, version=identity, type=ComponentType.CONTAINER, bom_ref=image)
    # By default, both would differ each time.
    bom: Bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, identity))
    bom.metadata.timestamp = datetime.fromisoformat(created)
    bom.metadata.component = whole
    made_of = []
    for part in parts_of(docker, [image, *others]):
        namespace, _, name = part.name.rpartition("/")
        if part.kind == "deb":
            namespace = "debian"
        url = PackageURL(part.kind, namespace or None, name, part.version)
        reference = url.to_string()
        made_of.append(
            Component(name=part.name, version=part.version, type=ComponentType.LIBRARY, purl=url, bom_ref=reference)
        )
    bom.components.update(made_of)
    bom.register_dependency(whole, made_of)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _parts(files: tarfile.TarFile) -> Iterator[Part]:
    for file in files:
        if not file.isfile():
            continue
        content = files.extractfile(file)
        assert content is not None
        name = file.name.removeprefix("./")
        if _STATUS.fullmatch(name) and file.size <= _LARGEST_METADATA:
            yield from _debian(content.read().decode(errors="replace"))
        elif _METADATA.fullmatch(name) and file.size <= _LARGEST_METADATA:
            about = email.parser.BytesHeaderParser().parsebytes(content.read())
            yield Part("pypi", _normal(str(about["Name"])), str(about["Version"]))
        elif file.mode & 0o100 and file.size > 2**20:
            yield from _go(content)


def _debian(status: str) -> Iterator[Part]:
    for stanza in status.split("\n\n"):
        package = email.parser.HeaderParser().parsestr(stanza)
        if package["Package"] and str(package["Status"]).endswith(" installed"):
            yield Part("deb", str(package["Package"]), str(package["Version"]))


def _normal(name: str) -> str:
    """Return the one spelling of a Python distribution's name that package URLs have."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _go(program: IO[bytes]) -> Iterator[Part]:
    """Return the modules of a program, if it is written in Go."""
    head = program.read(4)
    if head != b"\x7fELF":
        return
    go = shutil.which("go")
    if go is None:
        raise Unprepared("there is no Go, which tells the modules of programs: install it (1.24 or newer)")
    with tempfile.TemporaryDirectory(prefix="carico-sbom-") as place:
        copy = Path(place, "program")
        with copy.open("wb") as target:
            target.write(head)
            shutil.copyfileobj(program, target)
        copy.chmod(0o500)
        listed = subprocess.run([go, "version", "-m", str(copy)], capture_output=True, text=True, check=False).stdout
    language = _GO.search(listed)
    if language is not None:
        yield Part("golang", "stdlib", language[1])
    for name, version in _MODULE.findall(listed):
        yield Part("golang", name, version)
