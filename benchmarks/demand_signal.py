"""Measures the error of the signal that the variant `demand` learns from, the threads that run or wait for a CPU.

Real programs run, with up to two threads per CPU. The true value is the kernel's account of the programs' own threads
(schedstat: time on a CPU and in its queue). The signal is CPUs x (utilisation + pressure) of the whole machine, in
intervals of half a second, less its value before the programs started. With --quota the programs run in a control group
with that many CPUs, as in a node that is a container, and the signal is the group's. The machine must do nothing else.
Where a hypervisor steals CPU time meanwhile, the last column says how much: the account of a thread that "runs" on a
stolen CPU goes on, and so does the signal.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.common import parse, parser, run
from carico.clock import SystemClock
from carico.telemetry.cgroup import CgroupSource
from carico.telemetry.counters import telemetry_between
from carico.telemetry.procfs import ProcfsSource
from carico.telemetry.source import SizedSource

STEP_S = 0.5
SETTLE_S = 2.0
SECONDS = 8.0
PORT = 18_080
_CONTROLLERS = ("cpu", "cpuacct", "memory", "unified")
PROGRAMS: dict[str, tuple[str, ...]] = {
    "pi": ("workloads.pi", "--quiet", "1000000"),
    "stress": ("workloads.stress", "--cpu", "1", "--timeout", "600"),
    "half": ("workloads.stress", "--cpu", "1", "--cpu-load", "50", "--timeout", "600"),
    "mlp": ("workloads.mlp", "--threads", "1"),
    "server": ("workloads.web", "serve", "--service-ms", "10"),
}
"""The programs that pods run; `half` is busy half of the time, and a server is asked 20 times a second."""


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--quota", type=float, metavar="CPUS", help="run in a control group with this many CPUs")
    arguments.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="how long to measure each setting (default: 8)"
    )
    arguments.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), help="default: all")
    options = parse(arguments)
    if options.quota is not None and not 0.1 <= options.quota <= (os.cpu_count() or 1):
        arguments.error(f"--quota must be in [0.1, {os.cpu_count()}], got {options.quota}")
    return run("demand_signal", lambda: measure(options.programs, options.seconds, options.quota), options.json)


def measure(programs: Sequence[str], seconds: float, quota: float | None) -> dict[str, float]:
    """Return for every program the largest error of the mean signal, and the noise of an interval, both in cores."""
    figures = {}
    with ExitStack() as opened:
        group = None if quota is None else opened.enter_context(_group(quota))
        source: SizedSource = (
            opened.enter_context(ProcfsSource())
            if group is None
            else opened.enter_context(CgroupSource(group=group, clock=SystemClock()))
        )
        source.read()
        cpus = source.cpus()
        print(f"{cpus:g} CPUs")
        print("| program | pods | threads that run or wait | signal | error | noise of half a second | stolen |")
        print("|---|---|---|---|---|---|---|")
        for program in programs:
            before = statistics.mean(_signals(source, cpus, seconds)[0])
            errors, noises = [], []
            for pods in range(1, max(round(2 * cpus), 2) + 1):
                with _running(program, pods, group) as processes:
                    time.sleep(SETTLE_S)
                    stolen, total = _stolen()
                    signals, truth = _signals(source, cpus, seconds, processes)
                    share = (_stolen()[0] - stolen) / (_stolen()[1] - total)
                signal, noise = statistics.mean(signals) - before, statistics.stdev(signals)
                errors.append(signal - truth)
                noises.append(noise)
                print(
                    f"| {program} | {pods} | {truth:.2f} | {signal:.2f} | {signal - truth:+.2f} | {noise:.2f} "
                    f"| {share:.0%} |",
                    flush=True,
                )
            figures[f"{program}:worst_error"] = max(errors, key=abs)
            figures[f"{program}:noise"] = statistics.mean(noises)
    return figures


def _signals(
    source: SizedSource, cpus: float, seconds: float, processes: Sequence[subprocess.Popen[bytes]] = ()
) -> tuple[list[float], float]:
    """Return the signal of every interval, and the mean number of threads of the processes that ran or waited."""
    last = source.read()
    began, before = time.monotonic(), _scheduled_ns(processes)
    signals = []
    while time.monotonic() < began + seconds:
        time.sleep(STEP_S)
        reading = source.read()
        seen = telemetry_between(last, reading)
        signals.append(cpus * (float(seen.cpu_utilisation) + float(seen.cpu_pressure)))
        last = reading
    return signals, (_scheduled_ns(processes) - before) / 1e9 / (time.monotonic() - began)


def _scheduled_ns(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return how long the threads of processes and of their children have run and waited for a CPU, nanoseconds."""
    total = 0
    for process in processes:
        for pid in [process.pid, *_children(process.pid)]:
            for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                ran, waited, _ = schedstat.read_text(encoding="ascii").split()
                total += int(ran) + int(waited)
    return float(total)


def _stolen() -> tuple[int, int]:
    """Return the CPU time that the hypervisor has taken from this machine, and all CPU time, in clock ticks."""
    times = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]]
    return times[7], sum(times)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in found] + [grand for child in found for grand in _children(int(child))]


@contextmanager
def _running(program: str, pods: int, group: str | None) -> Iterator[list[subprocess.Popen[bytes]]]:
    python = (sys.executable, "-m")
    commands = [(*python, *PROGRAMS[program])] * pods
    if program == "server":  # each with a client, which counts as a part of the pod
        commands = [(*commands[0], "--port", f"{PORT + pod}") for pod in range(pods)]
        commands += [
            (
                *python,
                "workloads.web",
                "poll",
                f"http://127.0.0.1:{PORT + pod}",
                "--interval",
                "0.05",
                "--duration",
                "600",
            )
            for pod in range(pods)
        ]
    # The shell enters the group before it becomes the program.
    enter = "".join(f"echo $$ > /sys/fs/cgroup/{each}/{group}/cgroup.procs; " for each in _CONTROLLERS if group)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            ("/bin/sh", "-c", f'{enter}exec "$@"', "sh", *command),
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            os.killpg(process.pid, 9)
            process.wait()


@contextmanager
def _group(quota: float) -> Iterator[str]:
    """Make a control group with a quota in the hybrid hierarchy, and remove it afterwards."""
    name = f"carico-{os.getpid()}"
    folders = [Path("/sys/fs/cgroup", controller, name) for controller in _CONTROLLERS]
    try:
        for folder in folders:
            folder.mkdir()
        (folders[0] / "cpu.cfs_quota_us").write_text(f"{round(100_000 * quota)}")
        yield name
    finally:
        time.sleep(SETTLE_S)  # until the kernel has removed the processes that were killed
        for folder in folders:
            if folder.exists():
                folder.rmdir()


if __name__ == "__main__":
    sys.exit(main())
