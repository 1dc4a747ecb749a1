"""CARICO's commands as real processes over mutual TLS on this machine: started, asked, looked at, killed."""

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

PATIENCE_S = 60.0
"""For what takes a second or two where a machine is not in others' hands."""


def wait_for(condition, about, patience_s=PATIENCE_S):
    """Return what `condition` finds; fail with what `about` says (a process: its log) if that takes too long."""
    end = time.monotonic() + patience_s
    is_late = False
    while not is_late:
        is_late = time.monotonic() >= end  # whatever held it up, it is looked at once more
        if found := condition():
            return found
        time.sleep(0.05)
    shown = about.logged() if isinstance(about, Process) else about() if callable(about) else about
    pytest.fail(f"not within {patience_s:g} s: {shown}")


class Process:
    """A Python program that runs in a folder and logs into a file there."""

    def __init__(self, folder, name, *arguments):
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._log_began = log.tell()
            self.process = subprocess.Popen([sys.executable, *arguments], cwd=folder, stdout=log, stderr=log)

    def logged(self):
        """What this run of it has logged."""
        return self.log.read_bytes()[self._log_began :].decode()

    def told(self, name):
        """Wait until the log says what `name` is, for example a port, and return the latest."""
        return wait_for(lambda: re.findall(rf" {name}=(\S+)", self.logged()), self)[-1]

    def metrics(self):
        """What /metrics says now."""
        return metrics_at(self.told("status_port"))

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def metrics_at(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE)}


def free_port():
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Cluster:
    """CARICO's processes by name, started from configurations; what ends is started again where it listened before."""

    def __init__(self, folder, pki, stale_after_s=5.0):
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self.running = {}
        self._pki = pki
        self._ports = {"aggregator": free_port(), "reports": free_port(), "extender": free_port()}
        self._configurations = {
            "aggregator": {"port": self._ports["aggregator"], "tls": self._tls(pki.server("aggregator"))},
            "extender": {
                "port": self._ports["extender"],
                "report_port": self._ports["reports"],
                "tls": self._tls(pki.server("extender")),
                "kubernetes": None,
                "journal": {"file": self.journal.name},
                "stale_after_s": stale_after_s,
            },
        }

    def agent(self, node, **settings):
        """The configuration of a node's agent that knows both servers."""
        return {
            "node": node,
            "aggregator": f"localhost:{self._ports['aggregator']}",
            "schedulers": [f"localhost:{self._ports['reports']}"],
            "tls": self._tls(self._pki.node(node)),
            "pod_events": {"source": "processes", "pattern": "^no process has such a command line"},
        } | settings

    def start_agent(self, **settings):
        self._configurations["agent"] = self.agent("node-a", **settings)
        return self.start("agent")

    def calls(self, server, result):
        """The name of an agent's metric."""
        to = {"aggregator": "aggregator", "extender": f"scheduler localhost:{self._ports['reports']}"}[server]
        return f'carico_agent_calls_total{{result="{result}",to="{to}"}}'

    def start(self, name):
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(self._configurations[name]))  # JSON is YAML
        self.running[name] = Process(self.folder, name, "-m", "carico", name, "--config", str(file))
        return self.running[name]

    def asking(self, timeout_s=5.0):
        """Return a connection to the extender as kube-scheduler has one, which opens by itself and is to be closed."""
        own = self._pki.server("kube-scheduler")
        context = ssl.create_default_context(cafile=own.ca)
        context.load_cert_chain(own.certificate, own.key)
        return http.client.HTTPSConnection("localhost", self._ports["extender"], context=context, timeout=timeout_s)

    def ask(self, uid, *nodes):
        with closing(self.asking()) as connection:
            return filter_answer(connection, uid, nodes)

    def close(self):
        for one in self.running.values():
            one.process.kill()
            one.process.wait()

    @staticmethod
    def _tls(files):
        return msgspec.to_builtins(files)


def filter_answer(connection, uid, nodes):
    """Ask where a pod shall go and return the answer; raises OSError or HTTPException if there is none."""
    pod = {"metadata": {"name": "pi", "namespace": "default", "uid": uid}}
    body = json.dumps({"Pod": pod, "NodeNames": nodes})
    connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise http.client.HTTPException(f"{answer.status}: {content.decode()}")
    return json.loads(content)
