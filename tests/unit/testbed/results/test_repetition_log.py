"""The repetition log: processes share it, and whatever ends one of them, the entries of the others are whole."""

import multiprocessing
from pathlib import Path

import pytest

from testbed.errors import ResultsError
from testbed.results.repetition_log import LogEntry, RepetitionLog
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def entry(seed):
    scenario = load_scenario("pi-2000").scaled(pods=2)
    return LogEntry(f"key {seed}", "0" * 64, FakeProvider().run(scenario, parse_spec("carico"), seed, {}))


def log_in(folder):
    """The log, as a process of its own sees it."""
    return RepetitionLog(folder / "repetitions.jsonl", folder / "lock")


@pytest.fixture
def log(tmp_path):
    return log_in(tmp_path)


def test_what_is_appended_is_found_and_read(log):
    for seed in (1, 2):
        log.append(entry(seed))
    assert log.find("key 2") == entry(2).repetition
    assert log.find("key 3") is None
    assert log.read() == ([entry(1), entry(2)], 0)
    assert len(log) == 2


def test_all_with_a_key_are_found_in_their_order(log):
    again = LogEntry("key 1", "0" * 64, entry(3).repetition)
    for one in (entry(1), entry(2), again):
        log.append(one)
    assert log.find_all("key 1") == [entry(1).repetition, again.repetition]
    assert log.find_all("key 3") == []


def test_nothing_is_there_before_the_first(log):
    assert log.find("key 1") is None
    assert log.read() == ([], 0)
    assert not log.path.exists()


def test_what_others_append_is_found(log):
    log.append(entry(1))
    assert log.find("key 1")
    log_in(log.path.parent).append(entry(2))
    assert log.find("key 2") == entry(2).repetition


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_line_that_a_crash_cut_off_is_passed_over(log, kept):
    log.append(entry(1))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole.replace(b"key 1", b"key 2")[:kept][: len(whole) - 2])
    assert log.find("key 2") is None
    assert log.read() == ([entry(1)], 1)


def test_the_next_line_begins_on_a_line_of_its_own(log):
    log.append(entry(1))
    with log.path.open("ab") as file:
        file.write(b'{"key":"key 2","rep')
    log.append(entry(3))
    assert log.find("key 3") == entry(3).repetition
    assert log.read() == ([entry(1), entry(3)], 1)
    assert len(log) == 2


def test_lines_of_a_newer_version_are_refused(log):
    log.append(entry(1))
    log.path.write_bytes(log.path.read_bytes().replace(b'"schema_version":1', b'"schema_version":99'))
    with pytest.raises(ResultsError, match=r"repetitions\.jsonl has schema_version 99.*update carico-testbed"):
        log.read()


def test_a_full_disk_is_one_message(tmp_path):
    with pytest.raises(
        ResultsError, match=r"cannot write a finished repetition to .*: No space left on device; make room"
    ):
        RepetitionLog(Path("/dev/full"), tmp_path / "lock").append(entry(1))


def append_many(folder, first):
    for seed in range(first, first + 20):
        log_in(folder).append(entry(seed))


def test_processes_that_append_at_the_same_time_do_not_mix_their_lines(log):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(log.path.parent, first)) for first in (100, 200, 300)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    read, cut_off = log.read()
    assert cut_off == 0
    assert sorted(one.key for one in read) == [f"key {first + n}" for first in (100, 200, 300) for n in range(20)]


@pytest.mark.parametrize("line", [b'{"key":"\xe2\x89', b'{"key":"key 2","more":' + b"[" * 100_000])
def test_a_line_cut_within_a_character_or_nested_too_deeply_is_passed_over(log, line):
    log.append(entry(1))
    with log.path.open("ab") as file:
        file.write(line + b"\n")
    assert log.find("key 2") is None
    assert log.read() == ([entry(1)], 1)
