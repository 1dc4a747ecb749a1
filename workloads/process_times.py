"""The times of a program's own process, and the text in which it prints them; the testbed reads them from pods' logs.

The Kubernetes API gives the start and the end of a container in whole seconds, and late.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def began_unix_s() -> float:
    """Return when this process began, seconds since 1970, to a hundredth of a second."""
    stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    fields = stat.rpartition(")")[2].split()  # the command's name, in parentheses, may contain anything
    since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s)


def printed_times() -> str:
    """Return the process's CPU time until now, its start, and now, as text."""
    cpu_s, began_s = time.process_time(), began_unix_s()
    return f"cpu_s={cpu_s:.3f} began_unix_s={began_s:.3f} ended_unix_s={time.time():.3f}"
