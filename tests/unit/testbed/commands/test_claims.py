"""``carico-testbed claims``: claims that sessions judged, side by side if their providers differ."""

from datetime import UTC, datetime

import pytest

from testbed.cli import main
from testbed.results.outcomes import Outcome, Row, Statement
from testbed.results.outcomes_file import read_outcomes, write_outcomes
from testbed.results.record import RunArguments, RunRecord
from testbed.results.schema import Results
from testbed.results.store import write_results
from testbed.testing import FakeProvider

CLAIM = Statement("claim", "§5.2", "pods complete earlier")


class Provider(FakeProvider):
    """A provider of a given name."""

    def __init__(self, name):
        super().__init__()
        self.name = name


RUNS = {"one": "20261124T100000Z-000001", "two": "20261124T100000Z-000002"}


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A function that records a session with its outcomes."""
    monkeypatch.chdir(tmp_path)
    arguments = RunArguments(command=["pytest"], preset="ci", repetitions=5, seed=1001, settings={})

    def record(name, provider, outcomes):
        run = RunRecord(tmp_path, RUNS[name], arguments)
        folder = run.open(Provider(provider))
        run.close("complete", [], datetime(2026, 11, 24, tzinfo=UTC))
        if outcomes is not None:
            write_outcomes(folder.outcomes, outcomes)
        return folder

    return record


def table(capsys, *names):
    assert main(["claims", *(RUNS[name] for name in names)]) == 0
    return capsys.readouterr().out.splitlines()


def test_outcomes_are_read_as_they_were_written(session):
    outcomes = [
        Outcome("a", CLAIM, "depends on the seed", held=3, seeds=5, rows=[Row("PCT", [1.0, 2.0], 1.5, "s", "a note")]),
        Outcome("b", verdict="not measured", reason="too noisy"),
    ]
    assert read_outcomes(session("one", "kind", outcomes).outcomes) == outcomes


def test_providers_stand_side_by_side(session, capsys):
    simulated = Outcome("a", CLAIM, "holds", held=5, seeds=5, rows=[Row("PCT", [7.1], 7.7, "s")])
    real = Outcome("b", CLAIM, "not reproduced", rows=[Row("PCT, ratio", [1.2])])
    only_real = Outcome("c", Statement("claim", "§5.6", "agents cost little"), "not measured")
    session("one", "simulated", [simulated])
    session("two", "kind", [real, only_real])
    assert table(capsys, "one", "two") == [
        "| paper | claim | holds, simulated | holds, kind | paper | ours, simulated | ours, kind |",
        "|---|---|---|---|---|---|---|",
        "| §5.2 | pods complete earlier; PCT | 5/5 | NOT REPRODUCED | 7.7 s | 7.1 s | 1.2 |",
        "| §5.6 | agents cost little |  | NOT MEASURED |  |  |  |",
    ]


def test_the_last_session_on_a_provider_counts(session, capsys):
    session("one", "kind", [Outcome("a", CLAIM, "not measured")])
    session("two", "kind", [Outcome("a", CLAIM, "holds")])
    assert table(capsys, "one", "two")[2:] == ["| §5.2 | pods complete earlier | holds |  |  |"]


def test_the_newest_run_is_meant_if_none_is_named(session, capsys):
    write_results(session("one", "kind", [Outcome("a", CLAIM, "failed")]).result, Results([]))
    newest = session("two", "kind", [Outcome("a", CLAIM, "holds")])
    write_results(newest.result, Results([]))
    assert table(capsys)[2:] == ["| §5.2 | pods complete earlier | holds |  |  |"]
    write_outcomes(newest.outcomes, [])
    assert main(["claims"]) == 2
    assert f"no test of {RUNS['two']} judged a claim" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (None, f"run {RUNS['one']} has no outcomes of tests: only sessions of pytest that have ended have them"),
        ([Outcome("a", verdict="holds")], f"no test of {RUNS['one']} judged a claim (marker carico_claim)"),
    ],
)
def test_a_run_without_claims_is_told(session, capsys, outcomes, message):
    session("one", "kind", outcomes)
    assert main(["claims", RUNS["one"]]) == 2
    assert message in capsys.readouterr().err


def test_a_run_that_does_not_exist_is_told(session, capsys):
    assert main(["claims", "none"]) == 2
    assert "is named 'none'; 'carico-testbed runs' lists the runs" in capsys.readouterr().err
