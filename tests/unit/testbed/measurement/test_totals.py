"""Scenarios with very many jobs, such as traces, are shown and compared as totals."""

import pytest

from testbed.comparison.measured import measured
from testbed.comparison.runs import paired, rows_of
from testbed.measurement.totals import MANY_JOBS, mean_completion_s, shown_items
from testbed.report.tables import distributions, medians
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def trace(tmp_path, jobs, repetitions=3, outcome="succeeded", first_seed=1):
    lines = [f"  - {{name: j{n}, workload: pi, pods: 2, start_s: {n}}}" for n in range(jobs)]
    text = "name: trace\ndescription: many jobs\ncluster: {nodes: 2, cores: 4, memory: 8Gi}\njobs:\n"
    (tmp_path / "trace.yaml").write_text(text + "\n".join(lines) + "\n")
    scenario = load_scenario(str(tmp_path / "trace.yaml"))
    provider = FakeProvider(outcome)
    seeds = range(first_seed, first_seed + repetitions)
    return [
        provider.run(scenario, parse_spec(name), seed, {}) for name in ("carico", "kube-scheduler") for seed in seeds
    ]


def test_the_terminal_has_one_table_for_many_jobs(tmp_path):
    for table in (distributions(trace(tmp_path, 71)), medians(trace(tmp_path, 71))):
        assert len(table) < 16
        assert sum(line.startswith("trace · all 71 jobs · 142 pods · 2 nodes") for line in table) == 1
        assert "more than 10 jobs, JCT is the mean of all jobs' completion times" in " ".join(table)


def test_few_jobs_keep_their_tables(tmp_path):
    assert sum(line.startswith("trace · j") for line in distributions(trace(tmp_path, MANY_JOBS))) == MANY_JOBS


def test_totals_are_those_of_all_jobs(tmp_path):
    (one, *_) = trace(tmp_path, 20)
    items = {item.labels["metric"]: item for item in shown_items(one) if item.labels.get("job") == "all 20 jobs"}
    assert items["pod_completion_time"].data["count"] == 40
    assert items["job_completion_time"].data["value"] == pytest.approx(sum(one.job_completion_time_s.values()) / 20)
    assert items["pod_outcome"].data == {"succeeded": 40.0}


def test_many_jobs_have_no_mean_unless_all_completed(tmp_path):
    (one, *_) = trace(tmp_path, 20, outcome="failed")
    assert mean_completion_s(one) is None
    assert any("3 did not complete" in line for line in medians(trace(tmp_path, 20, outcome="failed")))


def test_many_jobs_are_compared_once(tmp_path):
    before, after = (measured(trace(tmp_path, 71, first_seed=seed)) for seed in (1, 100))
    rows = rows_of(paired(before, after))
    assert {row.compared.figure.of for row in rows} == {("all 71 jobs",)}
    assert len(rows) == 6
