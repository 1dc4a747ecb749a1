"""Decisions are written down without delaying or failing any, and can be explained and made again."""

import json
import logging
import math
import re
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.cli import main
from carico.commands.journal import JOURNAL
from carico.config import JournalConfig
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, DiskReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.errors import InvalidInput, InvalidJournal
from carico.extender import journal_reader
from carico.extender.api import PodId
from carico.extender.journal import Entry, Journal, entry
from carico.extender.journal_reader import BadLine, decide_again, explain, latest, read_entries
from carico.scheduling.plugin import CaricoPlugin

from .conftest import Harness

POD = PodId("pod-1", "uid-1", "jobs")
NOW = 1_790_000_000.25


@pytest.fixture
def file(tmp_path):
    return tmp_path / "journal.jsonl"


def plugin_with(count, stale_after_s=5.0):
    """Nodes with 0, 0.25, 0.5 ... pods; every fifth never reported, every seventh reported long ago."""
    plugin = CaricoPlugin(stale_after_s)
    for index in range(count):
        if index % 5:
            plugin.report(f"node-{index}", index / 4, at=0 if index % 7 == 0 else 18)
    plugin.reserve("x", "node-1")
    return plugin


def decision_on(count, **options):
    return plugin_with(count, **options).filter([f"node-{index}" for index in range(count)], now=20)


def write(file, *decisions, **options):
    journal = Journal(file, lambda: NOW, **options)
    for decision in decisions:
        journal.write(POD, decision)
    journal.close()


class TestWriting:
    def test_a_line_holds_what_the_decision_was_based_on(self, file):
        write(file, decision_on(9))
        line = json.loads(file.read_bytes())
        assert {name: line[name] for name in ("schema_version", "at", "choice", "stale_after_s", "omitted")} == {
            "schema_version": 1,
            "at": NOW,
            "choice": "node-8",
            "stale_after_s": 5.0,
            "omitted": {},
        }
        assert line["pod"] == {"name": "pod-1", "uid": "uid-1", "namespace": "jobs"}
        by_node = {candidate.pop("node"): candidate for candidate in line["candidates"]}
        assert by_node["node-8"] == {"pod_capacity": 2.0, "age_s": 2.0, "score": 2.0}
        assert by_node["node-7"] == {"pod_capacity": 1.75, "age_s": 20.0, "refused": "last report 20 s ago"}
        assert by_node["node-5"] == {"refused": "no capacity reported yet"}
        assert by_node["node-1"]["reserved"] == 1
        assert by_node["node-1"]["score"] == -0.75

    def test_of_many_candidates_the_best_are_kept_in_their_order_and_the_others_counted(self):
        made = entry(POD, decision_on(100), NOW, limit=3)
        assert [candidate.node for candidate in made.candidates] == ["node-96", "node-97", "node-99"]
        assert made.choice == "node-99"
        assert sum(made.omitted.values()) == 97
        assert made.omitted["no capacity reported yet"] == 20
        assert made.omitted["last report too old"] == 12
        assert made.omitted["capacity too small"] == 3

    def test_files_are_put_aside_by_size_and_the_oldest_deleted(self, file):
        write(file, *[decision_on(5)] * 20, max_bytes=1500, keep=2)
        assert sorted(path.name for path in file.parent.iterdir()) == [
            "journal.jsonl",
            "journal.jsonl.1",
            "journal.jsonl.2",
        ]
        assert all(path.stat().st_size <= 1500 for path in file.parent.iterdir())

    def test_without_keeping_any_the_file_starts_anew(self, file):
        write(file, *[decision_on(5)] * 20, max_bytes=1500, keep=0)
        assert [path.name for path in file.parent.iterdir()] == ["journal.jsonl"]
        assert 0 < file.stat().st_size <= 1500

    def test_what_was_written_before_a_restart_stays(self, file):
        write(file, decision_on(5))
        write(file, decision_on(5))
        assert len(file.read_bytes().splitlines()) == 2

    def test_a_line_that_a_crash_cut_short_spoils_no_other(self, file):
        write(file, decision_on(5))
        file.write_bytes(file.read_bytes()[:-10])
        write(file, decision_on(5))
        assert [type(item) for _, item in read_entries(file)] == [BadLine, Entry]

    def test_a_disk_that_takes_nothing_is_counted_and_told_once(self, file, caplog):
        file.mkdir()  # as good as a full disk: opening it fails
        lost = []
        with caplog.at_level(logging.WARNING, "carico"):
            write(file, *[decision_on(5)] * 3, lost=lost.append)
        assert lost == [1, 1, 1]
        assert [f"{file}: Is a directory" in record.message for record in caplog.records] == [True]

    def test_a_real_full_disk_fails_no_decision(self):
        lost = []
        write(Path("/dev/full"), decision_on(5), lost=lost.append)
        assert lost == [1]

    def test_a_writer_that_cannot_keep_up_delays_no_decision(self, file, monkeypatch):
        go_on = threading.Event()
        monkeypatch.setattr(Journal, "_append", lambda self, line: go_on.wait(10))
        lost = []
        journal = Journal(file, lambda: NOW, lost.append)
        for _ in range(150):
            journal.write(POD, decision_on(2))
        go_on.set()
        journal.close()
        assert 40 <= sum(lost) <= 50

    def test_the_extender_writes_every_decision(self, file):
        journal = Journal(file, lambda: NOW)
        harness = Harness(journal)
        harness.report(a=1)
        for uid in ("u1", "u2"):
            harness.ask(uid, ["a"])
        journal.close()
        assert [item.choice for _, item in read_entries(file)] == ["a", None]


class TestTheFileUnderneath:
    """Who may write to the journal's folder can neither misdirect the journal nor make it write to nowhere."""

    @pytest.fixture
    def other(self, tmp_path):
        other = tmp_path / "other"
        other.write_text("untouched")
        return other

    def test_a_symbolic_link_is_not_followed(self, file, other, caplog):
        file.symlink_to(other)
        lost = []
        write(file, decision_on(5), lost=lost.append)
        assert lost == [1]
        assert other.read_text() == "untouched"
        assert f"{file}: it is a symbolic link, which is not followed; name the file itself" in caplog.text

    @pytest.mark.parametrize("keep", [0, 2])
    def test_a_symbolic_link_that_is_planted_while_files_are_put_aside_is_not_followed(
        self, file, other, keep, monkeypatch
    ):
        rotate = Journal._rotate

        def plant(journal):
            rotate(journal)
            file.symlink_to(other)

        monkeypatch.setattr(Journal, "_rotate", plant)
        lost = []
        write(file, *[decision_on(5)] * 20, lost=lost.append, max_bytes=1500, keep=keep)
        assert lost, "there is nowhere to write to any more"
        assert other.read_text() == "untouched"

    @pytest.mark.parametrize("disturb", ["deleted", "moved", "replaced", "a symbolic link"])
    def test_a_file_that_is_no_longer_under_its_name_is_opened_anew(self, file, other, disturb, caplog, until):
        now, lost, reopened = [NOW], [], []
        journal = Journal(file, lambda: now[0], lost.append, lambda: reopened.append(now[0]))
        for _ in range(2):
            journal.write(POD, decision_on(2))
            until(lambda: file.exists() and file.stat().st_size > 0)
            if disturb != "replaced":
                file.rename(file.with_name("moved"))
            if disturb == "deleted":
                file.with_name("moved").unlink()
            if disturb == "replaced":
                file.with_name("new").touch()
                file.with_name("new").replace(file)
            if disturb == "a symbolic link":
                file.symlink_to(other)
                break
            now[0] += 1
        now[0] = NOW + 2
        journal.write(POD, decision_on(3))
        journal.close()
        told = [record.message for record in caplog.records]
        assert told[0] == f"the journal {file} was deleted, moved or replaced: opening it anew"
        assert other.read_text() == "untouched"
        if disturb == "a symbolic link":
            assert (lost, len(reopened), len(told)) == ([1], 1, 2)
        else:
            assert (lost, reopened, len(told)) == ([], [NOW + 1, NOW + 2], 1)
            assert [len(item.candidates) for _, item in read_entries(file)] == [3]

    def test_many_decisions_a_second_do_not_each_look(self, file, monkeypatch):
        looked = []
        monkeypatch.setattr(Journal, "_give_up_another", lambda self: looked.append(1))
        write(file, *[decision_on(2)] * 50)
        assert looked == [1]


class TestReading:
    def test_lines_that_are_spoilt_are_told_by_number_and_the_rest_is_read(self, file):
        write(file, decision_on(3), decision_on(3))
        good, other = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(good + good[: len(good) // 2] + b"\n" + b"\xff\n" + b'{"schema_version": 2}\n' + other)
        items = [item for _, item in read_entries(file)]
        assert [item.number for item in items if isinstance(item, BadLine)] == [2, 3, 4]
        assert [type(item).__name__ for item in items] == ["Entry", "BadLine", "BadLine", "BadLine", "Entry"]
        assert str(items[1]).startswith(f"{file}:2: skipped: ")

    def test_files_put_aside_come_first(self, file):
        decisions = [decision_on(count) for count in range(2, 12)]
        write(file, *decisions, max_bytes=1200, keep=99)
        assert len(list(file.parent.iterdir())) > 2
        assert [len(item.candidates) for _, item in read_entries(file)] == list(range(2, 12))

    def test_no_journal_is_an_error(self, file):
        with pytest.raises(InvalidJournal, match="there is no journal"):
            list(read_entries(file))

    @given(st.binary(max_size=100))
    def test_whatever_bytes_a_line_holds_it_is_skipped(self, tmp_path_factory, content):
        file = tmp_path_factory.getbasetemp() / "hostile.jsonl"
        file.write_bytes(content)
        assert all(isinstance(item, BadLine) for _, item in read_entries(file))


class TestDecidingAgain:
    @given(
        st.lists(st.tuples(st.floats(0, 5), st.integers(0, 4), st.floats(0, 10), st.booleans()), max_size=12),
        st.integers(1, 12),
        st.sampled_from([5.0, math.inf]),
    )
    def test_comes_out_the_same(self, nodes, limit, stale_after_s):
        plugin = CaricoPlugin(stale_after_s)
        for index, (capacity, reserved, age_s, known) in enumerate(nodes):
            if known:
                plugin.report(f"node-{index}", capacity, at=100 - age_s)
            for pod in range(reserved):
                plugin.reserve(f"{index}-{pod}", f"node-{index}")
        made = entry(POD, plugin.filter([f"node-{index}" for index in range(len(nodes))], now=100), NOW, limit)
        assert decide_again(made) == ""

    def test_says_what_is_different(self, file):
        write(file, decision_on(9))
        line = json.loads(file.read_bytes())
        line["choice"] = "node-6"
        line["candidates"][6]["score"] = 9.0
        file.write_text(json.dumps(line))
        (_, item), *_ = read_entries(file)
        assert decide_again(item) == "node-6 was chosen, node-8 would be"


class TestCommands:
    def test_explain_shows_a_table_of_80_columns(self, file, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        write(file, decision_on(30))
        assert main(["explain", "jobs/pod-1", "--journal", str(file)]) == 0
        out = capsys.readouterr().out
        assert out.splitlines()[0] == "2026-09-21 14:13:20.250Z  jobs/pod-1  → node-29"
        assert "node-29" in out.splitlines()[3]
        assert out.splitlines()[3].split() == ["node-29", "7.25", "0", "7.25", "2.0", "chosen"]
        assert out.splitlines()[-1].split(maxsplit=2) == ["6", "more:", "no capacity reported yet"]
        assert max(map(len, out.splitlines())) <= 80

    def test_explain_shows_all_nodes_where_asked(self, file, capsys):
        write(file, decision_on(30), max_nodes=30)
        assert main(["explain", "uid-1", "--all", "--journal", str(file)]) == 0
        out = capsys.readouterr().out
        assert "more" not in out
        assert out.count("node-") == 31

    def test_explain_prints_json_with_all_that_the_journal_has(self, file, capsys):
        write(file, decision_on(3))
        assert main(["explain", "jobs/pod-1", "--journal", str(file), "-o", "json"]) == 0
        (shown,) = json.loads(capsys.readouterr().out)["decisions"]
        assert shown == {"by": None} | {"omitted": {}, "cost": None} | json.loads(file.read_text())

    def test_explain_says_when_there_is_nothing(self, file, capsys):
        write(file, decision_on(3))
        assert main(["explain", "another", "--journal", str(file)]) == 1
        assert "contains no decision about a pod 'another'" in capsys.readouterr().err

    def test_a_journal_cannot_move_the_cursor(self, file):
        made = entry(POD, CaricoPlugin().filter(["a\x1b[2Jb"]), NOW, 10)
        assert "\x1b" not in explain(made, 80)

    @pytest.mark.parametrize("at", ["1e300", "-1", "-1e300"])
    def test_explain_skips_a_decision_of_no_time(self, file, capsys, at):
        write(file, decision_on(3), decision_on(3))
        good, other = file.read_text().splitlines(keepends=True)
        file.write_text(good + other.replace(f'"at":{NOW}', f'"at":{at}'))
        assert main(["explain", "pod-1", "--journal", str(file)]) == 0
        captured = capsys.readouterr()
        assert captured.out.count("uid uid-1") == 1
        assert f"{file}:2: skipped: " in captured.err

    def test_replay_compares_and_skips_what_is_spoilt(self, file, capsys):
        write(file, decision_on(9), decision_on(200))
        with file.open("ab") as out:
            out.write(b'{"schema_')
        assert main(["replay", str(file)]) == 0
        captured = capsys.readouterr()
        assert captured.out == "2 decisions come out the same, 0 differently\n"
        assert f"{file}:3: skipped" in captured.err

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            ("", "holds nothing: no decision was made yet"),
            ("{}\n", "holds 1 lines, none of which is a decision"),
            (40 * "port: 50051\n", "holds 40 lines, none of which is a decision"),
        ],
    )
    def test_replay_of_nothing_is_no_success_and_says_why(self, file, content, why, capsys):
        file.write_text(content)
        assert main(["replay", str(file)]) == 1
        assert f"{file} {why}" in capsys.readouterr().err

    @pytest.mark.parametrize("command", [["replay"], ["explain", "pod-1", "--journal"]])
    def test_of_many_spoilt_lines_the_first_and_a_sum_are_told(self, file, command, capsys):
        write(file, decision_on(9))
        with file.open("ab") as out:
            out.write(20 * b"{}\n")
        main([*command, str(file)])
        told = capsys.readouterr().err.splitlines()
        assert [line.partition(": skipped")[0] for line in told[:-1]] == [f"carico: {file}:{n}" for n in (2, 3, 4)]
        assert told[-1] == "carico: 20 lines of 21 are not decisions; the first 3 are above"

    def test_replay_fails_where_a_decision_differs(self, file, capsys):
        write(file, decision_on(9))
        file.write_text(file.read_text().replace('"choice":"node-8"', '"choice":"node-6"'))
        with pytest.raises(SystemExit) as ended:
            main(["replay", str(file)])
        assert ended.value.code == 1
        assert f"{file}:1: jobs/pod-1: node-6 was chosen, node-8 would be" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["replay", str(file), "-o", "json"])
        difference = {"where": f"{file}:1", "pod": "jobs/pod-1", "difference": "node-6 was chosen, node-8 would be"}
        assert json.loads(capsys.readouterr().out) == {"same": 0, "different": [difference]}

    def test_explain_looks_where_the_extender_writes(self):
        assert JournalConfig().file == JOURNAL


class TestLatest:
    """The last decisions on a pod, for whoever asks the extender."""

    @given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5000), st.integers(1, 400))
    def test_are_the_last_ones_of_all_files(self, tmp_path_factory, pods, max_bytes, block):
        journal = tmp_path_factory.mktemp("journal") / "journal.jsonl"
        lines = [
            msgspec.json.encode(entry(PodId(f"pod-{pod}", f"uid-{pod}", "jobs"), decision_on(2), float(at), 10))
            for at, pod in enumerate(pods)
        ]
        cut = next((n for n in range(len(lines)) if sum(map(len, lines[:n])) > max_bytes), len(lines))
        for file, part in ((journal.with_name("journal.jsonl.1"), lines[:cut]), (journal, lines[cut:])):
            file.write_bytes(b"".join(line + b"\n" for line in part) + b"{spoilt")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal_reader, "_BLOCK", block)
            patch.setattr(journal_reader, "LATEST", 5)
            for name in ("pod-2", "jobs/pod-2", "uid-2"):
                found = latest(journal, name)
                assert [int(each.at) for each in found] == [at for at, pod in enumerate(pods) if pod == 2][-5:]

    def test_are_searched_for_in_the_last_part_only(self, file, monkeypatch):
        write(file, decision_on(3))
        with file.open("ab") as out:
            out.write(b"\n" * 100)
        monkeypatch.setattr(journal_reader, "_SEARCHED", 50)
        assert latest(file, "pod-1") == []

    def test_are_none_before_the_first_decision(self, tmp_path):
        assert latest(tmp_path / "journal.jsonl", "pod-1") == []

    @pytest.mark.parametrize("pod", ["", "a b", '"', "../x", "a/b/c", "x" * 300, "é"])
    def test_of_what_is_no_pod_are_refused(self, file, pod):
        with pytest.raises(InvalidInput, match="a pod is given as NAME, NAMESPACE/NAME or its UID"):
            latest(file, pod)


class TestDemand:
    """Decisions of the variant `demand`."""

    KNOWN = Estimate(1.0, 1e-6)

    @pytest.fixture
    def decisions(self):
        """A pod that is placed, and one that is not; of the nodes one never reported, and one tells no demand."""
        scheduler = DemandScheduler(DEMAND)
        for number, demand in enumerate((1.0, 3.0, 6.0)):
            pods = {f"pod-{number}": "jobs/pi"}
            known = {"jobs/pi": WorkloadReport(1, 0.0, self.KNOWN, Estimate(0.5, 1e-6))}
            report = DemandReport(f"node-{number}", 4.0, 8.0, Estimate(demand, 0.0), 1.0, 1.0, known, pods)
            scheduler.report(report, 0.0)
        scheduler.report_capacity("older", 0.5, 0.0)
        nodes = [*(f"node-{number}" for number in range(3)), "older", "stranger"]
        return [scheduler.decision(Kind("jobs/pi"), some, 1.0) for some in (nodes, nodes[2:])]

    def test_a_line_holds_what_the_decision_was_based_on(self, file, decisions):
        write(file, *decisions)
        placed, refused = map(json.loads, file.read_bytes().splitlines())
        assert (placed["choice"], refused["choice"]) == ("node-0", None)
        assert placed["cost"]["workload"] == "jobs/pi"
        assert placed["cost"]["cores"]["mean"] == pytest.approx(1.0, abs=1e-3)
        by_node = {candidate.pop("node"): candidate for candidate in refused["candidates"]}
        assert by_node["node-2"]["room"]["cores"] == pytest.approx(-1.75)
        assert by_node["node-2"]["refused"] == "CPU full: its load is 1.75 cores above its level"
        assert by_node["older"]["pod_capacity"] == 0.5
        assert by_node["stranger"] == {"refused": "no report yet"}

    def test_it_is_made_again_with_the_same_outcome(self, file, decisions):
        write(file, *decisions)
        for _, line in read_entries(file):
            assert decide_again(line) == ""
            assert "would be" in decide_again(msgspec.structs.replace(line, choice="node-1"))

    def test_it_is_explained_in_a_table(self, file, decisions):
        write(file, *decisions)
        (_, placed), (_, refused) = read_entries(file)
        assert explain(placed, 100).splitlines()[2:5] == [
            "  jobs/pi: a pod demands 1.00 ± 0.00 cores, 0.50 ± 0.00 GiB",
            "  node                             cores left  GiB left  needed  age s  verdict",
            "  node-0                                 3.25      6.10    0.50    1.0  chosen",
        ]
        assert "→ no node" in explain(refused, 80)
        assert explain(refused, 80).splitlines()[3] == (
            "  waits: node-2 comes closest: CPU full: its load is 1.75 cores above its level"
        )
        assert explain(refused, 80).splitlines()[-1].endswith("no report yet")

    @pytest.mark.parametrize("width", [80, 100, 400])
    def test_it_fits_the_terminal_with_whole_names_of_nodes(self, file, decisions, width):
        region = ".a-region.compute.internal"
        write(file, *decisions, decision_on(9))
        for _, line in read_entries(file):
            longer = [msgspec.structs.replace(one, node=f"{one.node}{region}") for one in line.candidates]
            choice = line.choice and f"{line.choice}{region}"
            workload = f"a-namespace/{'a-long-name-of-' * 3}somebody-90a1b2c3"
            cost = line.cost and msgspec.structs.replace(line.cost, workload=workload)
            text = explain(msgspec.structs.replace(line, candidates=longer, choice=choice, cost=cost), width)
            assert max(map(len, text.splitlines())) <= width
            assert "…" not in text
            for candidate in longer:
                assert f"\n  {candidate.node} " in text
            if cost is not None:
                told = " ".join(text.split())
                assert f" {workload}: a pod demands 1.00 ± 0.00 cores, 0.50 ± 0.00 GiB " in told
                assert f"\n  older{region}" in text
                assert ("\n    reports no demand\n" in text) == (width == 80), "on a line of its own where it must be"
                assert "  reports no demand\n" in text

    def test_names_that_are_too_long_are_cut_in_the_middle(self, file, decisions):
        write(file, decisions[0])
        ((_, line),) = read_entries(file)
        name = f"node-0-{'of-somebody-' * 5}b1"
        (first, *others) = line.candidates
        longer = [msgspec.structs.replace(first, node=name), *others]
        text = explain(msgspec.structs.replace(line, candidates=longer, choice=name), 80)
        assert max(map(len, text.splitlines())) <= 80
        assert f"→ {name}" in " ".join(text.split()), "nothing else names it in full"
        assert re.search(r"\n  node-0-of-\S+…\S+-b1 +3.25 ", text)

    def test_a_node_that_is_silent_comes_closest_only_if_all_are(self, file):
        scheduler = DemandScheduler(DEMAND)
        for number, (demand, at) in enumerate(((6.0, 0.0), (1.0, 0.0), (4.5, 60.0))):
            known = {"jobs/pi": WorkloadReport(1, 0.0, self.KNOWN, Estimate(0.5, 1e-6))}
            pods = {f"pod-{number}": "jobs/pi"}
            report = DemandReport(f"node-{number}", 4.0, 8.0, Estimate(demand, 0.0), 1.0, 1.0, known, pods)
            scheduler.report(report, at)
        nodes = ["node-0", "node-1", "node-2", "stranger"]
        write(file, scheduler.decision(Kind("jobs/pi"), nodes, 60.0), max_nodes=3)
        ((_, line),) = read_entries(file)
        shown = explain(line, 80).splitlines()
        assert shown[3] == "  waits: node-2 comes closest: CPU full: its load is 0.25 cores above its level"
        assert [(row.split()[0], row.rpartition("  ")[2]) for row in shown[5:8]] == [
            ("node-2", "CPU full"),
            ("node-1", "last report too old"),
            ("node-0", "last report too old"),
        ]
        assert shown[8].split("more: ")[1] == "no report yet"

    def test_the_nodes_that_are_kept_are_those_that_report(self, file):
        scheduler = DemandScheduler(DEMAND)
        for number in range(30):
            known = {"jobs/pi": WorkloadReport(1, 0.0, self.KNOWN, Estimate(0.5, 1e-6))}
            pods = {f"pod-{number}": "jobs/pi"}
            report = DemandReport(f"node-{number}", 4.0, 8.0, Estimate(1.0, 0.0), 1.0, 1.0, known, pods)
            scheduler.report(report, 0.0)
        scheduler.report(DemandReport("full", 4.0, 8.0, Estimate(6.0, 0.0), 1.0, 1.0, known, pods), 60.0)
        decision = scheduler.decision(Kind("jobs/pi"), [*(f"node-{number}" for number in range(30)), "full"], 60.0)
        write(file, decision, max_nodes=2)
        ((_, line),) = read_entries(file)
        assert "full" in [candidate.node for candidate in line.candidates]

    def test_what_is_left_out_is_counted_with_what_is_not_shown(self, file, decisions):
        write(file, decisions[0], max_nodes=4)
        ((_, line),) = read_entries(file)
        more = explain(msgspec.structs.replace(line, candidates=line.candidates * 5), 80).splitlines()
        assert sum("no demand" in row and "more:" in row for row in more) == 1

    @pytest.fixture
    def reading(self):
        """A pod that reads, and is placed on the second of two nodes, because the first one's disk is saturated."""
        scheduler = DemandScheduler(DEMAND)
        for number, reads in enumerate((2.0, 0.3)):
            known = {"jobs/pi": WorkloadReport(1, 0.0, self.KNOWN, Estimate(0.5, 1e-6), Estimate(0.9, 1e-4))}
            pods = {f"pod-{number}": "jobs/pi"}
            disk = DiskReport(reads, 1.25)
            report = DemandReport(f"node-{number}", 4.0, 8.0, Estimate(1.0, 0.0), 1.0, 1.0, known, pods, disk)
            scheduler.report(report, 0.0)
        return scheduler.decision(Kind("jobs/pi"), ["node-0", "node-1"], 1.0)

    def test_a_saturated_disk_is_told_made_again_and_explained(self, file, reading):
        write(file, reading)
        ((_, line),) = read_entries(file)
        saturated, chosen = line.candidates
        assert (saturated.room.reads, chosen.room.reads) == (
            pytest.approx(-1.2, abs=0.01),
            pytest.approx(0.5, abs=0.01),
        )
        assert decide_again(line) == ""
        shown = explain(line, 80)
        told = " ".join(shown.split())
        assert "a pod demands 1.00 ± 0.00 cores, 0.50 ± 0.00 GiB, 0.90 ± 0.01 reads at a time" in told
        assert [row.rpartition("  ")[2] for row in shown.splitlines()[-2:]] == ["chosen", "disk saturated"]

    def test_a_line_of_an_older_version_is_read(self, file, decisions):
        write(file, *decisions)
        text = file.read_bytes()
        assert b'"reads"' not in text, "nodes that do not see their disks leave it out, as older versions do"
        assert len(list(read_entries(file))) == 2

    def test_of_many_candidates_the_best_are_kept_and_the_others_counted(self, file, decisions):
        write(file, *decisions, max_nodes=2)
        (_, placed), _ = read_entries(file)
        assert [candidate.node for candidate in placed.candidates] == ["node-0", "node-1"]
        assert placed.omitted == {"CPU full": 1, "reports no demand": 1, "no report yet": 1}
        assert "1 more: CPU full" in explain(placed, 80)
