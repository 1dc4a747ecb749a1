"""Steps of building images: their lines are reported while they run, and a hanging step is ended with its children."""

import time

import pytest

from testbed.errors import BuildFailed
from testbed.images.step import run_step


def shell(text):
    return ["sh", "-c", text]


def test_lines_of_both_streams_are_reported(tmp_path):
    lines = []
    run_step(shell("echo $TRIED; pwd >&2"), lines.append, tmp_path, {"TRIED": "so"})
    assert lines == ["so\n", f"{tmp_path}\n"]


def test_an_error_includes_the_last_lines():
    with pytest.raises(BuildFailed, match=r"sh -c .* ended with 3:\n81\n(?s:.*)\n100$"):
        run_step(shell("seq 100; exit 3"), lambda line: None)


@pytest.mark.parametrize(
    "text", ["echo downloading; sleep 60 & wait", "echo downloading; exec > /dev/null 2>&1; sleep 60"]
)
def test_a_hanging_step_is_ended_with_its_children(text):
    """debootstrap starts wget, which would hold the output open."""
    began = time.monotonic()
    with pytest.raises(BuildFailed, match=r"sh -c .* did not end within 0 s:\ndownloading$"):
        run_step(shell(text), lambda line: None, limit_s=0.3)
    assert time.monotonic() - began < 10


def test_ctrl_c_ends_it():
    def press(line):
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_step(shell("echo ready; sleep 60"), press)
    assert time.monotonic() - began < 10
