"""What a seed decides about a scenario: work and arrival of every pod, the same on every kind of cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.scenario import JobSpec, Scenario


@dataclass(frozen=True)
class WorkloadDraw:
    """A job with what was drawn for each of its pods, in the order of arrival."""

    job: JobSpec
    work: list[float]
    """CPU-seconds."""
    arrivals: list[float]
    """Seconds after the job's publication, ascending."""


def draw_workload(scenario: Scenario, seed: int) -> list[WorkloadDraw]:
    """Draw the pods of a scenario, each job from a stream of its own."""
    streams = np.random.SeedSequence(seed, spawn_key=(1,)).spawn(len(scenario.jobs))
    found = []
    for job, stream in zip(scenario.jobs, streams, strict=True):
        work = job.draw_work(np.random.default_rng(stream))
        arrivals = job.arrivals.times(job.pods, np.random.default_rng(stream.spawn(1)[0]))
        found.append(WorkloadDraw(job, work, arrivals))
    return found
