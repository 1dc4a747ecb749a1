"""The load on CPU and memory is what was asked for, and no process of it is left behind."""

import mmap
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from workloads import busy, stress

PROGRAM = [sys.executable, "-m", "workloads.stress"]
WITHOUT_PRCTL = [
    *(sys.executable, "-c"),
    "import sys; from workloads import crew, stress; crew._die_with_parent = lambda: None; sys.exit(stress.main())",
]


class FakeMachine:
    """Clocks of a machine that gives a thread a share of a core; it computes only when it looks at its CPU time."""

    def __init__(self, share):
        self.share, self.wall_s, self.cpu_s = share, 0.0, 0.0

    def monotonic(self):
        return self.wall_s

    def thread_time(self):
        self.cpu_s += 5e-5
        self.wall_s += 5e-5 / self.share
        return self.cpu_s

    def sleep(self, seconds):
        self.wall_s += seconds


@pytest.fixture
def machine(monkeypatch):
    def make(share):
        fake = FakeMachine(share)
        monkeypatch.setattr(stress, "time", fake)
        monkeypatch.setattr(busy, "time", fake)
        return fake

    return make


def times(count):
    """Be wanted so many times."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


@contextmanager
def running(*options, program=PROGRAM):
    with subprocess.Popen([*program, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def workers_of(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def private_bytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty"))


def figures(output):
    [line] = output.splitlines()
    return {name: float(value) for name, value in (field.split("=") for field in line.split())}


@pytest.mark.parametrize("share", [1, 0.5, 0.3])
def test_a_cpu_worker_uses_its_share_of_a_core_where_there_is_so_much(machine, share):
    fake = machine(share)
    stress.keep_busy(0.25, 0, times(100))
    assert fake.wall_s == pytest.approx(4, rel=1e-3)
    assert fake.cpu_s / fake.wall_s == pytest.approx(0.25, rel=0.01)


def test_a_cpu_worker_takes_what_there_is_and_does_not_ask_for_the_rest_later(machine):
    fake = machine(0.1)
    in_time = times(100)

    def free_after_two_seconds():
        fake.share = 0.1 if fake.wall_s < 2 else 1
        return in_time()

    stress.keep_busy(0.25, 0, free_after_two_seconds)
    assert fake.cpu_s == pytest.approx(2 * 0.1 + 2 * 0.25, rel=0.02)


def test_full_load_never_rests(machine):
    fake = machine(1)
    stress.keep_busy(1, 0, times(20))
    assert fake.cpu_s == pytest.approx(fake.wall_s, rel=0.01)


def test_a_memory_worker_says_how_much_it_holds(machine):
    machine(1)
    reports = []
    stress.hold_memory(40 * 2**20, reports.append, times(3))
    assert reports == [16 * 2**20, 32 * 2**20, 40 * 2**20]


def test_a_memory_worker_touches_again_with_at_most_a_hundredth_of_a_core(machine):
    fake = machine(0.5)
    stress.hold_memory(64 * 2**20, lambda _: None, times(4))
    fake.wall_s = fake.cpu_s = 0
    stress.hold_memory(10_000, lambda _: None, times(1001))
    assert fake.cpu_s <= 0.011 * fake.wall_s
    assert fake.wall_s <= 1.01 * 1000  # and often enough to stay resident, and to see that the parent is gone


def test_it_ends_when_the_time_is_over_and_says_what_it_used():
    finished = subprocess.run(
        [*PROGRAM, "--cpu=2", "--cpu-load=10", "--vm=3", "--vm-bytes=5000001", "--timeout=0.5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    seen = figures(finished.stdout)
    assert 0.5 <= seen["wall_s"] < 10
    assert 0 < seen["cpu_s"] < 2 * seen["wall_s"]
    assert seen["held_bytes"] == 5_000_001  # in all, to the byte


def test_memory_is_resident_and_shared_out(until):
    with running("--vm=3", "--vm-bytes=48Mi") as process:
        until(lambda: len(workers_of(process)) == 3)
        workers = workers_of(process)
        until(lambda: all(private_bytes(worker) >= 16 * 2**20 for worker in workers))
        assert sum(map(private_bytes, workers)) < (48 + 3 * 4) * 2**20
        process.terminate()
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (143, "")
    # A worker may have been ended after it wrote its last step and before it counted it.
    assert 0 < figures(output)["held_bytes"] <= 48 * 2**20
    assert not any(map(alive, workers))


def test_ctrl_c_ends_it_with_130(until):
    with running("--cpu=1") as process:
        until(lambda: workers_of(process))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (130, "")
    assert figures(output)["held_bytes"] == 0


@pytest.mark.parametrize("program", [PROGRAM, WITHOUT_PRCTL], ids=["kernel", "getppid"])
def test_workers_die_with_a_parent_that_is_killed(until, program):
    with running("--cpu=1", "--vm=1", "--vm-bytes=1Mi", program=program) as process:
        until(lambda: len(workers_of(process)) == 2)
        workers = workers_of(process)
        process.kill()
        process.wait()
        until(lambda: not any(map(alive, workers)))


def test_a_worker_that_is_killed_ends_all_with_a_message(until):
    with running("--cpu=2") as process:
        until(lambda: len(workers_of(process)) == 2)
        workers = workers_of(process)
        os.kill(int(workers[0]), signal.SIGKILL)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "a worker ended before its time (killed by SIGKILL); the machine or the container may be out of" in errors
    assert not any(map(alive, workers))


def test_a_worker_that_is_stopped_is_not_dead(until):
    with running("--cpu=1", "--timeout=0.5") as process:
        until(lambda: workers_of(process))
        os.kill(int(workers_of(process)[0]), signal.SIGSTOP)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_memory_that_the_system_refuses_is_one_message():
    program = (
        "import resource, sys; from workloads import stress; resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29));"
        "sys.exit(stress.main(['--vm=1', '--vm-bytes=1Gi']))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert "Cannot allocate memory" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert figures(finished.stdout)["held_bytes"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "there is nothing to do: give --cpu N, --vm N or both"),
        ("--timeout=5", "there is nothing to do"),
        ("--cpu=0", "'0' is not a whole number from 1 to 1024"),
        ("--cpu=1 --cpu-load=0", "'0' is not a whole number from 1 to 100"),
        ("--cpu=1 --cpu-load=101", "'101' is not a whole number from 1 to 100"),
        ("--vm=1 --cpu-load=50", "--cpu-load means nothing without workers: add --cpu N"),
        ("--cpu=1 --vm-bytes=1G", "--vm-bytes means nothing without workers: add --vm N"),
        ("--vm=1 --vm-bytes=lots", "'lots' is not a quantity"),
        ("--vm=1 --vm-bytes=4m", "4Mi was probably meant"),
        ("--vm=1 --vm-bytes=0", "--vm-bytes is 0 bytes"),
        ("--vm=9 --vm-bytes=1Ki", f"--vm-bytes is 1024 bytes, 9 workers hold {9 * mmap.PAGESIZE} or more"),
        ("--vm=1 --vm-bytes=1000Ti", f"this machine has {os.sysconf('SC_PHYS_PAGES') * mmap.PAGESIZE}: ask for less"),
        ("--cpu=1 --timeout=0", "'0' is not a number from 0.001 to 1e+08"),
        ("--cpu=1 --timeout=nan", "'nan' is not a number"),
        ("--cpu=1 --timeout=60s", "'60s' is not a number"),
    ],
)
def test_nonsense_is_wrong_usage(capsys, options, message):
    with pytest.raises(SystemExit) as exit_:
        stress.main(options.split())
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_runs_on_the_standard_library_alone():
    root = str(Path(stress.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {root!r}); from workloads import stress;"
        "sys.exit(stress.main(['--cpu=1', '--vm=1', '--timeout=0.001']))"
    )
    finished = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
