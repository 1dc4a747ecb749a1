"""Measures what an agent costs its node: CPU and memory of the whole process, and the CPU time of a sample.

Real agents of two variants sample this machine at 10 Hz, side by side. The agent of the thesis's variant steps at 1 Hz
and exchanges subspaces with a real aggregation server; the agent of `demand` steps at 2 Hz and reports every start and
end of a pod. Both report to real extenders over mutual TLS, save checkpoints and watch control groups. The figure is
the CPU time from the kernel, which other load on the machine hardly changes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import uuid
from collections import deque
from contextlib import ExitStack
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
    arguments.add_argument(
        "--seconds", type=float, default=300.0, metavar="S", help="how long to measure (default: 300)"
    )
    options = parse(arguments)
    if not 1 <= options.seconds <= 86_400:
        arguments.error(f"--seconds must be in [1, 86400], got {options.seconds}")
    return run("agent", lambda: samples() | measure(options.seconds), options.json)


def samples() -> dict[str, float]:
    """Return the CPU time of a sample, microseconds, with our reader and with psutil."""
    figures = telemetry.measure(telemetry.ROUNDS)
    return {name: figures[name] for name in ("sample_us", "sample_psutil_us")}


def measure(seconds: float) -> dict[str, float]:
    """Return CPU (percent of a core) and memory (MiB) of agents of two variants that run side by side.

    One agent of the thesis's variant runs on a node without pods. Another one, and one of the variant `demand`, run
    beside thirty pods; every second one pod ends and another starts.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = certificates(folder, "aggregator", "extender", nodes=3)
        idle, busy = _Kubelet(folder / "idle", pods=0), _Kubelet(folder / "busy", pods=30)
        places = (
            ("", "thesis-rebased", idle),
            ("_busy", "thesis-rebased", busy),
            ("_busy_demand", "demand", busy),
        )
        aggregator = {"port": 0, "tls": files["aggregator"]}
        extender = {
            "port": 0,
            "report_port": 0,
            "tls": files["extender"],
            "kubernetes": None,
            "journal": {"file": str(folder / "journal.jsonl")},
        }
        with ExitStack() as opened:
            exchanging = opened.enter_context(running(folder, "aggregator", aggregator))
            agents = {}
            for number, (suffix, variant, kubelet) in enumerate(places):
                own = folder / f"agent{suffix}"
                own.mkdir()
                reporting = opened.enter_context(running(own, "extender", extender | {"variant": variant}))
                agent = {
                    "node": f"node-{number}",
                    "schedulers": [f"localhost:{reporting['report_port']}"],
                    "tls": files[f"node-{number}"],
                    "pod_events": {"cgroup_root": str(kubelet.cgroup), "pod_logs": str(kubelet.logs)},
                    "checkpoint": str(own / "state.json"),
                    "variant": variant,
                }
                if variant != "demand":
                    agent["aggregator"] = f"localhost:{exchanging['port']}"
                started = opened.enter_context(running(own, "agent", agent))
                agents[suffix] = psutil.Process(int(str(started["pid"])))
            busy.churn(SETTLE_S)
            before = {suffix: process.cpu_times() for suffix, process in agents.items()}
            busy.churn(seconds)
            after = {suffix: process.cpu_times() for suffix, process in agents.items()}
            figures = {}
            for suffix, process in agents.items():
                used_s = sum(after[suffix][:2]) - sum(before[suffix][:2])
                figures[f"agent_core_percent{suffix}"] = 100 * used_s / seconds
                figures[f"agent_rss_mib{suffix}"] = process.memory_info().rss / 2**20
            return figures


class _Kubelet:
    """The control groups and folders of logs that a kubelet makes for its pods.

    Parameters
    ----------
    folder : Path
    pods : int
        How many pods run at any time.
    """

    def __init__(self, folder: Path, pods: int) -> None:
        self.cgroup, self.logs = folder / "cgroup", folder / "pods"
        (self.cgroup / "kubepods" / "besteffort").mkdir(parents=True)
        self.logs.mkdir()
        self._pods: deque[tuple[Path, Path]] = deque()
        for _ in range(pods):
            self._start()

    def churn(self, seconds: float) -> None:
        """Let time pass; every second a pod ends and another starts."""
        for _ in range(round(seconds)):
            time.sleep(1.0)
            if self._pods:
                for path in self._pods.popleft():
                    shutil.rmtree(path)
                self._start()

    def _start(self) -> None:
        uid = str(uuid.uuid4())
        logs = self.logs / f"default_pi-{uid[:5]}_{uid}"
        (logs / "pi").mkdir(parents=True)
        group = self.cgroup / "kubepods" / "besteffort" / f"pod{uid}"
        for container in ("sandbox", "pi"):
            (group / container).mkdir(parents=True)
        self._pods.append((group, logs))


if __name__ == "__main__":
    sys.exit(main())
