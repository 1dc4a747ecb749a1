"""`python -m workloads.traces`: the result on standard output, a summary on standard error."""

import os
import subprocess
import sys

import pytest
import yaml

from workloads.scenario import load_scenario
from workloads.traces.azure import noise_of, read_noise, share_left
from workloads.traces.cli import main

ROWS = [
    "a,6000,12288,1,460,,LS,Running,1000,1500,1010",
    "b,6000,12288,1,460,,LS,Succeeded,1200,1300,1200",
    "c,2000,1024,0,0,,BE,Failed,1300,1400,1300",
    "d,2000,1024,0,0,,BE,Pending,1350,1400,",
    "e,32000,1024,0,0,,BE,Running,1400,1500,1400",
]


class TestAlibaba:
    def test_the_yaml_is_a_scenario(self, pod_file, node_file, tmp_path, capsys):
        nodes = node_file("n1,16000,65536,0,", "n2,16000,65536,2,P100", "n3,96000,393216,8,G2")
        arguments = [
            "alibaba",
            pod_file(*ROWS),
            "--nodes",
            nodes,
            "--node-count",
            2,
            "--time-scale",
            10,
            "--usage",
            0.5,
        ]
        assert main([str(argument) for argument in arguments]) == 0
        told = capsys.readouterr()
        path = tmp_path / "scenario.yaml"
        path.write_text(told.out)
        scenario = load_scenario(str(path))
        assert {job.name: job.pods for job in scenario.jobs} == {"pods-6000m-12288mi": 2, "pods-2000m-1024mi": 1}
        assert scenario.cluster.node_names == ["16c-65536mi-0", "16c-65536mi-1"]
        assert told.err.splitlines() == [
            f"{tmp_path / 'pods.csv'}: 5 pods, 3 taken, as 2 jobs on 2 nodes",
            "left out: 1 never ran",
            "left out: 1 request more than 85% of every node",
            "GPUs are ignored: 2 of the pods requested some",
        ]

    def test_a_window_and_a_number(self, pod_file, capsys):
        assert main(["alibaba", str(pod_file(*ROWS)), "--from-s", "1100", "--to-s", "1400", "--pods", "1"]) == 0
        (job,) = yaml.safe_load(capsys.readouterr().out)["jobs"]
        assert (job["name"], job["pods"]) == ("pods-6000m-12288mi", 1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--from-s", "9999"], "no pod created from 9999 s on and before inf s can be replayed"),
            (["--node-count", "3"], "give --nodes, too"),
            (["--usage", "-1"], "usage must be more than 0"),
            (["--nodes", "missing.csv"], "cannot read missing.csv"),
        ],
    )
    def test_errors_are_reported_and_nothing_is_printed(self, pod_file, capsys, arguments, message):
        assert main(["alibaba", str(pod_file(*ROWS)), *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert message in told.err

    @pytest.mark.parametrize("pods", ["0", "-1", "many", "1.5"])
    def test_a_number_of_pods_is_a_number(self, pods, capsys):
        with pytest.raises(SystemExit) as end:
            main(["alibaba", "pods.csv", "--pods", pods])
        assert end.value.code == 2
        assert f"{pods!r} is not a whole number from 1 to 1000000" in capsys.readouterr().err


class TestAzure:
    def test_the_settings_are_those_of_the_runs(self, tmp_path, capsys):
        path = tmp_path / "noise.csv"
        rows = [f"{100 + vm + run % 3},30,2024-01-{run + 1:02d} 00:00:00,{vm}" for vm in (0, 20) for run in range(12)]
        path.write_text("\n".join(["value,runtime,starttime,VM_id", *rows]))
        assert main(["azure", str(path)]) == 0
        told = capsys.readouterr()
        noise = noise_of(read_noise(path))
        settings = {"node_speed_variation": noise.between_vms, "speed_noise": noise.over_time / share_left(30.0)}
        expected = [f"--set {name}={value:.3g}" for name, value in settings.items()]
        assert told.out == " ".join([*expected, "--set speed_noise_s=10\n"])
        assert f"{path}: 24 runs on 2 VMs" in told.err

    def test_unknown_noise_gives_no_setting(self, tmp_path, capsys):
        path = tmp_path / "noise.csv"
        path.write_text(
            "value,runtime,starttime,VM_id\n90,30,2024-01-01 00:00:00,0\n100,30,2024-01-01 00:00:00,1\n"
            "110,30,2024-01-01 00:00:00,2\n"
        )
        assert main(["azure", str(path)]) == 0
        told = capsys.readouterr()
        assert told.out == "--set node_speed_variation=0.1\n"
        assert "over time: unknown" in told.err

    def test_a_misspelt_command_is_told_which_one_was_meant(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            main(["alibab", "pods.csv"])
        assert "invalid choice: 'alibab' " in (error := capsys.readouterr().err)
        assert error.endswith(", did you mean 'alibaba'?\n")

    def test_it_is_a_program(self):
        done = subprocess.run(
            [sys.executable, "-m", "workloads.traces", "azure", "missing.csv"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("workloads.traces: cannot read missing.csv: ")
