"""The workloads' programs in their images: they run, measure, and end at SIGTERM."""

import signal
from urllib.request import urlopen

import pytest

from workloads.commands import command_of

END_S = 10.0
"""More than the five seconds that a server may take to answer requests in flight."""
PORT = 8080
SERVICE_MS = 20


@pytest.fixture
def network(containers):
    from testcontainers.core.network import Network

    with Network() as network:
        yield network


def ended(container):
    """Return a program's output once it has ended successfully."""
    assert (container.wait(), container.logged()) == (0, container.logged())
    return container.logged()


def test_a_poller_measures_a_server_that_ends_cleanly(run, host, network):
    command = ["python3", "-m", "workloads.web"]
    serving = [*command, "serve", "--host", "0.0.0.0", "--port", str(PORT), "--service-ms", str(SERVICE_MS)]
    server = run("workloads", *serving, ports=(PORT,), network=network, network_aliases=["web"])
    server.wait_until("it listens", lambda: "listening" not in server.logged())
    with urlopen(f"http://{host}:{server.port(PORT)}/healthz", timeout=END_S) as healthy:
        assert healthy.read() == b"ok\n"
    asked = [*command, "poll", "--requests", "20", "--interval", "0.05", f"http://web:{PORT}/"]
    names, numbers = (line.split() for line in ended(run("workloads", *asked, network=network)).splitlines())
    measured = dict(zip(names, map(float, numbers), strict=False))
    assert (measured["count"], measured["errors"]) == (20, 0)
    # The server works that long for every request, so no latency can be shorter.
    assert SERVICE_MS <= measured["min"] <= measured["median"] <= measured["max"]
    code, took_s = server.end()
    assert (code, took_s < END_S) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "--port", "99999"), "port"),
        (("poll", "no-address"), "no-address"),
        (("poll", "--requests", "2", "http://127.0.0.1:1/"), "127.0.0.1:1"),
    ],
)
def test_wrong_arguments_of_server_and_client_are_reported(run, arguments, said):
    container = run("workloads", "python3", "-m", "workloads.web", *arguments)
    assert container.wait() != 0
    assert said in container.logged()
    assert "Traceback" not in container.logged()


def test_pi_is_computed_in_the_light_image(run):
    assert ended(run("workloads", "python3", "-m", "workloads.pi", "50")).startswith("3.14159265358979")


def test_stress_keeps_busy_for_the_given_time(run):
    parameters = {"cpu": 1, "vm": 1, "vm_bytes": "16Mi", "duration_s": 1}
    told = ended(run("workloads", *command_of("stress", parameters)))
    seconds = float(next(word for word in told.replace("=", " ").split() if word.replace(".", "", 1).isdigit()))
    assert 0.9 <= seconds <= parameters["duration_s"] + END_S


def test_the_network_can_be_trained_only_in_the_image_with_scikit_learn(run):
    small = ["--samples", "64", "--features", "16", "--layers", "1", "--width", "16", "--epochs", "1"]
    command = [*command_of("mlp", {"threads": 1}), *small]
    light = run("workloads", *command)
    assert light.wait() == 1
    assert "scikit-learn" in light.logged()
    assert "accuracy" in ended(run("workloads-sklearn", *command))


@pytest.mark.parametrize(
    ("program", "arguments", "begun"),
    [
        ("pi", ["100000"], lambda container: container.handles(signal.SIGTERM)),
        ("stress", ["--cpu", "1"], lambda container: container.processes > 1),
    ],
    ids=["pi", "stress"],
)
def test_programs_end_at_sigterm(run, program, arguments, begun):
    """The first process of a container has no default action for SIGTERM; without a handler it would run on."""
    container = run("workloads", "python3", "-m", f"workloads.{program}", *arguments)
    container.wait_until("it has begun", lambda: not begun(container))
    code, took_s = container.end()
    assert (code, took_s < END_S) == (128 + signal.SIGTERM, True)
