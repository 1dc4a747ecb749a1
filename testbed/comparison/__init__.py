"""Comparing measurements: how uncertain a figure is, how two schedulers differ, and which differences count."""

USUAL = ("job_completion_time:+5%", "pod_completion_time:mean:+5%", "pod_outcome:oom_killed:+0")
"""The conditions of a gate that names none; see `testbed.comparison.conditions`."""
LEAST = 3
"""With fewer repetitions of either side there is no interval, and nothing is concluded."""
