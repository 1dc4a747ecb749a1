"""What pods of each workload request, and what they last requested when none runs any more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from carico.demand.memory import MOST_WORKLOADS
from carico.demand.report import MOST_CORES, MOST_GIB
from carico.demand.workload import check_saved_workloads
from carico.errors import InvalidState, TelemetryMalformed
from carico.telemetry.metrics_server import parse_quantity


class Requests(NamedTuple):
    """What a pod requests; None if it cannot be read, for instance because a quantity has an exponent."""

    cores: float | None
    gib: float | None


def requests_of(pod: Mapping[str, Any]) -> Requests:
    """Return what a pod requests, as kube-scheduler counts it; a limit without a request counts as one.

    Containers and sidecars (init containers that are restarted) run at the same time. A pod also needs what its largest
    init container requests, beside the sidecars before that. A request of the pod as a whole takes the place of all
    these. The overhead of the runtime class comes on top.

    Examples
    --------
    >>> resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    >>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    >>> requests_of({"spec": {"containers": [{"resources": resources}], "initContainers": [sidecar]}})
    Requests(cores=0.6, gib=1.0)
    """
    return Requests(_requested(pod, "cpu", 1.0, MOST_CORES), _requested(pod, "memory", 2**30, MOST_GIB))


class LastRequests:
    """What the last pod of each workload requested; the workload whose pods came longest ago is forgotten first."""

    def __init__(self) -> None:
        self._of: dict[str, Requests] = {}

    def note(self, workload: str, requests: Requests) -> None:
        """Note a new pod."""
        self._of.pop(workload, None)
        self._of[workload] = requests
        if len(self._of) > MOST_WORKLOADS:
            del self._of[next(iter(self._of))]

    def of(self, workload: str) -> Requests:
        """Return what the last pod of a workload requested, as far as it is known."""
        return self._of.get(workload, Requests(None, None))

    def save(self) -> dict[str, list[float | None]]:
        """Return everything, as JSON values."""
        return {workload: list(requests) for workload, requests in self._of.items()}

    def read(self, state: Any) -> dict[str, Requests]:
        """Check what `save` returned, and return it for `take_over`.

        Raises
        ------
        InvalidState
            If the state is damaged.
        """
        if not isinstance(state, Mapping) or len(state) > MOST_WORKLOADS:
            raise InvalidState(f"the saved requests must be of at most {MOST_WORKLOADS} workloads; delete them")
        check_saved_workloads(state)
        for workload, values in state.items():
            if not (isinstance(values, list) and len(values) == 2 and all(map(_is_amount, values))):
                raise InvalidState(
                    f"the saved requests of {workload!r:.300} must be two numbers that are not negative, or null, "
                    f"got {values!r:.100}; delete them"
                )
        return {workload: Requests(*values) for workload, values in state.items()}

    def take_over(self, others: Mapping[str, Requests]) -> None:
        """Note what others requested, as if it was longer ago than everything that is known."""
        known = {**others, **self._of}
        newest = [*(name for name in others if name not in self._of), *self._of][-MOST_WORKLOADS:]
        self._of = {workload: known[workload] for workload in newest}


def _requested(pod: Mapping[str, Any], resource: str, unit: float, most: float) -> float | None:
    try:
        total = _total(pod.get("spec") or {}, resource)
    except (TelemetryMalformed, AttributeError, TypeError):  # the latter two: it is not what Kubernetes writes
        return None
    return total / unit if 0 <= total / unit <= most else None


def _total(spec: Mapping[str, Any], resource: str) -> float:
    overhead = _quantity((spec.get("overhead") or {}).get(resource, 0))
    if (whole := _asked(spec, resource)) is not None:
        return whole + overhead
    sidecars = largest = 0.0
    for container in spec.get("initContainers") or ():
        asked = _asked(container, resource) or 0.0
        if container.get("restartPolicy") == "Always":
            sidecars += asked
        else:
            largest = max(largest, sidecars + asked)
    running = sum(_asked(container, resource) or 0.0 for container in spec.get("containers") or ())
    return max(running + sidecars, largest) + overhead


def _asked(thing: Mapping[str, Any], resource: str) -> float | None:
    """What a container, or a pod as a whole, requests; None if it says nothing."""
    resources = thing.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return _quantity(asked[resource]) if resource in asked else None


def _quantity(value: Any) -> float:
    return parse_quantity(str(value))


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf)
