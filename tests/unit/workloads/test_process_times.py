"""A process knows when it began, and prints its times as the testbed reads them."""

import subprocess
import sys
import time

import pytest

from testbed.real.program_pods import printed_times


def test_a_process_prints_when_it_began_and_ended_and_its_cpu_time():
    code = "from workloads.process_times import printed_times; sum(range(10**6)); print(printed_times())"
    before = time.time()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = time.time()
    printed = printed_times(done.stdout)
    assert printed is not None
    tick_s = 0.02  # the kernel dates processes in hundredths of a second, and both clocks are read one after the other
    assert before - tick_s <= printed.began_unix_s <= printed.ended_unix_s <= after + tick_s
    assert 0 < printed.cpu_s <= printed.ended_unix_s - printed.began_unix_s + tick_s


@pytest.mark.parametrize(
    "log", ["", "3.14159\n", "cpu_s=1.5 wall_s=2.0\n", "cpu_s=1.5 began_unix_s=x ended_unix_s=2.0"]
)
def test_a_log_without_times_has_none(log):
    assert printed_times(log) is None
