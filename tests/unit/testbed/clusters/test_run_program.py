"""Programs that make clusters: their last words are told, and they have a deadline."""

import sys
import time

import pytest

from testbed.clusters.run_program import run_program
from testbed.errors import ClusterError


def python(text):
    return [sys.executable, "-c", text]


def test_what_it_prints_is_returned(tmp_path):
    said = run_program(python("import os; print(os.environ['TRIED'], os.getcwd())"), 10, {"TRIED": "so"}, tmp_path)
    assert said.split() == ["so", str(tmp_path)]


def test_its_last_lines_are_told():
    with pytest.raises(ClusterError, match=r"ended with 3:\n85\n(?s:.*)\n99$"):
        run_program(python("import sys; [print(i) for i in range(100)]; sys.exit(3)"), 10)


def test_it_is_ended_with_all_that_it_began(tmp_path):
    """kind starts docker, which would go on."""
    alive = tmp_path / "alive"
    parent = ["sh", "-c", 'sh -c "sleep 0.5; touch $0" "$0" & wait', str(alive)]
    began = time.monotonic()
    with pytest.raises(ClusterError, match="was not done after 0 s"):
        run_program(parent, 0.2)
    assert time.monotonic() - began < 5
    time.sleep(0.4)
    assert not alive.exists()


def test_a_program_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ClusterError, match=r"none create cluster cannot be run: .*No such file"):
        run_program([tmp_path / "none", "create", "cluster"], 1)
