"""The gate: what fails a build, and that nothing passes unmeasured."""

import re

import msgspec
import numpy as np
import pytest

from testbed.comparison.baseline import BASELINE_SCHEMA_VERSION, Baseline, MadeBy, read_baseline, write_baseline
from testbed.comparison.conditions import condition, conditions
from testbed.comparison.gate import judge, judge_schedulers
from testbed.comparison.measured import Measured, Series
from testbed.errors import ResultsError, UsageError
from testbed.report.comparison import failures, gate_line, gate_notes

SEEDS = list(range(5))
TIMES = [100.0, 104.0, 97.0, 101.0, 99.0]
PCT = ("pod_completion_time", "p99", ("pi-2000",))
KILLED = ("pod_outcome", "oom_killed", ("pi-2000",))
JCT = ("job_completion_time", "value", ("pi-2000",))


def run(*series, seeds=SEEDS, scheduler="carico", **settings):
    return Measured(
        "pi-2000",
        scheduler,
        f"pi-2000 · {scheduler}",
        settings,
        seeds,
        [Series(*figure, list(values)) for figure, values in series],
    )


def gate(reference, candidate, *texts):
    return judge(
        [reference] if isinstance(reference, Measured) else reference,
        [candidate] if isinstance(candidate, Measured) else candidate,
        conditions(texts),
    )


def times(factor=1.0, noise=0.0):
    rng = np.random.default_rng(1)
    return [factor * time * (1 + noise * rng.normal()) for time in TIMES]


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "ok"), (1.05, "ok"), (1.2, "regressed"), (0.5, "ok")])
def test_what_is_worse_than_the_limit_regresses(factor, outcome):
    found = gate(run((PCT, TIMES)), run((PCT, times(factor, 0.002))), "pod_completion_time:p99:+10%")
    assert [one.outcome for one in found.judgements] == [outcome]
    assert found.passed == (outcome == "ok")


def test_a_regression_is_one_sentence():
    found = gate(run((PCT, TIMES)), run((PCT, times(1.2))), "pod_completion_time:p99:+10%")
    assert failures(found) == [
        "pi-2000 · carico: pod_completion_time p99 (pi-2000) went from a mean of 100.2 s to 120.2 s "
        "(+20.0 %, n = 5; allowed +10%)"
    ]
    assert gate_line(found) == "gate: FAILED (1 regressed)"


def test_a_regression_has_its_interval():
    slower = gate(run((PCT, TIMES)), run((PCT, times(1.2, 0.002))), "pod_completion_time:p99:+10%")
    (sentence,) = failures(slower)
    change = re.search(r"\(([^()]*) \[(.*), (.*)\] %, n = 5; allowed \+10%\)$", sentence)
    effect, low, high = map(float, change.groups())
    assert 15 < low < effect < high < 25
    more = gate(run((KILLED, [0.0] * 5)), run((KILLED, [3.0, 4.0, 3.0, 5.0, 4.0])), "pod_outcome:oom_killed:+0")
    (sentence,) = failures(more)
    assert sentence.endswith(
        " went from a mean of 0 pods to 3.8 pods (+3.8 [+2.76, +4.84] pods, n = 5; allowed +0 pods)"
    )


def test_a_limit_in_seconds_is_told_with_the_change_in_seconds():
    found = gate(run((PCT, TIMES)), run((PCT, times(1.2))), "pod_completion_time:p99:+5")
    (sentence,) = failures(found)
    assert sentence.endswith(" went from a mean of 100.2 s to 120.2 s (+20 s, n = 5; allowed +5 s)")
    (sentence,) = failures(gate(run((PCT, TIMES)), run((PCT, times(1.2, 0.002))), "pod_completion_time:p99:+5"))
    effect, low, high = map(
        float, re.search(r"\(([^()]*) \[(.*), (.*)\] s, n = 5; allowed \+5 s\)$", sentence).groups()
    )
    assert 15 < low < effect < high < 25


def test_what_cannot_be_shown_either_way_passes_and_is_said():
    found = gate(run((PCT, TIMES)), run((PCT, times(1.1, 0.1))), "pod_completion_time:p99:+10%")
    assert found.passed
    assert gate_line(found) == "gate: passed (1 inconclusive)"


def test_counts_have_limits_as_amounts():
    none, some = run((KILLED, [0.0] * 5)), run((KILLED, [3.0, 4.0, 3.0, 5.0, 4.0]))
    assert gate(none, none, "pod_outcome:oom_killed:+0").passed
    assert not gate(none, some, "pod_outcome:oom_killed:+0").passed
    assert gate(none, some, "pod_outcome:oom_killed:+10").passed
    assert gate(some, none, "pod_outcome:oom_killed:+0").passed


def test_of_what_more_is_better_less_regresses():
    rate = ("scheduling_throughput", "value", ())
    reference = run((rate, TIMES))
    assert not gate(reference, run((rate, times(0.8))), "scheduling_throughput:-10%").passed
    assert gate(reference, run((rate, times(1.5))), "scheduling_throughput:-10%").passed


def test_an_amount_in_seconds_is_a_limit_too():
    assert not gate(run((PCT, TIMES)), run((PCT, times(1.2))), "pod_completion_time:p99:+5").passed
    assert gate(run((PCT, TIMES)), run((PCT, times(1.2))), "pod_completion_time:p99:+50").passed


def test_a_job_that_does_not_complete_fails_whatever_the_limit():
    incomplete = run((JCT, [100.0, None, 97.0, 101.0, 99.0]))
    found = gate(run((JCT, TIMES)), incomplete, "job_completion_time:+900%")
    assert "was not measured in 1 repetition, as where a job does not complete" in failures(found)[0]


class TestNothingPassesUnmeasured:
    GATE = "pod_completion_time:p99:+10%"

    @pytest.mark.parametrize(
        ("candidate", "message"),
        [
            ([], "pi-2000 · carico is in the baseline, but was not measured"),
            ([run((PCT, TIMES), scheduler="other")], "pi-2000 · carico is in the baseline, but was not measured"),
            ([run((PCT, TIMES), steal=1)], "is incomparable with the baseline: other settings: steal (none, 1)"),
            (
                [run((PCT, TIMES[:2]), seeds=[0, 1])],
                "pi-2000 · carico: the number of repetitions is 5 in the baseline and 2 in this run, a gate needs 3: "
                "measure again with --carico-repetitions=5, or repetitions=5 where the test sets the number",
            ),
        ],
    )
    def test_by_the_run(self, candidate, message):
        found = gate([run((PCT, TIMES))], candidate, self.GATE)
        assert not found.passed
        assert any(message in sentence for sentence in failures(found))

    def test_by_a_baseline_of_too_few_repetitions(self):
        found = gate([run((PCT, TIMES[:2]), seeds=[0, 1])], [run((PCT, TIMES))], self.GATE)
        assert failures(found) == [
            "pi-2000 · carico: the number of repetitions is 2 in the baseline and 5 in this run, a gate needs 3: make "
            "the baseline anew with --carico-repetitions=5 --carico-save-baseline"
        ]
        assert gate_notes(found) == [], "the sentence has said it"

    def test_by_one_repetition_of_each_scheduler(self):
        both = [run((PCT, TIMES[:1]), seeds=[0], scheduler=name) for name in ("carico", "other")]
        assert failures(judge_schedulers(both, None, conditions([self.GATE]))) == [
            "pi-2000 · other: the number of repetitions is 1, a gate needs 3: measure again with "
            "--carico-repetitions=5, or repetitions=5 where the test sets the number"
        ]

    def test_by_a_reference_that_was_not_run(self):
        both = [run((PCT, TIMES), scheduler=name) for name in ("carico", "other")]
        assert failures(judge_schedulers(both, "carco", conditions([self.GATE]))) == [
            f"pi-2000 · {name} cannot be judged: the reference carco was not run there, did you mean 'carico'? Those "
            f"that were: carico, other"
            for name in ("carico", "other")
        ]

    def test_by_the_baseline(self):
        assert failures(gate([], [run((PCT, TIMES))], self.GATE)) == [
            "nothing was compared: the baseline and this run have no scenario and scheduler in common"
        ]

    def test_by_the_condition(self):
        found = gate(run((PCT, TIMES)), run((PCT, TIMES)), "request_latency:p99:+10%")
        assert failures(found) == [
            "nothing has request_latency p99 (request_latency:p99:+10%) in the baseline and in this run"
        ]


@pytest.mark.parametrize("n", [3, 5, 10])
def test_equal_schedulers_seldom_fail(n):
    rng = np.random.default_rng(n)
    seeds, failed, sessions = list(range(n)), 0, 400
    for _ in range(sessions):
        one, other = np.exp(rng.normal(0, 0.05, (2, n)))
        failed += not gate(
            run((PCT, one), (JCT, one**0.9), seeds=seeds),
            run((PCT, other), (JCT, other**0.9), seeds=[seed + n for seed in seeds]),
            "pod_completion_time:p99:+0%",
            "job_completion_time:+0%",
        ).passed
    assert failed <= 0.01 * sessions + 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pod_completion_time", "a gate is METRIC:STATISTIC:LIMIT, such as"),
        ("pod_completion_time:p99:10%", "a gate is METRIC:STATISTIC:LIMIT, such as"),
        ("pod_completion_time:p99:-10%", r"less is better, so the limit is \+10%, got '-10%'"),
        ("scheduling_throughput:+10%", "more is better, so the limit is -10%"),
        ("scheduling_throughput:-100%", "cannot lose 100 %, it would always pass"),
        ("pod_outcome:oom_killed:+10%", r"may be 0, so its limit is an amount such as \+10"),
        ("cpu_utilisation:mean:+10%", "cannot regress, because neither direction is better"),
        (
            "pod_wait_time:mean:+1",
            "'carico-testbed compare --metric pod_wait_time' shows how it differs, and a gate can ",
        ),
        ("pod_completion:p99:+10%", "no metric is named 'pod_completion', did you mean"),
    ],
)
def test_an_impossible_expression_says_what_to_write(text, message):
    with pytest.raises(UsageError, match=message):
        condition(text)


class TestBaselines:
    MADE_BY = MadeBy("20261120T101530Z-a", "2026-11-20T10:15:30Z", ["pytest"], "simulated", "3.11", {}, None)

    def test_a_baseline_is_read_as_it_was_written(self, tmp_path):
        baseline = Baseline(self.MADE_BY, [run((PCT, TIMES), (JCT, [None, *TIMES[1:]]), nodes=3)])
        write_baseline(tmp_path / "b.json", baseline)
        assert read_baseline(tmp_path / "b.json") == baseline

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda text: text[: len(text) // 2], "is not a baseline of carico-testbed"),
            (
                lambda text: text.replace('"settings":{}', f'"settings":{{"a":{"[" * 900}{"]" * 900}}}'),
                "recursion depth",
            ),
            (lambda text: text.replace('"seeds":[0,', '"seeds":['), "one value a seed is needed"),
            (lambda text: text.replace('"seeds":[0,1', '"seeds":[1,1'), "one value a seed is needed"),
            (lambda text: text.replace('"schema_version":1', '"schema_version":9'), "schema_version 9, this version"),
        ],
    )
    def test_a_damaged_baseline_is_refused(self, tmp_path, change, message):
        file = tmp_path / "b.json"
        write_baseline(file, Baseline(self.MADE_BY, [run((PCT, TIMES))]))
        assert f'"schema_version":{BASELINE_SCHEMA_VERSION}' in file.read_text()
        file.write_text(change(file.read_text()))
        with pytest.raises(ResultsError, match=message):
            read_baseline(file)

    def test_what_is_not_printable_is_not_read(self, tmp_path):
        hostile, shown = "pi\x1b]0;title\x07\x9b2J\u202e\t·\n", "pi?]0;title??2J?\t·\n"
        written = msgspec.structs.replace(run((PCT, TIMES), **{hostile: [hostile]}), title=hostile)
        write_baseline(tmp_path / "b.json", Baseline(self.MADE_BY, [written]))
        (read,) = read_baseline(tmp_path / "b.json").measured
        assert (read.title, read.settings, read.series) == (shown, {shown: [shown]}, written.series)

    def test_a_baseline_of_nothing_is_refused(self, tmp_path):
        write_baseline(tmp_path / "b.json", Baseline(self.MADE_BY, []))
        with pytest.raises(ResultsError, match="is a baseline of nothing"):
            read_baseline(tmp_path / "b.json")

    def test_an_ordinary_baseline_is_small(self, tmp_path):
        many = [run((PCT, TIMES), (JCT, TIMES), nodes=n, jobs=[{"name": "pi", "pods": 100}]) for n in range(100)]
        write_baseline(tmp_path / "b.json", Baseline(self.MADE_BY, many))
        assert (tmp_path / "b.json").stat().st_size < 100 << 10

    def test_a_baseline_that_cannot_be_written_is_one_message(self, tmp_path):
        with pytest.raises(ResultsError, match=r"cannot write the baseline to .*: No such file"):
            write_baseline(tmp_path / "gone" / "b.json", Baseline(self.MADE_BY, [run((PCT, TIMES))]))

    def test_unknown_keys_are_ignored(self, tmp_path):
        file = tmp_path / "b.json"
        write_baseline(file, Baseline(self.MADE_BY, [run((PCT, TIMES))]))
        file.write_bytes(msgspec.json.encode(msgspec.json.decode(file.read_bytes()) | {"weather": "fair"}))
        assert len(read_baseline(file).measured) == 1
