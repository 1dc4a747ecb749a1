"""Hooks that add schedulers, scenarios and measurements, and what is wrong with what they return."""

import pytest

ADDED = """
from testbed.measurement.own import Measurement
from testbed.schedulers import Scheduler
from workloads.scenario import JobSpec, Scenario

class Mine(Scheduler):
    def __init__(self, limit: float = 1.0):
        pass

    def score(self, pod, node):
        return 0.0

def pytest_carico_schedulers(config):
    return {"mine": Mine}

def pytest_carico_scenarios(config):
    return [Scenario("tiny", "two pods", [JobSpec("pi", "pi", pods=2, parameters={"digits": 100})])]

def seconds(repetition):
    return {"pi": [pod.finished_s for pod in repetition.pods]}

def pytest_carico_measurements(config):
    return [Measurement("ends", "s", "when pods end", seconds, less_is_better=True, statistics=("mean",))]
"""
TEST = """
import pytest

@pytest.mark.cluster
@pytest.mark.carico(scenario={scenario!r}, scheduler={scheduler!r})
def test_it(carico_results):
    (run,) = carico_results[{scheduler!r}]
    (item,) = [one for one in run.data_items if one.labels["metric"] == "ends"]
    assert item.data["count"] == 2
    assert run.settings["scheduler"].endswith(":Mine")
"""


@pytest.fixture
def session(pytester):
    def run(conftest=ADDED, scenario="tiny", scheduler="mine:limit=0.5", *arguments):
        pytester.makeconftest(conftest)
        pytester.makepyfile(TEST.format(scenario=scenario, scheduler=scheduler))
        return pytester.runpytest("-p", "testbed.plugin", "-m", "cluster", *arguments)

    return run


def test_what_hooks_add_is_used_by_name(session):
    result = session()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*tiny · pi · 2 pods*", "*mine:limit=0.5*"])


def test_a_metric_is_known_only_while_the_session_lasts(session):
    from testbed.measurement.metrics import DEFAULT, METRICS

    before = len(DEFAULT)
    session()
    assert "ends" not in METRICS
    assert len(DEFAULT) == before


def test_unknown_names_say_what_was_added(session):
    result = session(ADDED, "tin")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*no scenario is named 'tin'*did you mean 'tiny'? Added by hooks: tiny*"])
    result = session(ADDED, "tiny", "mien")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*no scheduler is named 'mien', did you mean 'mine'?*"])


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        ("def pytest_carico_schedulers(config): return [1]", "*a mapping of names to classes is needed*"),
        ("def pytest_carico_scenarios(config): return ['tiny']", "*a workloads.scenario.Scenario is needed*"),
        ("def pytest_carico_measurements(config): return [len]", "*a testbed.measurement.own.Measurement is needed*"),
        (ADDED.replace('"ends"', '"pod_outcome"'), "*a metric is named 'pod_outcome' already*"),
        (ADDED.replace('"mean"', '"average"'), "*ends has no statistic 'average'; known: value, count, mean*"),
    ],
)
def test_what_a_hook_may_not_return(session, conftest, said):
    result = session(conftest)
    assert result.ret == 4
    result.stderr.fnmatch_lines([said])


def test_a_measurement_that_fails_is_told(session):
    result = session(ADDED.replace("pod.finished_s", "pod.finshed_s"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*OwnCodeFailed: the measurement ends: AttributeError: *finshed_s*"])
