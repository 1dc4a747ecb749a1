"""The power of a gate: what it says that it finds, it finds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from testbed.comparison.conditions import conditions
from testbed.comparison.gate import judge
from testbed.comparison.measured import Measured, Series
from testbed.comparison.power import POWER, noisiest, noisiest_of_baseline
from testbed.report.comparison import gate_notes

CONDITION = conditions(["pod_completion_time:mean:+2%"])
SPREAD = 0.02


def run(values, first_seed=0, metric=("pod_completion_time", "mean", ("pi-2000",))):
    seeds = list(range(first_seed, first_seed + len(values)))
    return [Measured("pi-2000", "carico", "pi-2000 · carico", {}, seeds, [Series(*metric, list(values))])]


def draw(rng, n, factor=1.0):
    return factor * np.exp(rng.normal(0.0, SPREAD, n))


@pytest.mark.parametrize("n", [5, 8, 20])
def test_the_change_that_is_announced_is_found_as_often_as_announced(n):
    rng = np.random.default_rng(n)
    error = SPREAD * math.sqrt(2 / n)
    typical = np.exp(np.sqrt(n / (n - 1)) * SPREAD * np.resize([-1.0, 1.0], n))  # about SPREAD from seed to seed
    announced = noisiest_of_baseline(run(typical), CONDITION).change
    assert 0.02 + 2.9 * error < announced < 0.02 + 7.5 * error
    sessions = 300
    found = sum(
        not judge(run(draw(rng, n)), run(draw(rng, n, 1 + announced), first_seed=100), CONDITION).passed
        for _ in range(sessions)
    )
    assert abs(found / sessions - POWER) < 0.06


def test_more_repetitions_find_smaller_changes():
    rng = np.random.default_rng(1)
    values = draw(rng, 40)
    few, many = (noisiest_of_baseline(run(values[:n]), CONDITION).change for n in (5, 40))
    assert 0.02 < many < few


def test_a_gate_tells_its_power_by_the_noise_that_it_has_seen():
    rng = np.random.default_rng(2)
    before = draw(rng, 8)
    steady, noisy = (judge(run(before), run(before * np.exp(rng.normal(0, s, 8))), CONDITION) for s in (0.001, 0.02))
    assert 0.02 < noisiest(steady).change < 0.03 < noisiest(noisy).change
    (note,) = [line for line in gate_notes(noisy) if "this gate finds" in line]
    assert note.startswith(f"this gate finds +{100 * noisiest(noisy).change:.1f} % or worse in 95 % of sessions")
    assert "pi-2000 · carico: pod_completion_time mean (pi-2000)" in note


def test_of_what_more_is_better_it_is_less_that_is_found():
    rate = ("scheduling_throughput", "value", ())
    values = draw(np.random.default_rng(3), 8)
    assert noisiest_of_baseline(run(values, metric=rate), conditions(["scheduling_throughput:-5%"])).change < -0.05


def test_where_nothing_varies_or_nothing_is_a_ratio_nothing_is_told():
    same = run([10.0, 11.0, 12.0])
    assert noisiest(judge(same, same, CONDITION)) is None
    assert gate_notes(judge(same, same, CONDITION)) == []
    killed = run([1.0, 2.0, 3.0], metric=("pod_outcome", "oom_killed", ("pi-2000",)))
    assert noisiest_of_baseline(killed, conditions(["pod_outcome:oom_killed:+0"])) is None
    assert noisiest_of_baseline(run([10.0, 11.0]), CONDITION) is None


def test_what_could_not_be_decided_is_told_figure_by_figure():
    rng = np.random.default_rng(4)
    gate = judge(run(draw(rng, 5)), run(draw(rng, 5, 1.03), first_seed=100), CONDITION)
    assert gate.passed
    assert gate_notes(gate)[0].startswith("inconclusive: pi-2000 · carico: pod_completion_time mean (pi-2000) (+")
    several = replace(gate, judgements=gate.judgements * 7)
    assert gate_notes(several)[5] == "2 more figures are inconclusive"
    assert gate_notes(replace(gate, judgements=gate.judgements * 6))[5] == "1 more figure is inconclusive"


def test_a_baseline_of_fewer_repetitions_is_compared_seed_by_seed():
    values = draw(np.random.default_rng(5), 8)
    gate = judge(run(values[:5]), run(1.001 * values), CONDITION)
    (one,) = gate.judgements
    assert (one.found.difference.paired, one.found.difference.n, one.outcome) == (True, (5, 5), "ok")
    assert one.found.candidate == pytest.approx(1.001 * one.found.reference)
