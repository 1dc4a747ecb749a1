"""Measures what an agent costs its node: CPU and memory of the process, with everything on.

A real agent samples this machine at 10 Hz and steps at 1 Hz; it exchanges with a real aggregation server and reports to
a real extender over mutual TLS, saves checkpoints and watches control groups. Its CPU time is read from /proc, so that
other load on the machine hardly matters.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.common import parse, parser, report
from carico.certs import Authority
from carico.config import (
    AgentConfig,
    AggregatorConfig,
    ExtenderConfig,
    JournalConfig,
    PodEventsConfig,
    TlsFiles,
)

SETTLE_S = 10.0
"""Imports and first connections, which are not what is asked for."""


def main() -> int:
    """Run the benchmark and return the exit code."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=300.0, metavar="S", help="how long (default: 300)")
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.seconds)
    for name, value in figures.items():
        print(f"{name:20}{value:>12.3f}")
    report("agent", figures, options.json)
    return 0


def measure(folder: Path, seconds: float) -> dict[str, float]:
    """Return CPU (percent of a core) and memory (MiB) of an agent that runs for so long."""
    authority = Authority(folder / "certs", datetime.now(UTC))
    authority.make_ca()
    for name in ("aggregator", "extender"):
        authority.make_server(name, ["localhost"])
    authority.make_node("node-a")

    def tls(name: str) -> TlsFiles:
        return TlsFiles(*(str(folder / "certs" / file) for file in (f"{name}.crt", f"{name}.key", "ca.crt")))

    # The kubelet's tree, as it is while no pod runs.
    (folder / "cgroup" / "kubepods" / "besteffort").mkdir(parents=True)
    (folder / "pods").mkdir()
    ports = [free_port() for _ in range(3)]
    configurations = {
        "aggregator": AggregatorConfig(port=ports[0], tls=tls("server-aggregator")),
        "extender": ExtenderConfig(
            port=ports[1],
            report_port=ports[2],
            tls=tls("server-extender"),
            kubernetes=None,
            journal=JournalConfig(file=str(folder / "journal.jsonl")),
        ),
        "agent": AgentConfig(
            node="node-a",
            aggregator=f"localhost:{ports[0]}",
            schedulers=(f"localhost:{ports[2]}",),
            tls=tls("node-node-a"),
            pod_events=PodEventsConfig(cgroup_root=str(folder / "cgroup"), pod_logs=str(folder / "pods")),
            checkpoint=str(folder / "state.json"),
        ),
    }
    with ExitStack() as running:
        processes = {}
        for command, config in configurations.items():
            file = folder / f"{command}.yaml"
            file.write_bytes(msgspec.json.encode(config))  # JSON is YAML
            program = [sys.executable, "-m", "carico", command, "--config", str(file)]
            processes[command] = running.enter_context(subprocess.Popen(program, stderr=subprocess.DEVNULL))
            running.callback(processes[command].terminate)
        time.sleep(SETTLE_S)
        agent = processes["agent"]
        if agent.poll() is not None:
            raise RuntimeError(f"the agent ended with exit code {agent.returncode}: run it by hand to see why")
        before = cpu_s(agent.pid)
        time.sleep(seconds)
        used = cpu_s(agent.pid) - before
        return {"agent_core_percent": 100 * used / seconds, "agent_rss_mib": rss_mib(agent.pid)}


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmRSS: this needs Linux")


if __name__ == "__main__":
    sys.exit(main())
