"""A repetition that other guests disturbed is run again, however long it took."""

import msgspec
import pytest

from testbed.errors import UsageError
from testbed.experiment.retry import run_with_retries
from testbed.measurement.stolen_cpu import RETRIED_FROM, discarded_attempts, stolen_shares
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-2000").scaled(pods=2)


def runs_of(provider):
    return lambda tell: provider.run(SCENARIO, parse_spec("carico"), 1, {}, tell)


@pytest.mark.parametrize(
    ("stolen", "runs", "kept"),
    [
        ([0.02], 1, 0.02),
        ([RETRIED_FROM, 0.09], 2, 0.09),
        ([0.5, 0.2, 0.0], 3, 0.0),
        ([0.5, 0.2, 0.3, 0.0], 3, 0.2),  # no more than three; of these the one with the least
    ],
)
def test_a_disturbed_repetition_is_run_again(stolen, runs, kept):
    provider, disturbed = FakeProvider(stolen=stolen), []
    repetition = run_with_retries(runs_of(provider), 3, keep=disturbed.append)
    assert len(provider.calls) == runs
    assert stolen_shares([repetition]) == [kept]
    assert discarded_attempts([repetition]) == ({"carico": runs - 1} if runs > 1 else {})
    assert stolen_shares(disturbed) == [share for share in stolen[:runs] if share >= RETRIED_FROM]


def test_earlier_attempts_count():
    provider = FakeProvider(stolen=[0.2, 0.4, 0.0])
    earlier = [runs_of(provider)(None)]
    repetition = run_with_retries(runs_of(provider), 2, earlier)
    assert len(provider.calls) == 2
    assert stolen_shares([repetition]) == [0.2]
    assert {item.labels["attempt"] for item in repetition.data_items if "attempt" in item.labels} == {"2"}


def test_what_is_discarded_stays_in_the_results():
    items = run_with_retries(runs_of(FakeProvider(stolen=[0.4, 0.0])), 3).data_items
    measured = [item for item in items if "attempt" not in item.labels]
    discarded = [item for item in items if "attempt" in item.labels]
    assert [item.labels["metric"] for item in discarded] == [f"discarded_{item.labels['metric']}" for item in measured]
    assert {item.labels["attempt"] for item in discarded} == {"1"}
    assert discarded[-1].data == {"value": 0.4}


def incomplete(one):
    return msgspec.structs.replace(one, job_completion_time_s={SCENARIO.jobs[0].name: None})


def replaced(one):
    failed = msgspec.structs.replace(one.pods[0], name="another", outcome="oom_killed")
    return msgspec.structs.replace(one, pods=[failed, *one.pods])


def run_twice(one):
    return msgspec.structs.replace(one, pods=[*one.pods, msgspec.structs.replace(one.pods[0], name="another")])


def disturbance_failed(one):
    return msgspec.structs.replace(
        one, pods=[*one.pods, msgspec.structs.replace(one.pods[0], job="server", outcome="failed")]
    )


@pytest.mark.parametrize("wrong", [incomplete, replaced, run_twice, disturbance_failed])
def test_what_went_wrong_is_kept_whatever_the_machine_did(wrong):
    provider = FakeProvider(stolen=[0.9, 0.0])
    kept = run_with_retries(lambda tell: wrong(runs_of(provider)(tell)), 3)
    assert len(provider.calls) == 1
    assert kept == wrong(runs_of(FakeProvider(stolen=[0.9]))(None))


def test_a_disturbance_need_not_come_to_its_end():
    def unfinished(one):
        pod = msgspec.structs.replace(one.pods[0], job="server", outcome="unfinished")
        return msgspec.structs.replace(one, pods=[*one.pods, pod])

    provider = FakeProvider(stolen=[0.9, 0.0])
    assert stolen_shares([run_with_retries(lambda tell: unfinished(runs_of(provider)(tell)), 3)]) == [0.0]


def test_where_nobody_knows_what_was_stolen_nothing_is_run_again():
    provider = FakeProvider()
    assert run_with_retries(runs_of(provider), 3) == runs_of(FakeProvider())(None)
    assert len(provider.calls) == 1


def test_one_attempt_is_one_run():
    provider, disturbed = FakeProvider(stolen=[0.9]), []
    assert run_with_retries(runs_of(provider), 1, keep=disturbed.append) == runs_of(FakeProvider(stolen=[0.9]))(None)
    assert (len(provider.calls), disturbed) == (1, [])
    with pytest.raises(UsageError, match="at least one attempt, got 0"):
        run_with_retries(runs_of(provider), 0)


def test_progress_tells_which_attempt_runs():
    told = []
    run_with_retries(runs_of(FakeProvider(stolen=[0.4, 0.0])), 3, on_progress=told.append)
    assert [one.attempt for one in told] == [1, 2]
