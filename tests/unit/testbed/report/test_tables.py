"""Results as text: how they are grouped, and how groups are told apart."""

import re

import msgspec
import pytest

from testbed.experiment.plan import Plan
from testbed.measurement.stolen_cpu import METRIC
from testbed.report.tables import distributions, medians, stolen_note
from testbed.results.schema import DataItem
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


def measured(scenario="pi-2000", pods=4, repetitions=1, outcome="succeeded", schedulers=("carico",), **settings):
    plan = Plan(
        load_scenario(scenario).scaled(pods=pods), tuple(map(parse_spec, schedulers)), repetitions, settings=settings
    )
    return plan.check(FakeProvider(outcome)).run()


def test_the_same_run_under_other_settings_is_another_group():
    runs = [*measured(speed=1.0), *measured(speed=2.0)]
    titles = [line for line in medians(runs) if line.startswith("pi-2000")]
    assert titles == ["pi-2000 · 4 pods · 19 nodes · speed=1.0", "pi-2000 · 4 pods · 19 nodes · speed=2.0"]


def test_numbers_of_pods_are_groups():
    runs = [*measured(pods=4), *measured(pods=400)]
    titles = [line for line in medians(runs) if line.startswith("pi-2000")]
    assert titles == ["pi-2000 · 4 pods · 19 nodes", "pi-2000 · 400 pods · 19 nodes"]


def test_disturbances_are_not_measured():
    assert not any("light-cpu" in line for line in medians(measured("conflicting-capacity")))


def test_the_median_comes_with_its_interval():
    runs = measured(repetitions=5)
    row = row_of(medians(runs), "carico")
    n, *figures = row.replace("[", "").replace("]", "").replace(",", "").split()
    assert n == "5"
    for median, low, high in (figures[:3], figures[3:]):  # of JCT and PCT
        assert float(low) <= float(median) <= float(high)
        assert float(low) < float(high)


def test_intervals_of_all_repetitions_stand_below_their_distribution():
    line = distributions(measured(repetitions=5))[3]
    assert re.fullmatch(
        r"    5 repetitions, extremes: mean PCT \[[\d.]+, [\d.]+\], JCT \(median\) \[[\d.]+, [\d.]+\]", line
    )
    assert len(line) <= 80


def test_long_times_have_their_intervals_within_80_columns():
    slow = [
        msgspec.structs.replace(
            one,
            pods=[msgspec.structs.replace(pod, finished_s=pod.started_s + 500 + one.seed) for pod in one.pods],
            job_completion_time_s={"pi-2000": 500.0 + one.seed},
        )
        for one in measured(repetitions=10)
    ]
    table = distributions(slow)
    assert max(map(len, table)) <= 80
    assert re.search(r"mean PCT \[\d+, \d+\], JCT \(median\) \[\d+, \d+\]", " ".join(" ".join(table).split()))


def test_a_job_that_did_not_complete_has_no_completion_time():
    runs = measured(repetitions=2, outcome="failed")
    assert any("did not complete" in line for line in medians(runs))
    table = distributions(runs)
    assert any("2 failed" in line for line in table)
    assert any(line.endswith(" -") for line in table)


def test_no_pod_that_succeeded_leaves_the_figures_empty():
    assert distributions(measured(pods=1, outcome="unfinished"))[2].split() == ["carico", *"-" * 7]


@pytest.mark.parametrize("factor", [1.0, 9.9961, 13.15, 99.96, 345.0])
def test_large_ratios_keep_the_columns_apart(factor):
    runs = [
        msgspec.structs.replace(
            one,
            job_completion_time_s=dict.fromkeys(
                one.job_completion_time_s, (100 + one.seed % 7) * (factor if one.scheduler == "kube-scheduler" else 1.0)
            ),
        )
        for one in measured(repetitions=3, schedulers=("carico", "kube-scheduler"))
    ]
    row = row_of(medians(runs), "kube-scheduler")
    figure = r"[\d.]+ \[[\d.]+, [\d.]+\]"
    assert re.fullmatch(rf" +3 +{figure} +{figure} +{figure} +(ok|regressed)", row)
    assert len(row) <= 80


class Slower(FakeProvider):
    """Under kube-scheduler every job takes a tenth longer, under the second of its kind it does not complete."""

    def run(self, scenario, scheduler, *arguments):
        one = super().run(scenario, scheduler, *arguments)
        factor = {"carico": 1.0, "kube-scheduler": 1.1, "kube-scheduler:cpu=100m": None}[scheduler.text]
        seconds = 100.0 + one.seed % 7
        completion = dict.fromkeys(one.job_completion_time_s, None if factor is None else factor * seconds)
        return msgspec.structs.replace(one, job_completion_time_s=completion)


SCHEDULERS = ("carico", "kube-scheduler", "kube-scheduler:cpu=100m")


def compared(repetitions, schedulers=SCHEDULERS, seed=1001):
    plan = Plan(load_scenario("pi-2000").scaled(pods=4), tuple(map(parse_spec, schedulers)), repetitions, seed)
    return plan.check(Slower()).run()


@pytest.mark.parametrize(("repetitions", "verdict"), [(2, "inconclusive"), (3, "regressed")])
def test_others_are_compared_with_the_first(repetitions, verdict):
    table = medians(compared(repetitions))
    assert max(map(len, table)) <= 80
    carico, slower, failed = (row_of(table, scheduler) for scheduler in SCHEDULERS)
    assert carico.endswith(" reference")
    assert " 1.10" in slower
    assert slower.endswith(f" {verdict}")
    assert failed.endswith(f" {verdict}")
    assert f"{repetitions} did not complete" in failed
    assert "both comparisons" in " ".join(table)


def test_the_user_names_what_others_are_compared_with():
    table = medians(compared(3), "kube-scheduler")
    carico, kube, failed = (row_of(table, scheduler) for scheduler in SCHEDULERS)
    assert kube.endswith(" reference")
    assert carico.endswith("0.91 [0.91, 0.91]     improved")
    assert failed.endswith(" regressed")


def test_a_reference_that_was_not_run_is_told():
    table = medians(compared(3), "kube-scheduler:cpu=1")
    assert row_of(table, "carico").endswith(" reference")
    assert "kube-scheduler:cpu=1, the reference that was asked for, was not run" in " ".join(table)


def test_the_reference_does_not_depend_on_the_outcome():
    """The fastest of several equal schedulers is the luckiest; compared with it, the others would look slower."""
    runs = measured(repetitions=3, schedulers=SCHEDULERS)
    for factor in (0.1, 10.0):
        changed = [
            msgspec.structs.replace(
                one,
                job_completion_time_s={
                    job: seconds * (factor if one.scheduler == "carico" else 1.0)
                    for job, seconds in one.job_completion_time_s.items()
                },
            )
            for one in runs
        ]
        assert row_of(medians(changed), "carico").endswith(" reference")


def on(provider, runs, **settings):
    """The same runs as if a real cluster had given them."""
    return [msgspec.structs.replace(one, settings=one.settings | {"provider": provider, **settings}) for one in runs]


def row_of(table, scheduler):
    """The figures of a scheduler, below its name."""
    return table[table.index(f"  {scheduler}") + 1]


def test_repetitions_of_other_seeds_are_not_paired():
    """But they are compared: seeds differ by more than schedulers do, so that is less certain."""
    alone, other = compared(7, ("carico",)), compared(7, ("kube-scheduler",), seed=2001)
    row = row_of(medians([*alone, *other]), "kube-scheduler")
    assert " 1.10 [" in row
    assert not row.endswith("1.10 [1.10, 1.10]    regressed")


@pytest.mark.parametrize(
    ("provider", "settings", "told"),
    [
        ("kind", {"cores": 0.6, "memory": "1Gi", "machine_cpus": 2}, "(0.6 CPUs, 1Gi), machine of 2 CPUs"),
        ("kwok", {}, "(4 CPUs, 8Gi)"),
        (
            "kwok",
            {"pools": [{"nodes": 2, "cores": 1, "memory": "1Gi"}, {"nodes": 17, "cores": 8, "memory": "16Gi"}]},
            "(2 × 1 CPU, 1Gi; 17 × 8 CPUs, 16Gi)",
        ),
        (
            "external",
            {"cores": None, "allocatable": {f"node-{n}": {"millicpu": 3920, "memory_bytes": 8 << 30} for n in (0, 1)}},
            "(3.92 CPUs, 8Gi)",
        ),
        (
            "xen",
            {"cores": None, "memory": None, "guest_cores": 4, "guest_memory": "8Gi"},
            "(4 CPUs, 8Gi)",
        ),
    ],
)
def test_the_title_names_the_nodes_of_a_real_cluster(provider, settings, told):
    title, *rows = medians(on(provider, measured(), **settings))[1:]
    if rows[0] != "  carico":
        title = f"{title} {rows[0].strip()}"
    assert title == f"pi-2000 · 4 pods · 19 nodes of {provider} {told}"


def test_a_provider_that_does_not_say_how_large_its_nodes_are_is_named():
    runs = [msgspec.structs.replace(one, settings={"provider": "xen"}) for one in measured()]
    assert medians(runs)[1] == "pi-2000 · 4 pods · 19 nodes of xen"


def test_one_repetition_proves_nothing():
    table = medians([*compared(5, ("kube-scheduler",)), *compared(1, ("carico",))], "kube-scheduler")
    assert row_of(table, "carico").endswith(" inconclusive")


def test_a_single_scheduler_gets_no_verdict():
    row = row_of(medians(measured(repetitions=3)), "carico")
    assert re.search(r" \[[\d.]+, [\d.]+\]$", row), "the row ends with the PCT's interval"


def stolen(share):
    item = DataItem({"value": share}, "share", {"metric": METRIC})
    return [msgspec.structs.replace(one, data_items=[item]) for one in on("kind", measured())]


def test_what_others_took_of_the_machine_is_told():
    table = medians([*stolen(0.031), *stolen(0.17), *stolen(0.454)])
    assert "gave 3 to 45 % (median 17 %) of its CPU time to others" in " ".join(table)
    assert max(map(len, table)) <= 80


def test_what_a_hypervisor_took_of_its_guests_is_told():
    def of_guests(share):
        item = DataItem({"mean": share}, "share", {"metric": "cpu_stolen"})
        return [msgspec.structs.replace(one, data_items=[item]) for one in on("xen", measured())]

    table = medians([*of_guests(0.02), *of_guests(0.51)])
    assert "The nodes' hypervisor gave 2 to 51 % (median 26 %) of their CPU time to other guests." in " ".join(table)
    assert stolen_note(of_guests(0.04)) == []


def test_little_stolen_cpu_and_simulated_runs_get_no_note():
    assert stolen_note(stolen(0.04)) == []
    assert stolen_note(measured()) == []


def test_discarded_attempts_are_told():
    (kept,) = stolen(0.02)
    discarded = [DataItem({"value": 0.4}, "share", {"metric": f"discarded_{METRIC}", "attempt": n}) for n in "12"]
    note = " ".join(stolen_note([msgspec.structs.replace(kept, data_items=[*kept.data_items, *discarded])]))
    assert note.startswith(
        f"Attempts discarded because the machine's hypervisor gave 10 % or more to others: {kept.scheduler} 2."
    )
