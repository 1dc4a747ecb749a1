"""Bills of materials: what an image is made of is read from the image."""

import io
import json
import tarfile

import pytest

from testbed.errors import Unprepared
from testbed.images.sbom import Part, bill, parts_of

STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u10
Description: GNU C Library
 Contains the standard libraries.

Package: gone
Status: deinstall ok config-files
Version: 1.0
"""
LISTED = """/tmp/program: go1.26.8
\tpath\texample.org/tool
\tmod\texample.org/tool\tv1.2.3\th1:x=
\tdep\texample.org/old\tv1.0.0
\t=>\texample.org/new\tv1.1.0\th1:y=
"""


@pytest.fixture
def holds(place):
    """Decides on the files of every image: content and whether it can be run, by path."""

    def write(files):
        with tarfile.open(place / "exported", "w") as packed:
            for name, (content, mode) in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                packed.addfile(entry, io.BytesIO(content))

    return write


def test_packages_of_the_distribution_of_python_and_of_go_are_found(docker, holds, go):
    go.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTED}END\n")
    holds(
        {
            "./var/lib/dpkg/status.d/libc6": (STATUS.encode(), 0o644),
            "opt/carico/PyYAML-6.0.dist-info/METADATA": (
                b"Metadata-Version: 2.1\nName: Py_YAML\nVersion: 6.0\n\nx",
                0o644,
            ),
            "usr/local/bin/tool": (b"\x7fELF" + bytes(2**20), 0o755),
            "usr/local/bin/script": (b"#!/bin/sh\n", 0o755),
            "opt/other/METADATA": (b"Name: none\n", 0o644),
        }
    )
    assert parts_of(docker, ["carico.local/carico:1"]) == [
        Part("deb", "libc6", "2.36-9+deb12u10"),
        Part("golang", "example.org/new", "v1.1.0"),
        Part("golang", "example.org/old", "v1.0.0"),
        Part("golang", "example.org/tool", "v1.2.3"),
        Part("golang", "stdlib", "go1.26.8"),
        Part("pypi", "py-yaml", "6.0"),
    ]


def test_a_bill_says_what_it_is_of_and_is_the_same_each_time(docker, holds):
    holds({"var/lib/dpkg/status": (STATUS.encode(), 0o644)})
    text = bill(docker, "carico.local/carico:1")
    assert text == bill(docker, "carico.local/carico:1")
    found = json.loads(text)
    assert found["bomFormat"] == "CycloneDX"
    assert found["metadata"]["component"]["name"] == "carico.local/carico:1"
    assert found["metadata"]["component"]["version"] == "sha256:0123"
    assert [each["purl"] for each in found["components"]] == ["pkg:deb/debian/libc6@2.36-9%2Bdeb12u10"]


def test_programs_in_go_cannot_be_read_without_go(docker, holds, monkeypatch):
    holds({"usr/local/bin/tool": (b"\x7fELF" + bytes(2**20), 0o755)})
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(Unprepared, match="there is no Go"):
        parts_of(docker, ["carico.local/node:1"])
