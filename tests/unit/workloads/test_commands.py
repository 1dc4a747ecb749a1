"""Command lines of workloads, as their programs take them."""

import subprocess
import sys

import pytest

from workloads.commands import command_of, needs_scikit_learn, server_commands
from workloads.demand import MODELS
from workloads.errors import InvalidDemand


@pytest.mark.parametrize(
    ("workload", "parameters", "arguments"),
    [
        ("pi", {}, ["--quiet", "2000"]),
        ("pi", {"digits": 1_000_000.0}, ["--quiet", "1000000"]),
        ("mlp", {"threads": 2, "samples": 300}, ["--threads", "2", "--samples", "300"]),
        (
            "stress",
            {"duration_s": 1.5, "cpu": 2, "cpu_load": 20},
            ["--timeout", "1.5", "--cpu", "2", "--cpu-load", "20"],
        ),
        (
            "stress",
            {"duration_s": 60, "vm": 1, "vm_bytes": "1Mi"},
            ["--timeout", "60", "--vm", "1", "--vm-bytes", "1048576"],
        ),
        (
            "stress",
            {"duration_s": 60, "vm": 1, "vm_bytes": 1048576.0},
            ["--timeout", "60", "--vm", "1", "--vm-bytes", "1048576"],
        ),
    ],
)
def test_a_program_gets_the_parameters_of_its_model(workload, parameters, arguments):
    assert command_of(workload, parameters) == ["python3", "-m", f"workloads.{workload}", *arguments]


@pytest.mark.parametrize(
    ("workload", "parameters", "said"),
    [
        ("task", {"cores": 1, "cpu_seconds": 5}, "workload task is a model without a program"),
        ("mlp", {"cpu_seconds": 10}, "its program has no option for cpu_seconds"),
        ("pi", {"digits": 10.5}, "digits must be a whole number for the program, got 10.5"),
        ("pi", {"digit": 10}, "does not take 'digit'"),
        ("sing", {}, "no workload is named 'sing'"),
    ],
)
def test_what_no_program_does_is_refused(workload, parameters, said):
    with pytest.raises(InvalidDemand, match=said):
        command_of(workload, parameters)


@pytest.mark.parametrize(
    ("workload", "parameters"), [("pi", {"digits": 5}), ("stress", {"duration_s": 0.05, "cpu": 1, "cpu_load": 10})]
)
def test_the_programs_take_them(workload, parameters):
    command = command_of(workload, parameters)
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=True)
    assert "cpu_s=" in done.stdout


def test_a_server_and_its_client_take_their_parameters():
    server, client = server_commands({"duration_s": 1.5, "rate_per_s": 8, "service_ms": 2, "threads": 3}, 8081)
    assert server[3:] == ["serve", "--host", "0.0.0.0", "--port", "8081", "--threads", "3", "--service-ms", "2"]
    assert client[3:] == ["poll", "http://127.0.0.1:8081/", "--each", "--interval", "0.125", "--duration", "1.5"]
    with pytest.raises(InvalidDemand, match="memory describes the model alone"):
        server_commands({"duration_s": 1, "memory": "1Gi"}, 8081)
    with pytest.raises(InvalidDemand, match="web is two programs, a server and its client"):
        command_of("web", {"duration_s": 1})


def test_one_workload_needs_scikit_learn():
    assert [workload for workload in MODELS if needs_scikit_learn(workload)] == ["mlp"]
