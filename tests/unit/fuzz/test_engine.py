"""What counts as a finding, how inputs are changed, and what the command says."""

import json
import random
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz import random_inputs, target
from tests.fuzz.__main__ import main
from tests.fuzz.minimise import reaching_more
from tests.fuzz.mutation import changed, damaged
from tests.fuzz.target import Guard, Target, TooMuch
from tests.fuzz.targets import target_named


class TestFindings:
    def test_documented_errors_are_none(self):
        assert Target("a.b", "numbers", int, (ValueError,)).attempt(b"x") is False
        assert Target("a.b", "numbers", int, (ValueError,)).attempt(b"7") is True

    def test_other_errors_and_wrong_values_are(self):
        with pytest.raises(ValueError, match="invalid literal"):
            Target("a.b", "numbers", int, (KeyError,)).attempt(b"x")

        def below_ten(number):
            assert number < 10

        with pytest.raises(AssertionError):
            Target("a.b", "numbers", int, (ValueError, AssertionError), below_ten).attempt(b"11")

    @pytest.mark.parametrize("grown", [[70], [40, 40]], ids=["with one input", "with all together"])
    def test_memory_is_limited(self, monkeypatch, grown):
        peak = 1000

        def read(data):
            nonlocal peak
            peak += int(data) << 10

        monkeypatch.setattr(target, "_peak_kib", lambda: peak)
        guard = Guard(Target("a.b", "sizes", read, seeds=(b"100",)))
        for size in grown[:-1]:
            guard.attempt(b"%d" % size)
        with pytest.raises(TooMuch, match="MiB, at most 64 MiB are fine"):
            guard.attempt(b"%d" % grown[-1])


COMPARING = """
import os, sys
import atheris, numpy as np
from tests.fuzz.coverage_guided import sparing_arrays

@atheris.instrument_func
def low(values):
    return values < 1.0

blocks = []

def attempt(data):
    for _ in range(1000):
        np.testing.assert_array_equal(low(np.array([0.5, 2.0])), [True, False])
    blocks.append(sys.getallocatedblocks())
    if len(blocks) == 4:
        assert (low(0.5), low(2.0)) == (True, False)
        print("kept", blocks[3] - blocks[2], flush=True)
        os._exit(0)

atheris.Setup(["-", "-runs=10"], sparing_arrays(attempt))
atheris.Fuzz()
"""


class TestWithAtheris:
    def test_comparisons_of_arrays_leave_nothing_behind(self):
        pytest.importorskip("atheris", reason="the extra fuzz is not installed")
        # A process of its own, because fuzzing never returns.
        done = subprocess.run([sys.executable, "-c", COMPARING], capture_output=True, text=True, timeout=60)
        kept = re.search(r"^kept (-?\d+)$", done.stdout, re.MULTILINE)
        assert kept, done.stderr
        assert int(kept[1]) < 500


class TestWithoutAtheris:
    def test_a_finding_is_written_as_small_as_it_can_be(self, tmp_path, monkeypatch):
        def read(data):
            assert b"7" not in data

        monkeypatch.setattr(random_inputs, "target_named", lambda name: Target(name, "no sevens", read))
        (tmp_path / "inputs").mkdir()
        (tmp_path / "inputs" / "one").write_bytes(b"a lot of text and no number")
        with pytest.raises(AssertionError):
            random_inputs.main("a.b", 60.0, tmp_path / "inputs", tmp_path, 0)
        (found,) = tmp_path.glob("crash-*")
        assert found.read_bytes() == b"7"


@given(st.integers(0, 2**32))
@example(15100)  # names a field anew
def test_a_changed_document_is_still_one(seed):
    document = {"a": [1, {"b": None}], "c": "text"}
    for form in ("json", "lines"):
        text = changed(json.dumps(document).encode(), form, random.Random(seed)) or b"0"
        with suppress(RecursionError):  # some nest deeper than Python reads, from version to version more or less deep
            json.loads(text)


@given(st.binary(max_size=100), st.integers(0, 2**32))
def test_the_same_seed_does_the_same_damage(data, seed):
    assert damaged(data, random.Random(seed)) == damaged(data, random.Random(seed))


def test_what_reaches_nothing_new_is_not_kept():
    window = target_named("quantities.window")
    assert reaching_more(window, window.seeds) == []
    assert reaching_more(window, [b"", b"no", b"25h"]) == [b""]


class TestCommand:
    def test_lists_targets(self, capsys):
        assert main(["--list"]) == 0
        assert "kubernetes.watch " in capsys.readouterr().out

    def test_an_unknown_target_is_named(self, capsys):
        assert main(["no.such"]) == 2
        assert "no target is named no.such" in capsys.readouterr().err

    def test_replays_an_input(self, capsys, tmp_path):
        (tmp_path / "input").write_bytes(b"250m")
        assert main(["quantities.any", "--replay", str(tmp_path / "input")]) == 0
        assert "nothing is wrong" in capsys.readouterr().out


@pytest.mark.parametrize("text", [b"a: !!int ''", b"a: !!bool maybe", b"a: !!timestamp x", b"a: ["])
def test_what_no_yaml_library_can_read_is_not_changed(text):
    assert changed(text, "yaml", random.Random(1)) is None
