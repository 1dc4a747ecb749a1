"""What is said of other versions."""

import pytest

from carico import __version__
from carico.rpc.versions import OtherVersions


@pytest.fixture
def versions():
    return OtherVersions("this scheduler")


def test_of_the_own_version_nothing_is_said(versions, caplog):
    versions.note("node-1's agent", __version__)
    assert not caplog.messages


def test_another_version_is_named_once_with_a_remedy(versions, caplog):
    for node in ("node-3", "node-4"):
        versions.note(f"{node}'s agent", "0.0.9")
    assert caplog.messages == [
        f"node-3's agent has version 0.0.9, this scheduler has {__version__}: they keep working together; "
        "bring both up to date with carico deploy"
    ]


def test_nobody_fills_the_log_with_invented_versions(versions, caplog):
    for number in range(1000):
        versions.note("node-1's agent", f"9.{number}")
    assert 10 <= len(caplog.messages) <= 50
