"""Measures how long before a pod's start-up CPU burst each source reports the pod (thesis Fig. 4.8).

Starts sandboxes, one after the other, on a private containerd. The burst is the CPU time of the container runtime
(containerd, its shims, runc), which runs in a control group of its own, read every 2 ms. The burst begins when a
twentieth of this CPU time is spent; its peak is the costliest 10 ms.

- containerd: from the event that the sandbox was created.
- cgroup: from the pod's control group, which is made before the runtime is called, as the kubelet does. In between, the
  kubelet prepares volumes and network, which takes longer than starting the program ctr does here (the figure
  ctr_start_ms).
- cgroup_of_runc: from the pod's control group if only runc makes it, which is the worst case.

A positive lead means that the source reports the pod before the burst. The Kubernetes API's watch needs an API server
and is not measured here. Needs root and Debian's packages containerd, runc and busybox-static.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import parse, parser, report
from carico.errors import CaricoError
from carico.podevents.cgroups import CgroupEvents
from carico.podevents.containerd import ContainerdEvents
from carico.podevents.source import OnChange, PodEventSource
from tests.kits.private_containerd import PrivateContainerd, finished

_CGROUPS = Path("/sys/fs/cgroup")
_SAMPLE_EVERY_S = 0.002
_PEAK_S = 0.010
_BEGINS_AT = 0.05
_BEFORE_S, _AFTER_S = 0.05, 0.35
_WARM_UPS = 2


@dataclass(frozen=True)
class Start:
    """One pod's start: times in seconds on the monotonic clock."""

    asked_at: float
    burst_begins_at: float
    burst_peaks_at: float
    burst_cpu_s: float
    containerd_at: float
    cgroup_at: float


def main() -> int:
    """Measure, print and write the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--starts", type=int, default=40, help="pods started in each of the two ways (default: 40)")
    options = parse(arguments)
    if not 2 <= options.starts <= 10_000:
        arguments.error(f"--starts must be in [2, 10000], got {options.starts}")
    try:
        figures = measure(options.starts)
    except (CaricoError, OSError) as error:
        print(f"benchmarks.podevents: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    report("podevents", figures, options.json)
    return 0


def measure(starts: int) -> dict[str, float]:
    """Return medians and the quantiles 0.1 and 0.9 of all leads, milliseconds."""
    as_kubelet = _starts(starts, group_first=True)
    as_runc = _starts(starts, group_first=False)
    figures: dict[str, float] = {}
    leads = (
        ("containerd", [(start, start.containerd_at) for start in as_kubelet + as_runc]),
        ("cgroup", [(start, start.cgroup_at) for start in as_kubelet]),
        ("cgroup_of_runc", [(start, start.cgroup_at) for start in as_runc]),
    )
    print("                       lead over the beginning, ms      lead over the peak, ms")
    print("source                   q10   median      q90          q10   median      q90")
    for name, reported in leads:
        begins = 1e3 * np.array([start.burst_begins_at - at for start, at in reported])
        peaks = 1e3 * np.array([start.burst_peaks_at - at for start, at in reported])
        row = [*np.quantile(begins, [0.1, 0.5, 0.9]), *np.quantile(peaks, [0.1, 0.5, 0.9])]
        keys = [f"{name}_lead{of}_ms{which}" for of in ("", "_to_peak") for which in ("_q10", "", "_q90")]
        figures |= dict(zip(keys, map(float, row), strict=True))
        print(f"{name:20} {row[0]:8.1f} {row[1]:8.1f} {row[2]:8.1f}     {row[3]:8.1f} {row[4]:8.1f} {row[5]:8.1f}")
    figures["cgroup_latency_ms"] = _median_ms([start.cgroup_at - start.asked_at for start in as_kubelet])
    figures["ctr_start_ms"] = _median_ms([start.containerd_at - start.asked_at for start in as_kubelet + as_runc])
    figures["burst_cpu_ms"] = _median_ms([start.burst_cpu_s for start in as_kubelet + as_runc])
    figures["starts"] = float(len(as_kubelet + as_runc))
    print(
        f"{figures['starts']:.0f} starts; a burst is {figures['burst_cpu_ms']:.0f} ms of CPU time, "
        f"{figures['cgroup_latency_ms']:.2f} ms from the control group to its event, "
        f"{figures['ctr_start_ms']:.1f} ms from the start of ctr to containerd's event"
    )
    return figures


def _median_ms(seconds: list[float]) -> float:
    return 1e3 * float(np.median(seconds))


def _starts(number: int, group_first: bool) -> list[Start]:
    with (
        tempfile.TemporaryDirectory(prefix="ctd-") as folder,
        _Groups() as groups,
        PrivateContainerd(Path(folder)) as containerd,
    ):
        groups.account_for(containerd.pid)
        sources: list[PodEventSource] = [ContainerdEvents(containerd.socket), CgroupEvents(groups.pods)]
        reported: list[list[float]] = [[], []]
        try:
            for source, times in zip(sources, reported, strict=True):
                source.start(_append_starts(times))
            done = [_start(containerd, groups, group_first, reported) for _ in range(_WARM_UPS + number)]
        finally:
            for source in sources:
                source.close()
        return done[_WARM_UPS:]


def _append_starts(times: list[float]) -> OnChange:
    return lambda told: times.append(told.at) if told.change > 0 else None


def _start(containerd: PrivateContainerd, groups: _Groups, group_first: bool, reported: list[list[float]]) -> Start:
    pod = str(uuid.uuid4())
    for times in reported:
        times.clear()
    with _sampled(groups.usage_file) as samples:
        time.sleep(_BEFORE_S)
        asked_at = time.monotonic()
        if group_first:
            (groups.pods / "kubepods" / "besteffort" / f"pod{pod}").mkdir()
        finished(containerd.run(pod, pod, sandbox=True, cgroup=f"{groups.path_of(pod)}/{pod}"))
        time.sleep(max(asked_at + _AFTER_S - time.monotonic(), 0.0))
    containerd.remove(pod)
    groups.remove(pod)
    counts = [len(times) for times in reported]
    if counts != [1, 1]:
        raise CaricoError(f"containerd and cgroup must each report one pod, they reported {counts}")
    at, used = np.array(samples).T
    used = used - used[np.searchsorted(at, asked_at) - 1]
    ahead = np.searchsorted(at, at + _PEAK_S)
    whole = ahead < len(at)
    peak = int(np.argmax(used[ahead[whole]] - used[whole]))
    return Start(
        asked_at=asked_at,
        burst_begins_at=float(at[np.argmax(used >= _BEGINS_AT * used[-1])]),
        burst_peaks_at=float(at[peak]) + _PEAK_S / 2,
        burst_cpu_s=float(used[-1]),
        containerd_at=reported[0][0],
        cgroup_at=reported[1][0],
    )


@contextlib.contextmanager
def _sampled(usage_file: Path) -> Iterator[list[tuple[float, float]]]:
    """Collect (time, CPU seconds used) from a thread."""
    samples: list[tuple[float, float]] = []
    ended = threading.Event()

    def sample() -> None:
        with usage_file.open("rb", buffering=0) as file:
            while not ended.wait(_SAMPLE_EVERY_S):
                content = os.pread(file.fileno(), 128, 0)
                used = int(content) / 1e9 if content.strip().isdigit() else int(content.split()[1]) / 1e6
                samples.append((time.monotonic(), used))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


class _Groups:
    """The benchmark's control groups: one that accounts for the runtime, and a tree like a kubelet's for the pods."""

    def __init__(self) -> None:
        self._name = f"carico-podevents-{os.getpid()}"
        v2 = (_CGROUPS / "cgroup.controllers").exists()
        self._mounts = [_CGROUPS] if v2 else [folder for folder in _CGROUPS.iterdir() if folder.is_dir()]
        self._runtime = (_CGROUPS if v2 else _CGROUPS / "cpuacct") / f"{self._name}-runtime"
        self.pods = (_CGROUPS if v2 else _CGROUPS / "cpu") / self._name
        self.usage_file = self._runtime / ("cpu.stat" if v2 else "cpuacct.usage")

    def account_for(self, pid: int) -> None:
        """Count the CPU time of a process and of all its future children."""
        (self._runtime / "cgroup.procs").write_text(str(pid))

    def path_of(self, pod: str) -> str:
        """Return the path of the pod's group from the root of a hierarchy."""
        return f"/{self._name}/kubepods/besteffort/pod{pod}"

    def remove(self, pod: str) -> None:
        """Remove the pod's group from all hierarchies."""
        for mount in self._mounts:
            with contextlib.suppress(FileNotFoundError):
                (mount / self.path_of(pod)[1:]).rmdir()

    def __enter__(self) -> _Groups:
        self._runtime.mkdir()
        (self.pods / "kubepods" / "besteffort").mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime.rmdir()
        for mount in self._mounts:
            for folder in sorted((mount / self._name).rglob("*/"), reverse=True):
                folder.rmdir()
            with contextlib.suppress(FileNotFoundError):
                (mount / self._name).rmdir()


if __name__ == "__main__":
    sys.exit(main())
