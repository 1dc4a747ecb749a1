"""Results files: whole or not at all, the same bytes for the same measurements, readable by later versions."""

import errno
import json
import os
import random
import threading

import pytest

from testbed.errors import ResultsError
from testbed.experiment.plan import Plan
from testbed.results.schema import Results
from testbed.results.store import check_writable, merged, partial_path, read_results, write_complete, write_results
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def measured(*schedulers, pods=2, repetitions=2, **settings):
    scenario = load_scenario("pi-2000").scaled(pods=pods)
    return Plan(scenario, tuple(map(parse_spec, schedulers)), repetitions, 1, settings).check(FakeProvider()).run()


@pytest.fixture(scope="module")
def repetitions():
    runs = measured("carico", "kube-scheduler")
    return [*runs, *measured("carico", pods=10), *measured("carico", speed=2.0)]


def test_what_is_written_is_read(tmp_path, repetitions):
    results = merged(repetitions)
    write_results(tmp_path / "r.json", results)
    assert read_results(tmp_path / "r.json") == results


def test_the_file_is_json_with_its_version_first_and_a_repetition_a_line(tmp_path, repetitions):
    write_results(tmp_path / "r.json", merged(repetitions))
    text = (tmp_path / "r.json").read_text()
    assert text.startswith('{"schema_version":1,')
    assert text.endswith("}\n")
    assert len(text.splitlines()) == len(repetitions) + 2
    assert set(json.loads(text)) == {"schema_version", "repetitions"}
    assert {"scenario", "scheduler", "seed", "settings", "pods", "nodes"} <= set(json.loads(text)["repetitions"][0])


def test_the_order_of_measuring_and_doubles_do_not_show(tmp_path, repetitions):
    shuffled = [*repetitions, repetitions[0]]
    random.Random(3).shuffle(shuffled)
    write_results(tmp_path / "a.json", merged(repetitions))
    write_results(tmp_path / "b.json", merged(shuffled))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_the_order_is_by_scheduler_pods_settings_and_seed(repetitions):
    order = [(one.scheduler, len(one.pods), one.settings["speed"], one.seed) for one in merged(repetitions).repetitions]
    assert order == sorted(order)
    assert len(order) == 8


def test_no_repetition_is_a_valid_file(tmp_path):
    write_results(tmp_path / "r.json", Results([]))
    assert read_results(tmp_path / "r.json") == Results([])


def test_a_newer_version_says_what_to_do(tmp_path):
    (tmp_path / "r.json").write_text('{"schema_version": 2, "repetitions": "anything"}')
    with pytest.raises(ResultsError, match=r"schema_version 2.*up to 1.*update carico-testbed"):
        read_results(tmp_path / "r.json")


def test_unknown_keys_are_ignored(tmp_path):
    (tmp_path / "r.json").write_text('{"schema_version": 1, "repetitions": [], "mood": "fine"}')
    assert read_results(tmp_path / "r.json").repetitions == []


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "{}", "\xff", '{"schema_version": 1, "repetitions": [{}]}'),
        '{"schema_version": 1, "repetitions": [{"scenario": "\xff"}]}',
        '{"schema_version": 1, "repetitions": [{"settings": ' + "[" * 100_000,
    ],
    ids=range(8),
)
def test_something_else_is_no_results_file(tmp_path, content):
    (tmp_path / "r.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ResultsError, match=r"r\.json is not a results file"):
        read_results(tmp_path / "r.json")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ResultsError, match=r"cannot read.*gone\.json: No such file"):
        read_results(tmp_path / "gone.json")


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "r.json"
    file.write_text("before")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(ResultsError, match=r"cannot write.*r\.json: No space left"):
        write_results(file, Results([]))
    monkeypatch.undo()
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.json").write_text("")
    (tmp_path / "link.json").symlink_to("real.json")
    write_results(tmp_path / "link.json", Results([]))
    assert (tmp_path / "link.json").is_symlink()
    assert read_results(tmp_path / "real.json") == Results([])


def test_a_link_in_place_of_the_draft_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f".r.json.{os.getpid()}.tmp").symlink_to(victim)
    write_results(tmp_path / "r.json", Results([]))
    assert victim.read_text() == "untouched"
    assert read_results(tmp_path / "r.json") == Results([])
    assert not (tmp_path / "r.json").is_symlink()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_results(pipe, Results([]))
    reader.join(10)
    assert pipe.is_fifo()
    assert json.loads(read[0]) == {"schema_version": 1, "repetitions": []}


def test_its_own_folder_appears_and_ignores_itself(tmp_path):
    file = tmp_path / ".carico" / "result.json"
    check_writable(file)
    assert not file.parent.exists()
    write_results(file, Results([]))
    assert (file.parent / ".gitignore").read_text() == "*\n"


def test_whether_a_file_can_be_written_is_known_before_and_leaves_no_trace(tmp_path):
    (tmp_path / "old.json").write_text("before")
    for name in ("new.json", "old.json"):
        check_writable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "before"


@pytest.mark.parametrize(
    ("place", "message"),
    [(".", "it is a folder; name a file"), ("gone/r.json", "no folder .*gone; create it first")],
)
def test_a_place_that_cannot_be_written(tmp_path, place, message):
    with pytest.raises(ResultsError, match=message):
        check_writable(tmp_path / place)


def test_a_folder_that_refuses_files(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ResultsError, match="Permission denied; name another file"):
        check_writable(tmp_path / "r.json")


def test_partial_results_have_a_name_of_their_own(tmp_path):
    assert partial_path(tmp_path / "r.json") == tmp_path / "r.json.partial"


def test_complete_results_outdate_partial_ones(tmp_path):
    file = tmp_path / "r.json"
    write_results(partial_path(file), Results([]))
    write_complete(file, Results([]))
    assert [left.name for left in tmp_path.iterdir()] == ["r.json"]
