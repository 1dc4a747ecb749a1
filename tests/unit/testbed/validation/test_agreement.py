"""Real and simulated completion times side by side."""

import msgspec
import pytest

from testbed.errors import ResultsError
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from testbed.validation.agreement import agreement_table, agreements
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-two-nodes")
SCHEDULERS = ("carico", "kube-scheduler:cpu=50m")


def runs(seeds):
    return [FakeProvider().run(SCENARIO, parse_spec(name), seed, {}) for seed in seeds for name in SCHEDULERS]


def slower(repetition, by):
    """Return the same repetition with all times multiplied."""
    pods = [
        msgspec.structs.replace(pod, started_s=by * pod.started_s, finished_s=by * pod.finished_s)
        for pod in repetition.pods
    ]
    times = {job: by * taken for job, taken in repetition.job_completion_time_s.items()}
    return msgspec.structs.replace(repetition, pods=pods, job_completion_time_s=times)


@pytest.mark.parametrize("repetitions", [1, 3, 8])
def test_ratios_and_their_intervals(repetitions):
    real = runs(range(repetitions))
    found = agreements(real, [slower(one, 1.5) for one in real])
    assert [(row.figure, row.scheduler) for row in found] == [
        (figure, scheduler) for figure in ("mean PCT", "JCT") for scheduler in SCHEDULERS
    ]
    for row in found:
        low, high = row.ratio_interval
        assert row.ratio == pytest.approx(1.5)
        assert low <= row.ratio + 1e-9
        assert high >= row.ratio - 1e-9
        assert (low < high) == (repetitions > 1)


def test_numbers_of_repetitions_may_differ():
    found = agreements(runs(range(6)), runs(range(20)))
    assert {(len(row.real), len(row.simulated)) for row in found} == {(6, 20)}
    lines = agreement_table(found)
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if " · " in line] == ["pi-two-nodes · mean PCT", "pi-two-nodes · JCT"]


def test_a_long_name_has_a_line_of_its_own():
    name = "kube-scheduler:cpu=250m,memory=750Mi"
    run = FakeProvider().run(SCENARIO, parse_spec(name), 1, {})
    lines = agreement_table(agreements([run], [run]))
    assert max(map(len, lines)) <= 80
    assert lines.count(f"  {name}") == 2


def test_a_job_that_did_not_complete_cannot_be_compared():
    failed = FakeProvider("failed").run(SCENARIO, parse_spec("carico"), 1, {})
    with pytest.raises(ResultsError, match="pi-two-nodes did not complete under carico with seed 1"):
        agreements([failed], runs([1]))
