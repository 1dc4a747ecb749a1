"""Measures what an agent costs its node: CPU and memory of the whole process, and the CPU time of a sample.

A real agent samples this machine at 10 Hz and steps at 1 Hz; it exchanges subspaces with a real aggregation server and
reports to a real extender over mutual TLS, saves checkpoints and watches control groups. The figure is the agent's CPU
time from the kernel, which other load on the machine hardly changes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks import telemetry
from benchmarks.common import parse, parser, run
from benchmarks.nodes import certificates, running

SETTLE_S = 10.0
"""Time for imports and first connections, which are not measured."""


def main() -> int:
    """Run the benchmark and return the exit code."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=300.0, metavar="S", help="how long (default: 300)")
    options = parse(arguments)
    if not 1 <= options.seconds <= 86_400:
        arguments.error(f"--seconds must be in [1, 86400], got {options.seconds}")
    return run("agent", lambda: samples() | measure(options.seconds), options.json)


def samples() -> dict[str, float]:
    """Return the CPU time of a sample, microseconds, with our reader and with psutil."""
    figures = telemetry.measure(telemetry.ROUNDS)
    return {name: figures[name] for name in ("sample_us", "sample_psutil_us")}


def measure(seconds: float) -> dict[str, float]:
    """Return CPU (percent of a core) and memory (MiB) of an agent that runs for this time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = certificates(folder, "aggregator", "extender", nodes=1)
        # The kubelet's tree of a node without pods.
        (folder / "cgroup" / "kubepods" / "besteffort").mkdir(parents=True)
        (folder / "pods").mkdir()
        aggregator = {"port": 0, "tls": files["aggregator"]}
        extender = {
            "port": 0,
            "report_port": 0,
            "tls": files["extender"],
            "kubernetes": None,
            "journal": {"file": str(folder / "journal.jsonl")},
        }
        with (
            running(folder, "aggregator", aggregator) as exchanging,
            running(folder, "extender", extender) as reporting,
        ):
            agent = {
                "node": "node-0",
                "aggregator": f"localhost:{exchanging['port']}",
                "schedulers": [f"localhost:{reporting['report_port']}"],
                "tls": files["node-0"],
                "pod_events": {"cgroup_root": str(folder / "cgroup"), "pod_logs": str(folder / "pods")},
                "checkpoint": str(folder / "state.json"),
            }
            with running(folder, "agent", agent) as started:
                process = psutil.Process(int(str(started["pid"])))
                time.sleep(SETTLE_S)
                before = process.cpu_times()
                time.sleep(seconds)
                after = process.cpu_times()
                used_s = after.user + after.system - before.user - before.system
                return {
                    "agent_core_percent": 100 * used_s / seconds,
                    "agent_rss_mib": process.memory_info().rss / 2**20,
                }


if __name__ == "__main__":
    sys.exit(main())
