"""CARICO beside a KWOK cluster: its extender and its kube-scheduler run as processes on this machine.

Everything is as in a deployment, except for the reports: the nodes have no telemetry, so `synthetic_reports` reports
for each node how many pods it has room for, or what it demands. The processes end with `close`, or with the thread that
started them.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import yaml
from prometheus_client.parser import text_string_to_metric_families

from carico.config import ExtenderConfig, JournalConfig, KubernetesConfig, StatusConfig, TlsFiles
from carico.deployment.authority import Authority
from testbed.errors import ClusterError
from testbed.programs.child_process import ChildProcess
from testbed.programs.find import found_programs
from testbed.real.kwok.synthetic_demand import NodeSize
from testbed.real.kwok.synthetic_reports import ReportsConfig, node_files
from testbed.real.waiting import wait_until

REPORTED_TIMEOUT_S = 120.0
DEFAULT_QPS = 50
"""kube-scheduler's own default."""
LIFTED_QPS = 1000
"""More calls a second than one machine can make."""
_HOST = "localhost"


class LocalCarico:
    """CARICO's processes by name: `extender`, `reports` and `kube-scheduler`.

    Parameters
    ----------
    kubeconfig : Path
        The cluster's kubeconfig.
    folder : Path
        For configurations, certificates and logs; made if it does not exist.
    slots : mapping of str to float
        How many pods each node has room for when none runs.
    qps : int, optional
        See `kube_scheduler_command`.
    sizes : mapping of str to NodeSize, optional
        The nodes' sizes, for the variant `demand`: nodes whose size is given report what they demand.
    **extender
        Settings of the extender, `variant` among them: see `ExtenderConfig`.
    """

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        slots: Mapping[str, float],
        qps: int = DEFAULT_QPS,
        *,
        sizes: Mapping[str, NodeSize] | None = None,
        **extender: Any,
    ) -> None:
        self._folder = folder
        self.slots = dict(slots)
        self._running: dict[str, ChildProcess] = {}
        authority = Authority(folder / "tls", datetime.now(UTC), valid_days=7, overwrite=True)
        authority.make_ca()
        own = authority.make_server("kube-scheduler", [_HOST])
        for node in slots:
            authority.make_node(node)
        served = authority.make_server("extender", [_HOST])
        ca = str(folder / "tls" / "ca.crt")
        # Chosen once, because an extender that is started again must listen where it did before.
        port, self.report_port, self._status_port = _free_ports(3)
        settings = ExtenderConfig(
            port=port,
            report_port=self.report_port,
            tls=TlsFiles(str(served), str(served.with_suffix(".key")), ca),
            kubernetes=KubernetesConfig(str(kubeconfig)),
            until_counted=False,  # as the thesis's variants are simulated
            journal=JournalConfig(str(folder / "journal.jsonl")),
            status=StatusConfig(port=self._status_port),
        )
        reports = ReportsConfig(
            f"{_HOST}:{self.report_port}", str(kubeconfig), str(folder / "tls"), dict(slots), dict(sizes or {})
        )
        asked = {
            "urlPrefix": f"https://{_HOST}:{port}",
            "tlsConfig": {"certFile": str(own), "keyFile": str(own.with_suffix(".key")), "caFile": ca},
        }
        extender_file = self._written("extender.yaml", msgspec.to_builtins(settings) | extender)
        reports_file = self._written("reports.yaml", msgspec.to_builtins(reports))
        self._commands = {
            "extender": [sys.executable, "-m", "carico", "extender", "--config", extender_file],
            "reports": [sys.executable, "-m", "testbed.real.kwok.synthetic_reports", reports_file],
            "kube-scheduler": kube_scheduler_command(kubeconfig, folder / "kube-scheduler.yaml", asked, qps),
        }

    def open(self) -> None:
        """Start all processes, and wait until every node has reported to the extender.

        Raises
        ------
        ClusterError
            If a process ends, or the wait takes too long.
        """
        for name in self._commands:
            self.start(name)
        self.wait_until_reported()

    def start(self, name: str) -> ChildProcess:
        """Start a process, or start it anew, and return it."""
        self._running[name] = ChildProcess(self._commands[name], self._folder / f"{name}.log")
        return self._running[name]

    def process(self, name: str) -> ChildProcess:
        """Return a process that was started."""
        return self._running[name]

    def close(self) -> None:
        """End all processes."""
        while self._running:
            self._running.popitem()[1].end()

    def node_files(self, node: str) -> TlsFiles:
        """Return a node's certificate, key and CA."""
        return node_files(self._folder / "tls", node)

    def wait_until_reported(self) -> None:
        """Wait until the extender has a fresh report of every node; see `wait_until`."""

        def lacking() -> str:
            for process in self._running.values():
                process.require_alive()
            fresh = {node for node, told in self.nodes().items() if not told["stale"]}
            silent = sorted(set(self.slots) - fresh)
            return f"{len(silent)} have not, for example {silent[0]}" if silent else ""

        wait_until(f"{len(self.slots)} nodes have reported to the extender", lacking, REPORTED_TIMEOUT_S)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return what the extender shows about every node that it knows; see `nodes` of the variant's extender."""
        page = self._page("/nodes")
        return {one["node"]: one for one in json.loads(page)["nodes"]} if page else {}

    def known(self) -> dict[str, float | None]:
        """Return the last Pod-Capacity of every node that the extender knows; None for a report that is too old."""
        return {node: None if told["stale"] else told["pod_capacity"] for node, told in self.nodes().items()}

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric of the extender; 0 if the extender does not have it or does not answer."""
        families = text_string_to_metric_families(self._page("/metrics"))
        samples = (sample for family in families for sample in family.samples)
        return next((one.value for one in samples if one.name == name and one.labels == labels), 0.0)

    def _page(self, path: str) -> str:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self._status_port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
        return ""

    def _written(self, name: str, configuration: Mapping[str, Any]) -> str:
        file = self._folder / name
        file.write_text(yaml.safe_dump(dict(configuration)), encoding="utf-8")
        return str(file)


def kube_scheduler_command(
    kubeconfig: Path, file: Path, extender: Mapping[str, Any] | None = None, qps: int = DEFAULT_QPS
) -> list[str]:
    """Return the command that runs kube-scheduler with CARICO's shipped configuration, which is written to a file.

    Parameters
    ----------
    kubeconfig : Path
    file : Path
    extender : mapping, optional
        The extender's address and TLS files, as fields of the configuration; without it kube-scheduler runs alone.
    qps : int, optional
        Limit of API calls a second; bursts may have twice as many. A pod takes one call and an Event, so the default
        limits the binding of a backlog to 50 pods a second.

    Raises
    ------
    ClusterError
        If there is no kube-scheduler.
    """
    program = found_programs(["kube-scheduler"]).get("kube-scheduler")
    if program is None:
        raise ClusterError("there is no kube-scheduler: build it with carico-testbed images programs")
    shipped = (files("carico") / "manifests" / "kube-scheduler.yaml").read_text(encoding="utf-8")
    configuration = yaml.safe_load(shipped)
    configuration["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": qps, "burst": 2 * qps}
    configuration["leaderElection"] = {"leaderElect": False}  # there is only one
    shipped_extender = configuration.pop("extenders")[0]
    if extender is not None:
        configuration["extenders"] = [shipped_extender | extender]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    return [str(program), f"--config={file}", "--secure-port=0"]


def kube_scheduler_alone(kubeconfig: Path, folder: Path, qps: int = DEFAULT_QPS) -> ChildProcess:
    """Start a kube-scheduler for pods that name CARICO as their scheduler, but without CARICO's extender."""
    command = kube_scheduler_command(kubeconfig, folder / "kube-scheduler-alone.yaml", qps=qps)
    return ChildProcess(command, folder / "kube-scheduler-alone.log")


def _free_ports(number: int) -> list[int]:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return [port, *(_free_ports(number - 1) if number > 1 else ())]
