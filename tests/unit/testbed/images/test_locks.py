"""The locks of the images' packages fit to what this project requires."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from testbed.images.python_image import LOCKS

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required(extra):
    """What an image has: the extra, and the one package that the algorithm needs."""
    core = next(text for text in PROJECT["dependencies"] if text.startswith("numpy"))
    for text in [core, *PROJECT["optional-dependencies"][extra]]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for other in requirement.extras:
                yield from required(other)
        else:
            yield requirement


def locked(extra):
    """The lock's entries: each is a requirement and its hashes."""
    text = (LOCKS / f"{extra}.txt").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")).replace("\\\n", " ")
    return [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:")) for line in lines.splitlines()]


@pytest.mark.parametrize("extra", ["scheduler", "workloads"])
def test_every_requirement_is_locked_in_a_version_that_is_allowed(extra):
    versions = {each.name.lower().replace("_", "-"): str(each.specifier) for each, _ in locked(extra)}
    for requirement in required(extra):
        version = versions[requirement.name.lower().replace("_", "-")].removeprefix("==")
        assert requirement.specifier.contains(version), f"run scripts/lock: {requirement} against {version}"


@pytest.mark.parametrize("extra", ["scheduler", "workloads"])
def test_every_package_has_one_version_and_its_hashes(extra):
    entries = locked(extra)
    assert len({each.name for each, _ in entries}) == len(entries) > 3
    for requirement, hashes in entries:
        assert hashes > 0, requirement
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert "python_" not in str(requirement.marker).replace("platform_python_implementation", ""), (
            "pip would judge it by the Python that it runs on, not by that of the image"
        )
