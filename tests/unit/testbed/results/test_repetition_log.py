"""Finished repetitions as lines: shared by processes, and whatever ends one of them, the others' lines are whole."""

import errno
import multiprocessing
import os

import pytest

from testbed.errors import ResultsError
from testbed.results.repetition_log import Line, RepetitionLines
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def line(seed):
    scenario = load_scenario("pi-2000").scaled(pods=2)
    return Line(f"key {seed}", "0" * 64, FakeProvider().run(scenario, parse_spec("carico"), seed, {}))


@pytest.fixture
def lines(tmp_path):
    return RepetitionLines(tmp_path / "repetitions.jsonl")


def test_what_is_appended_is_found_and_read(lines):
    for seed in (1, 2):
        lines.append(line(seed))
    assert lines.find("key 2") == line(2).repetition
    assert lines.find("key 3") is None
    assert lines.read() == ([line(1), line(2)], 0)
    assert len(lines) == 2


def test_all_with_a_key_are_found_in_their_order(lines):
    again = Line("key 1", "0" * 64, line(3).repetition)
    for one in (line(1), line(2), again):
        lines.append(one)
    assert lines.find_all("key 1") == [line(1).repetition, again.repetition]
    assert lines.find_all("key 3") == []


def test_nothing_is_there_before_the_first(lines):
    assert lines.find("key 1") is None
    assert lines.read() == ([], 0)
    assert not lines.path.exists()


def test_what_others_append_is_found(lines):
    lines.append(line(1))
    assert lines.find("key 1")
    RepetitionLines(lines.path).append(line(2))
    assert lines.find("key 2") == line(2).repetition


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_line_that_a_crash_cut_off_is_passed_over(lines, kept):
    lines.append(line(1))
    whole = lines.path.read_bytes()
    lines.path.write_bytes(whole + whole.replace(b"key 1", b"key 2")[:kept][: len(whole) - 2])
    assert lines.find("key 2") is None
    assert lines.read() == ([line(1)], 1)


def test_the_next_line_begins_on_a_line_of_its_own(lines):
    lines.append(line(1))
    with lines.path.open("ab") as file:
        file.write(b'{"key":"key 2","rep')
    lines.append(line(3))
    assert lines.find("key 3") == line(3).repetition
    assert lines.read() == ([line(1), line(3)], 1)
    assert len(lines) == 2


def test_lines_of_a_newer_version_are_refused(lines):
    lines.append(line(1))
    lines.path.write_bytes(lines.path.read_bytes().replace(b'"schema_version":1', b'"schema_version":99'))
    with pytest.raises(ResultsError, match=r"repetitions\.jsonl has schema_version 99.*update carico-testbed"):
        lines.read()


def test_a_full_disk_is_one_message(lines, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.write", full)
    with pytest.raises(
        ResultsError, match=r"cannot write a finished repetition to .*: No space left on device; make room"
    ):
        lines.append(line(1))


def append_many(path, first):
    for seed in range(first, first + 20):
        RepetitionLines(path).append(line(seed))


def test_processes_that_append_at_the_same_time_do_not_mix_their_lines(lines):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(lines.path, first)) for first in (100, 200, 300)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    read, cut_off = lines.read()
    assert cut_off == 0
    assert sorted(one.key for one in read) == [f"key {first + n}" for first in (100, 200, 300) for n in range(20)]
