"""``carico aggregator`` as a real process: configured, looked at, stopped."""

import http.client
import json
import signal
import subprocess
import sys
from contextlib import closing

import msgspec
import numpy as np
import pytest
import yaml

from carico.cli import main
from carico.model.subspace import Subspace
from carico.rpc.clients import AggregationClient
from carico.rpc.tls import ClientTls
from tests.kits.blocking import Blocking


@pytest.fixture
def configured(tmp_path, pki):
    def write(**changes):
        tls = msgspec.to_builtins(pki.server("aggregator"))
        file = tmp_path / "aggregator.yaml"
        file.write_text(yaml.safe_dump({"port": 0, "tls": tls, "logs": {"format": "json"}} | changes))
        return str(file)

    return write


@pytest.fixture
def process(configured):
    command = [sys.executable, "-m", "carico", "aggregator", "--config", configured()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def status(port, path):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_serves_until_it_is_told_to_stop_and_ends_with_code_0(process, pki):
    serving = json.loads(process.stderr.readline())
    assert serving["message"] == "serving"
    credentials = ClientTls(pki.node("node-a"))
    with Blocking(AggregationClient(f"localhost:{serving['port']}", credentials, "node-a", 10.0)) as client:
        client.exchange(Subspace.from_batch(np.full((2, 10), 0.5)))
    assert status(serving["status_port"], "/readyz") == status(serving["status_port"], "/healthz") == (200, "ok\n")
    assert "carico_aggregator_exchanges_total 1.0" in status(serving["status_port"], "/metrics")[1]
    process.send_signal(signal.SIGTERM)  # SIGINT does the same, see the extender's test
    assert process.wait(timeout=10) == 0
    assert [json.loads(line)["message"] for line in process.stderr] == ["stopped"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tls": None}, "nothing is encrypted"),
        ({"tls": None, "insecure_loopback": True, "host": "0.0.0.0"}, "`insecure_loopback` is for"),
        ({"tls": {"certificate": "no.crt", "key": "no.key", "ca": "no.crt"}}, "cannot read the TLS file no.crt"),
        ({"host": "256.256.256.256"}, "nothing can be served on 256.256.256.256:0"),
        ({"status": {"host": "256.256.256.256"}}, "status: nothing can be served on 256.256.256.256:0"),
        ({"resources": 0}, "resources: Expected `int` >= 1"),
    ],
)
@pytest.mark.usefixtures("logs_restored")
def test_a_configuration_that_cannot_work_is_refused_in_one_line(configured, capsys, changes, message):
    assert main(["aggregator", "--config", configured(**changes)]) == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("carico: ")
    assert message in error
