"""Random shapes of load, on which nothing was tuned: clusters and jobs that are drawn by number."""

from __future__ import annotations

import random

_CPU = "100m", "250m", "500m", "750m", "1000m", "2000m"


def random_shape(number: int, *, large: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return the scenario with this number as YAML, and kube-scheduler's requests.

    One to three jobs of pods that differ in CPU, memory, growth of memory, life and number, on 2 to 19 nodes of one
    size. No pod demands more than nine tenths of a node's cores or a fifth of its memory; a pod of a `large` shape
    takes up to two fifths of it, so that three of them are too many for a node. The first of the requests is that of
    the scenario: what the pods of each job demand.
    """
    draw = random.Random(number)
    nodes, cores = draw.choice((2, 3, 5, 8, 12, 19)), draw.choice((2, 4, 4, 8, 16))
    gib = cores * draw.choice((1, 2, 4))
    jobs, most_mib, jobs_number = [], 0, draw.choice((1, 1, 2, 3))
    for job in range(jobs_number):
        demand = min(draw.choice((0.1, 0.25, 0.5, 1, 1, 1.5, 2, 3)), cores * 0.9)
        life_s = draw.choice((1.5, 3, 6, 10, 20, 45, 90))
        mib = int(min(draw.choice((30, 60, 150, 300, 600, 1200)), gib * 1024 * 0.2))
        if large:
            mib = int(gib * 1024 * draw.choice((0.1, 0.2, 0.3, 0.4)))
        growth, waves = draw.choice((0, 0, 0, 0.3, 0.8)), draw.choice((0.3, 1, 2.5, 5))
        pods = max(2, min(int(nodes * cores / demand * waves / jobs_number), 200 if large else 700))
        start_s, variation = 0 if job == 0 else draw.choice((0, 10, 30)), draw.choice((0, 0.2, 0.5))
        request_mib, most_mib = int(mib * 1.1), max(most_mib, mib)
        jobs.append(
            f"{{name: j{job}, workload: task, pods: {pods}, start_s: {start_s}, "
            f"parameters: {{cores: {demand}, cpu_seconds: {demand * life_s:g}, memory: {mib}Mi, growth: {growth}, "
            f"variation: {variation}}}, requests: {{cpu: {demand}, memory: {request_mib}Mi}}}}"
        )
    name = f"large-{number}" if large else f"random-{number}"
    text = "\n".join(
        [
            f"name: {name}",
            f"description: {name}",
            f"cluster: {{nodes: {nodes}, cores: {cores}, memory: {gib}Gi}}",
            "jobs:",
            *(f"  - {job}" for job in jobs),
            "",
        ]
    )
    memory = int(most_mib * 1.1)
    fit = [cpu for cpu in _CPU if int(cpu[:-1]) < 1000 * cores]  # a node keeps a part of a core for itself
    return text, ("kube-scheduler", *(f"kube-scheduler:cpu={cpu},memory={memory}Mi" for cpu in fit))
