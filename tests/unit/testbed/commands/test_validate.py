"""`carico-testbed validate`: its checks before it touches a cluster, and its files."""

import msgspec
import pytest

from testbed.cli import main
from testbed.errors import ResultsError
from testbed.experiment.plan import Plan
from testbed.results.provenance import machine
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from testbed.validation.bursts import Burst, Idle, IdleNode
from testbed.validation.container_costs import ContainerCosts
from testbed.validation.figure import draw
from testbed.validation.validation import Measured, Validation, simulate, write_validation
from workloads.scenario import load_scenario

SCENARIO = load_scenario("pi-two-nodes")


@pytest.fixture
def measured():
    bursts = [
        Burst(pods, [1.0] * pods, [0.5] * pods, [1.5] * pods, 0.5, 5.0, 0.2, 4.0, 0.4, 0.4, 5.0, Idle(10.0, 0.5))
        for pods in (1, 4)
    ]
    costs = ContainerCosts(0.6, IdleNode(Idle(20.0, 1.0), 1.1, 0.14, 0.0025), bursts)
    settings = {"quota_of_cpus": 2, "warm_up_s": 10.0, **costs.settings()}
    return Measured(costs, settings)


@pytest.fixture
def runs():
    return [FakeProvider().run(SCENARIO, parse_spec("carico"), seed, {}) for seed in (1, 2)]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["isolation"], "does not print its CPU time"),
        (["--scheduler", "volcano"], "volcano"),
        (["--scheduler", "kube-scheduler:cpu=8"], "cpu"),
    ],
)
def test_an_impossible_validation_is_refused_before_anything_is_made(arguments, said, capsys):
    assert main(["validate", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_missing_prerequisites_are_listed_at_once(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")  # no program is asked for its version
    monkeypatch.setattr("testbed.validation.measured_node.os.geteuid", lambda: 1000)
    assert main(["validate", "--json", str(tmp_path / "missing" / "v.json"), "--figure", "figure.unknown"]) == 4
    said = capsys.readouterr().err
    for part in ("as root", "Docker", "missing", "figure.unknown: its name ends with none of .svg, .png, .pdf"):
        assert part in said
    assert not (tmp_path / ".carico").exists()


def test_the_simulated_cluster_is_like_the_measured_one(measured):
    plan = Plan(SCENARIO, (parse_spec("carico"), parse_spec("kube-scheduler")), 6, 7)
    found = simulate(measured, {"pi-two-nodes": [1.5, 1.6]}, plan, 1, None)
    assert [one.seed for one in found] == [7, 7]
    for one in found:
        assert one.settings["start_cpu_s"] == measured.settings["start_cpu_s"]
        assert one.settings["jobs"][0]["parameters"]["cpu_seconds"] == pytest.approx(1.55)
        assert all(taken is not None for taken in one.job_completion_time_s.values())


def test_the_file_has_all_measurements(measured, runs, tmp_path):
    file = tmp_path / "validation.json"
    write_validation(file, measured, runs, runs[:1])
    read = msgspec.json.decode(file.read_bytes(), type=Validation)
    assert read == Validation(measured, runs, runs[:1], machine())


def test_a_file_that_cannot_be_written_is_an_error(measured, runs, tmp_path):
    with pytest.raises(ResultsError, match="cannot write the validation"):
        write_validation(tmp_path / "missing" / "validation.json", measured, runs, runs)


def test_measurements_are_shown_in_80_columns(measured):
    lines = measured.table()
    assert max(map(len, lines)) <= 80
    assert " start_cpu_s=0.0625 " in " ".join(lines)


def test_the_figure_is_the_same_for_the_same_runs(runs, tmp_path):
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, runs, runs[:1])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(ResultsError, match="cannot write the figure"):
        draw(tmp_path / "missing" / "a.svg", runs, runs)


def test_as_json_everything_that_was_measured_is_printed_and_nothing_else(
    measured, runs, monkeypatch, capsys, tmp_path
):
    class Here(FakeProvider):
        def cluster(self):
            return None

    monkeypatch.setattr("testbed.real.provider.RealProvider", lambda *_: Here())
    monkeypatch.setattr("testbed.validation.measured_node.rights_problem", list)
    monkeypatch.setattr("testbed.validation.validation.measure", lambda *_, **__: measured)
    monkeypatch.setattr("testbed.validation.demands.measured_demands", lambda *_: {"pi-two-nodes": [1.5]})
    monkeypatch.setattr("testbed.validation.validation.simulate", lambda *_, **__: runs[:1])
    assert (
        main(
            [
                "validate",
                "pi-two-nodes",
                "--scheduler",
                "carico",
                "--repetitions",
                "2",
                "-o",
                "json",
                "--json",
                "v.json",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out.encode()
    assert printed == (tmp_path / "v.json").read_bytes()
    found = msgspec.json.decode(printed, type=Validation)
    assert (len(found.real), found.simulated) == (2, runs[:1])


def test_options_of_other_clusters_than_kinds_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["validate", "--kubeconfig", "mine"])
    assert "unrecognized arguments: --kubeconfig" in capsys.readouterr().err
