"""Guests of a real Xen host, made, joined, measured and removed by the provider.

The host may be emulated (scripts/xen-lab), so nothing here depends on how long something takes.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from testbed.measurement.utilisation import median_between
from testbed.results.schema import Repetition

pytestmark = pytest.mark.cluster

SCENARIO = str(Path(__file__).with_name("two-guests.yaml"))
FALLS = 0.7
"""A guest whose only CPU is taken has much less than its idle capacity; on kind half of it is asserted, where agents do
not need a fifth of a CPU themselves."""
SETTLES_S = 30.0
"""Smoothing, hold-off and the weight of a batch, where everything takes several times as long as on a machine."""
LOADED = 0
"""The index of the loaded node."""


@pytest.fixture
def runs(carico_experiment) -> list[Repetition]:
    return carico_experiment.run(SCENARIO, "carico", repetitions=1)


def spans(run: Repetition) -> tuple[tuple[float, float], ...]:
    """Return the times before, during and after the load, without the transitions between them."""
    load = [pod for pod in run.pods if pod.job == "load"]
    next_s = min(pod.started_s for pod in run.pods if pod.job == "afterwards")
    began_s, ended_s = max(pod.started_s for pod in load), min(pod.finished_s for pod in load)
    return (0.0, min(pod.created_s for pod in load)), (began_s + SETTLES_S, ended_s), (ended_s + SETTLES_S, next_s)


def test_a_job_on_each_guest_is_complete(runs):
    for run in runs:
        assert {pod.outcome for pod in run.pods} == {"succeeded"}
        nodes = {pod.job: pod.node for pod in run.pods}
        assert nodes["load"] == nodes["afterwards"] != nodes["beside"]


def test_capacity_falls_and_recovers(runs, carico_paper):
    for metric in ("pod_capacity", "capacity_signal"):
        courses = [[median_between(run.nodes[LOADED], metric, *span) for span in spans(run)] for run in runs]
        before, during, after = (statistics.median(values) for values in zip(*courses, strict=True))
        for when, value in (("before", before), ("during", during), ("after", after)):
            carico_paper.row(f"{metric} {when} the load", value, None)
        assert during < FALLS * before
        assert during < FALLS * after


def test_results_say_what_was_measured(runs):
    for run in runs:
        assert run.settings["provider"] == "xen"
        assert "emulated" in run.settings
        for node in run.nodes:
            stolen = [share for share in node.cpu_stolen if share is not None]
            assert stolen
            assert all(0 <= share <= 1 for share in stolen)
