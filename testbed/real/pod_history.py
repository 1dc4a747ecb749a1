"""The lives of a run's pods as a watch shows them, on the watching process's clock.

The API's times are whole seconds. So every change is dated by its arrival here. If the container's status says that it
happened more than a second earlier, because the kubelet or the watch was late, then the latest time that the status
allows counts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from testbed.real.jobs import JOB_LABEL, OOM_EXIT_CODE
from testbed.results.schema import Outcome, PodResult

_RESOLUTION_S = 1.0
"""Resolution of times in the API."""


@dataclass
class _Life:
    name: str
    job: str
    created_s: float
    node: str | None = None
    scheduled_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    outcome: Outcome = "unfinished"


class PodHistory:
    """Collects the lives of pods; one thread may report changes while another reads.

    Parameters
    ----------
    began_at : float
        When the scenario began, seconds since 1970. The cluster's nodes must have the same time: events on a node whose
        clock is behind are dated too early.
    """

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self._lives: dict[str, _Life] = {}
        self._lock = threading.Lock()

    def changed(self, pod: Mapping[str, Any], at_s: float) -> None:
        """Record a pod's present state.

        Parameters
        ----------
        pod : mapping
            The API's JSON.
        at_s : float
            When the watch reported it, seconds since the scenario began.
        """
        metadata, status = pod["metadata"], pod.get("status") or {}
        job = (metadata.get("labels") or {}).get(JOB_LABEL)
        if job is None:
            return
        node = (pod.get("spec") or {}).get("nodeName")
        state = next((one.get("state") or {} for one in status.get("containerStatuses") or ()), {})
        ended = state.get("terminated") or {}
        phase = status.get("phase")
        with self._lock:
            life = self._lives.get(metadata["uid"])
            if life is None:
                created = self._at_latest(metadata.get("creationTimestamp"), at_s)
                life = self._lives[metadata["uid"]] = _Life(metadata["name"], job, created)
            if node and life.scheduled_s is None:
                bound = _condition(status, "PodScheduled").get("lastTransitionTime")
                life.node, life.scheduled_s = node, max(self._at_latest(bound, at_s), life.created_s)
            if life.started_s is None and (phase == "Running" or state.get("running") or ended):
                began = (state.get("running") or ended).get("startedAt")
                life.started_s = max(self._at_latest(began, at_s), life.scheduled_s or life.created_s)
            if life.finished_s is None and phase in ("Succeeded", "Failed"):
                life.finished_s = max(self._at_latest(ended.get("finishedAt"), at_s), life.started_s or life.created_s)
                life.outcome = "succeeded" if phase == "Succeeded" else _why_failed(status, ended)

    def deleted(self, uid: str, at_s: float) -> None:
        """Record that a pod is gone; a pod that had a node and had not finished counts as evicted."""
        with self._lock:
            life = self._lives.get(uid)
            if life is not None and life.finished_s is None and life.node is not None:
                life.finished_s, life.outcome = at_s, "evicted"

    def succeeded(self, job: str) -> int:
        """Return how many pods of a job have succeeded."""
        with self._lock:
            return sum(life.job == job and life.outcome == "succeeded" for life in self._lives.values())

    @property
    def bound(self) -> int:
        """Number of pods that have a node and have not failed."""
        with self._lock:
            return sum(
                life.node is not None and life.outcome in ("succeeded", "unfinished") for life in self._lives.values()
            )

    @property
    def finished(self) -> int:
        """Number of pods that have succeeded."""
        with self._lock:
            return sum(life.outcome == "succeeded" for life in self._lives.values())

    @property
    def failures(self) -> int:
        """Number of pods that have ended without success."""
        with self._lock:
            return sum(life.outcome not in ("succeeded", "unfinished") for life in self._lives.values())

    def results(self, jobs: Sequence[str]) -> list[PodResult]:
        """Return all pods, job by job, in the order of their creation."""
        with self._lock:
            lives = sorted(self._lives.values(), key=lambda life: (jobs.index(life.job), life.created_s, life.name))
            return [
                PodResult(
                    name=life.name,
                    job=life.job,
                    node=life.node,
                    created_s=life.created_s,
                    scheduled_s=life.scheduled_s,
                    started_s=life.started_s,
                    finished_s=life.finished_s,
                    outcome=life.outcome,
                )
                for life in lives
            ]

    def _at_latest(self, stamp: str | None, heard_s: float) -> float:
        """Return the latest time at which an event that the watch reported at `heard_s` can have happened."""
        if stamp is None:
            return heard_s
        try:
            dated = datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            return heard_s
        return min(heard_s, dated + _RESOLUTION_S - self._began_at)


def _why_failed(status: Mapping[str, Any], ended: Mapping[str, Any]) -> Outcome:
    if status.get("reason") == "Evicted" or _condition(status, "DisruptionTarget"):
        return "evicted"
    if ended.get("reason") == "OOMKilled" or (ended.get("exitCode") == OOM_EXIT_CODE and not ended.get("reason")):
        return "oom_killed"
    return "failed"


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition if it is true, else an empty one."""
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind and one.get("status") == "True"), {})
