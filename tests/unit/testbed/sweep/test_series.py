"""What a sweep's repetitions become: series, a table of 80 columns, numbers in files, and a figure."""

import csv
import io
import xml.etree.ElementTree as ET

import msgspec
import pytest

from testbed.report.sweep_figure import sweep_figure
from testbed.report.sweep_table import sweep_table
from testbed.sweep.series import as_csv, series_of
from testbed.sweep.sweep import Sweep, points, scenario_sha256, trials
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-2000").scaled(pods=4, nodes=2)


@pytest.fixture
def asked():
    schedulers = ["carico", "kube-scheduler"]
    values = ["50m", "500m", "2"]
    given = {"schedulers": schedulers, "sources": [None, None], "provider": "simulated", "repetitions": 3, "seed": 1}
    return Sweep("pi-2000", scenario_sha256(SCENARIO), "kube-scheduler.cpu", values, **given)


@pytest.fixture
def measured(asked):
    """Repetitions of which those with the lowest request lose a pod for memory, and one with the highest cannot end."""
    found = []
    for trial, seed in trials(points(asked, SCENARIO), FakeProvider()):
        one = trial.run(seed)
        nodes = [msgspec.structs.replace(node, running_pods=[1, 3, seed]) for node in one.nodes]
        one = msgspec.structs.replace(one, nodes=nodes)
        if one.scheduler.endswith("50m"):
            killed = msgspec.structs.replace(one.pods[0], name="killed", outcome="oom_killed")
            one = msgspec.structs.replace(one, pods=[killed, *one.pods])
        if one.scheduler.endswith("cpu=2") and seed == 2:
            one = msgspec.structs.replace(one, job_completion_time_s={"pi-2000": None})
        found.append(one)
    return found


def test_a_scheduler_that_is_not_changed_is_flat_and_the_others_follow_the_axis(asked, measured):
    carico, kube = series_of(asked, measured)
    assert carico.is_flat
    assert [point.value for point in kube.points] == ["50m", "500m", "2"]
    assert [point.oom_killed for point in kube.points] == [1.0, 0.0, 0.0]
    assert [(point.completed, point.repetitions) for point in kube.points] == [(3, 3), (3, 3), (2, 3)]
    assert {point.most_pods for point in kube.points} == {3.0}
    one = kube.points[1].job_completion_s
    times = [run.job_completion_time_s["pi-2000"] for run in measured if run.scheduler.endswith("500m")]
    assert one.mean == pytest.approx(sum(times) / 3, abs=1e-6)
    assert (one.low, one.high) == pytest.approx((min(times), max(times)), abs=1e-6)


def test_the_order_in_which_repetitions_finish_does_not_matter(asked, measured):
    assert series_of(asked, measured) == series_of(asked, measured[::-1])


def test_an_early_end_leaves_the_points_that_there_are(asked, measured):
    assert [len(one.points) for one in series_of(asked, measured[:3])] == [1, 2]
    assert series_of(asked, []) == []
    assert sweep_table(asked, []) == []


def test_the_table_has_80_columns_and_says_what_did_not_complete(asked, measured):
    lines = sweep_table(asked, series_of(asked, measured))
    assert max(map(len, lines)) <= 80
    assert "carico, the same everywhere" in lines
    (row,) = [line for line in lines if line.startswith("  2 ")]
    assert "1/3 did not end" in row


def test_the_numbers_are_a_table_that_other_programs_read(asked, measured):
    rows = list(csv.DictReader(io.StringIO(as_csv(asked, series_of(asked, measured)))))
    assert [row["kube-scheduler.cpu"] for row in rows] == ["", "50m", "500m", "2"]
    assert float(rows[1]["oom_killed"]) == 1.0
    assert float(rows[0]["job_completion_s_low"]) <= float(rows[0]["job_completion_s_mean"])


def test_the_figure_names_what_it_shows_and_is_the_same_every_time(asked, measured):
    pytest.importorskip("matplotlib")
    found = series_of(asked, measured)
    picture = sweep_figure(asked, found)
    text = " ".join(ET.fromstring(picture).itertext())
    for label in ("kube-scheduler.cpu", "JCT, s", "PCT, s", "50m", "carico", "OOM kills", "jobs did not complete"):
        assert label in text
    assert sweep_figure(asked, found) == picture
    assert sweep_figure(asked, found, "png").startswith(b"\x89PNG")
