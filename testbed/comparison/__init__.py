"""Comparing measurements: how uncertain a figure is, how two schedulers differ, and which differences count."""

USUAL = ("job_completion_time:+5%", "pod_completion_time:mean:+5%", "pod_outcome:oom_killed:+0")
"""The conditions of a gate that names none; see `testbed.comparison.conditions`."""
LEAST = 3
"""With fewer repetitions of either side there is no interval, and nothing is concluded."""


def too_few(repetitions: int) -> str:
    """Return why that many repetitions can give no verdict; an empty text if they can.

    Examples
    --------
    >>> too_few(1), too_few(5)
    ('inconclusive: n too small, 1 of 3', '')
    """
    return "" if repetitions >= LEAST else f"inconclusive: n too small, {repetitions} of {LEAST}"
