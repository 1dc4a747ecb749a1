"""Agent, aggregation server and extender as real processes, over mutual TLS, on this machine."""

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import closing

import msgspec
import pytest

pytestmark = pytest.mark.machine

DEADLINE_S = 20.0


class Process:
    """A process of CARICO, started from a configuration; its log tells where it listens."""

    def __init__(self, folder, command, config):
        self.command = command
        self.file = folder / f"{command}.yaml"
        self.file.write_text(json.dumps(config))  # JSON is YAML
        self.log = folder / f"{command}.log"
        with self.log.open("ab") as log:
            program = [sys.executable, "-m", "carico", command, "--config", str(self.file)]
            self.process = subprocess.Popen(program, cwd=folder, stdout=log, stderr=log)

    def logged(self, name):
        """Wait until the log says what `name` is, for example a port."""
        return wait_for(lambda: re.findall(rf" {name}=(\S+)", self.log.read_text()), self)[-1]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


def wait_for(condition, about):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    shown = about.log.read_text() if isinstance(about, Process) else about
    pytest.fail(f"not within {DEADLINE_S:g} s; the log says: {shown}")


def free_port():
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def cluster(tmp_path, pki):
    """Start the three processes; returns them by command, and how to restart one and to ask the extender."""
    ports = {"aggregator": free_port(), "reports": free_port(), "extender": free_port()}
    configurations = {
        "aggregator": {"port": ports["aggregator"], "tls": msgspec.to_builtins(pki.server("aggregator"))},
        "extender": {
            "port": ports["extender"],
            "report_port": ports["reports"],
            "tls": msgspec.to_builtins(pki.server("extender")),
            "kubernetes": None,
            "journal": {"file": "journal.jsonl"},
        },
        "agent": {
            "node": "node-a",
            "aggregator": f"localhost:{ports['aggregator']}",
            "schedulers": [f"localhost:{ports['reports']}"],
            "tls": msgspec.to_builtins(pki.node("node-a")),
            "pod_events": {"source": "processes", "pattern": "^no process has such a command line"},
            "checkpoint": "state.json",
        },
    }
    running = {name: Process(tmp_path, name, config) for name, config in configurations.items()}

    def restart(name):
        running[name] = Process(tmp_path, name, configurations[name])

    def ask(uid):
        own = pki.server("kube-scheduler")
        context = ssl.create_default_context(cafile=own.ca)
        context.load_cert_chain(own.certificate, own.key)
        pod = {"metadata": {"name": "pi", "namespace": "default", "uid": uid}}
        with closing(http.client.HTTPSConnection("localhost", ports["extender"], context=context, timeout=5)) as client:
            body = json.dumps({"Pod": pod, "NodeNames": ["node-a", "node-b"]})
            client.request("POST", "/filter", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            assert answer.status == 200
            return json.loads(answer.read())

    yield running, restart, ask, tmp_path
    for one in running.values():
        one.process.kill()
        one.process.wait()


def metric(agent, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.logged('status_port')}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def calls(to, result):
    return f'carico_agent_calls_total{{result="{result}",to="{to}"}}'


def test_they_work_together_and_survive_each_other(cluster):
    running, restart, ask, folder = cluster
    agent = running["agent"]
    wait_for(lambda: metric(agent, calls("aggregator", "succeeded")), agent)

    # The node's report has reached the extender: it is judged by its capacity, the other by its silence.
    reasons = wait_for(
        lambda: (said := ask("u1")) and (said["NodeNames"] or "reserved" in str(said["FailedAndUnresolvableNodes"])),
        running["extender"],
    )
    assert reasons
    assert (folder / "journal.jsonl").read_text().count("\n") >= 1

    # Without the aggregation server the agent goes on; when it is back, exchanges are, too.
    steps = metric(agent, "carico_agent_steps_total")
    assert running["aggregator"].end() == 0
    wait_for(lambda: metric(agent, calls("aggregator", "failed")), agent)
    wait_for(lambda: metric(agent, "carico_agent_steps_total") > steps + 1, agent)
    before = metric(agent, calls("aggregator", "succeeded"))
    restart("aggregator")
    wait_for(lambda: metric(agent, calls("aggregator", "succeeded")) > before, agent)

    # All of them end as they should, and the agent leaves what it has learned.
    assert [running[name].end() for name in ("agent", "extender", "aggregator")] == [0, 0, 0]
    assert json.loads((folder / "state.json").read_text())["variant"] == "thesis-rebased"
