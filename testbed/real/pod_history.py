"""The history of a run's pods as a watch shows it, on the watching process's clock.

The API's times are whole seconds, so every change is dated by its arrival here. If the container's status says that the
change happened more than a second earlier, because the kubelet or the watch was late, the latest time that the status
allows counts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from testbed.real.jobs import JOB_LABEL, OOM_EXIT_CODE
from testbed.results.schema import PodOutcome, PodResult

_RESOLUTION_S = 1.0
"""The resolution of times in the API."""


@dataclass
class _PodRecord:
    name: str
    job: str
    created_s: float
    node: str | None = None
    scheduled_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    outcome: PodOutcome = "unfinished"


class PodHistory:
    """Collects what happens to pods; one thread may report changes while another reads.

    Parameters
    ----------
    began_at : float
        When the scenario began, seconds since 1970. The clocks of the nodes must agree with this one: events on a node
        whose clock is behind are dated too early.
    """

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self._pods: dict[str, _PodRecord] = {}
        self._lock = threading.Lock()
        self.noticed = False
        """Whether a scheduler has bound or refused any pod."""

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
            self.noticed = self.noticed or bool(node) or _is_refused(status)
            record = self._pods.get(metadata["uid"])
            if record is None:
                created = self._at_latest(metadata.get("creationTimestamp"), at_s)
                record = self._pods[metadata["uid"]] = _PodRecord(metadata["name"], job, created)
            if node and record.scheduled_s is None:
                bound = _condition(status, "PodScheduled").get("lastTransitionTime")
                record.node, record.scheduled_s = node, max(self._at_latest(bound, at_s), record.created_s)
            if record.started_s is None and (phase == "Running" or state.get("running") or ended):
                began = (state.get("running") or ended).get("startedAt")
                record.started_s = max(self._at_latest(began, at_s), record.scheduled_s or record.created_s)
            if record.finished_s is None and phase in ("Succeeded", "Failed"):
                finished = self._at_latest(ended.get("finishedAt"), at_s)
                record.finished_s = max(finished, record.started_s or record.created_s)
                record.outcome = "succeeded" if phase == "Succeeded" else _why_failed(status, ended)

    def deleted(self, uid: str, at_s: float) -> None:
        """Record that a pod is gone; a pod that had a node and had not finished counts as evicted."""
        with self._lock:
            pod = self._pods.get(uid)
            if pod is not None and pod.finished_s is None and pod.node is not None:
                pod.finished_s, pod.outcome = at_s, "evicted"

    def succeeded(self, job: str) -> int:
        """Return how many indices of a job have succeeded; if Kubernetes runs one twice, it still counts once."""
        with self._lock:
            # job-NUMBER-INDEX-SUFFIX
            ended = (pod.name for pod in self._pods.values() if pod.job == job and pod.outcome == "succeeded")
            return len({name.rpartition("-")[0] for name in ended})

    @property
    def bound(self) -> int:
        """Number of pods that have a node and have not failed."""
        with self._lock:
            return sum(
                pod.node is not None and pod.outcome in ("succeeded", "unfinished") for pod in self._pods.values()
            )

    @property
    def finished(self) -> int:
        """Number of pods that have succeeded."""
        with self._lock:
            return sum(pod.outcome == "succeeded" for pod in self._pods.values())

    @property
    def failures(self) -> int:
        """Number of pods that have ended without success."""
        with self._lock:
            return sum(pod.outcome not in ("succeeded", "unfinished") for pod in self._pods.values())

    def results(self, jobs: Sequence[str]) -> list[PodResult]:
        """Return all pods, job by job, in the order of their creation."""
        with self._lock:
            pods = sorted(self._pods.values(), key=lambda pod: (jobs.index(pod.job), pod.created_s, pod.name))
            return [
                PodResult(
                    name=pod.name,
                    job=pod.job,
                    node=pod.node,
                    created_s=pod.created_s,
                    scheduled_s=pod.scheduled_s,
                    started_s=pod.started_s,
                    finished_s=pod.finished_s,
                    outcome=pod.outcome,
                )
                for pod in pods
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


def _why_failed(status: Mapping[str, Any], ended: Mapping[str, Any]) -> PodOutcome:
    if status.get("reason") == "Evicted" or _condition(status, "DisruptionTarget"):
        return "evicted"
    if ended.get("reason") == "OOMKilled" or (ended.get("exitCode") == OOM_EXIT_CODE and not ended.get("reason")):
        return "oom_killed"
    return "failed"


def _is_refused(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(one.get("type") == "PodScheduled" and one.get("status") == "False" for one in conditions)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition if it is true, else an empty one."""
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind and one.get("status") == "True"), {})
