"""The effect of a large job on the clients of a server beside it (thesis §5.5, Table 5.4)."""

from __future__ import annotations

import msgspec
import pytest

from testbed.measurement.request_latency import request_latencies
from testbed.measurement.statistics import summary
from testbed.plugin.claims import claimed
from workloads.scenario import load_scenario

pytestmark = pytest.mark.cluster

SCENARIO = "isolation"
VARIANTS = ("thesis-rebased", "thesis-literal")
COLUMNS = ("min", "p50", "p90", "p95", "p99", "max")
PRISTINE = dict(zip(COLUMNS, (0.99, 3.04, 3.78, 4.00, 4.47, 8.32), strict=True))
KUBE = dict(zip(COLUMNS, (1.07, 10.06, 18.61, 22.28, 28.82, 54.49), strict=True))
CARICO = dict(zip(COLUMNS, (1.00, 2.48, 6.09, 7.82, 10.53, 17.39), strict=True))
BODY = ("p50", "p90", "p95", "p99")
TOLERANCE = 0.10
"""The latency model is calibrated to these rows. Extremes are only reported: they are single requests out of a number
that the thesis does not give."""
REQUEST = "kube-scheduler:cpu=100m"
REPETITIONS = {REQUEST: 3}
"""Least repetitions: medians differ by 5 % from seed to seed, and the tolerance is 10 %."""


def latencies_ms(carico_experiment, scheduler, phase, scenario=SCENARIO, **settings):
    repetitions = max(carico_experiment.repetitions, REPETITIONS.get(scheduler, 1))
    runs = carico_experiment.run(scenario, scheduler, repetitions=repetitions, settings=settings)
    return summary([1000 * latency for latency in request_latencies(runs, "web", phase)])


@pytest.mark.parametrize(("phase", "thesis"), [("before", PRISTINE), ("during", KUBE)], ids=["pristine", "100m"])
def test_calibration_rows(carico_experiment, carico_paper, phase, thesis):
    """The quantiles to which the latency model was calibrated are met within 10 %."""
    ours = latencies_ms(carico_experiment, REQUEST, phase)
    for column in COLUMNS:
        carico_paper.row(f"latency {column}, {phase} the job, 100m", ours[column], thesis[column], "ms")
    for column in BODY:
        assert ours[column] == pytest.approx(thesis[column], rel=TOLERANCE), column


def test_kube_scheduler_shifts_the_distribution(carico_experiment, carico_paper):
    """Low requests almost triple the median and make the tail several times as long (§5.5)."""
    before, during = (latencies_ms(carico_experiment, REQUEST, phase) for phase in ("before", "during"))
    for column in ("p50", "p99"):
        ratio = during[column] / before[column]
        carico_paper.row(f"{column} during / before, 100m", ratio, KUBE[column] / PRISTINE[column])
        assert ratio > 2.5


def test_carico_isolates(carico_experiment, carico_paper, prediction):
    """CARICO keeps the median near that of an idle node and the tail far below kube-scheduler's (§5.5)."""
    before = latencies_ms(carico_experiment, prediction.scheduler, "before", **prediction.settings)
    during = latencies_ms(carico_experiment, prediction.scheduler, "during", **prediction.settings)
    low = latencies_ms(carico_experiment, REQUEST, "during")
    for column in COLUMNS:
        carico_paper.row(f"latency {column}, {prediction.variant}", during[column], CARICO[column], "ms")
    carico_paper.row("p99 during / before", during["p99"] / before["p99"], CARICO["p99"] / PRISTINE["p99"])
    assert during["p50"] < 1.2 * before["p50"], "thesis: 0.82"
    assert during["p99"] < low["p99"] / 2, "thesis: 0.37"


LOWER = "thesis: the median is 0.82 times an idle node's, because busy CPUs need not be woken; here 0.94 to 1.07 times"


@pytest.mark.parametrize("variant", claimed(VARIANTS, dict.fromkeys(VARIANTS, LOWER)))
def test_the_median_is_lower_than_on_an_idle_node(carico_experiment, carico_paper, variant):
    """Under CARICO the median falls from 3.04 to 2.48 ms (Table 5.4)."""
    before, during = (
        latencies_ms(carico_experiment, f"carico:variant={variant}", phase) for phase in ("before", "during")
    )
    carico_paper.row("p50 during / before", during["p50"] / before["p50"], CARICO["p50"] / PRISTINE["p50"])
    assert during["p50"] < 0.9 * before["p50"]


def test_counting_the_server_teaches_its_node_that_pods_cost_nothing(carico_experiment, carico_paper):
    """After a minute with a pod that hardly computes, its node accepts too many that do: the limitation of §5.7.

    In the other tests the server counts as a pod of the platform, and these are not counted.
    """
    scenario = load_scenario(SCENARIO)
    server, job = scenario.jobs
    counted = msgspec.structs.replace(scenario, jobs=[msgspec.structs.replace(server, platform=False), job])
    most = {}
    for name, variation in (("not counted", scenario), ("counted", counted)):
        latency = latencies_ms(carico_experiment, "carico", "during", variation)
        runs = carico_experiment.run(variation, "carico")
        most[name] = max(max(run.nodes[0].running_pods) for run in runs)
        carico_paper.row(f"most pods on the server's node, server {name}", most[name], None, "pods")
        carico_paper.row(f"latency p50, server {name}", latency["p50"], CARICO["p50"], "ms")
        carico_paper.row(f"latency p99, server {name}", latency["p99"], CARICO["p99"], "ms")
    assert most["counted"] > 1.5 * most["not counted"]
