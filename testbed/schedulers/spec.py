"""How a scheduler under test is named.

``carico``, ``carico:variant=NAME``, ``kube-scheduler`` or ``kube-scheduler:cpu=100m,memory=750Mi``. CARICO's parameters
can be changed one by one: ``carico:variant=NAME,hold_off_s=2``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import msgspec

from carico.demand.settings import DemandVariant
from carico.errors import InvalidInput, UnknownVariant
from carico.model.estimators import KalmanSettings
from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.variants import variant_named
from testbed.errors import InvalidSpec
from workloads.errors import InvalidQuantity
from workloads.scenario import JobSpec, Requests, Scenario


@dataclass(frozen=True)
class SchedulerSpec:
    """A scheduler under test."""

    text: str
    """The spec as typed."""
    variant: Variant | DemandVariant | None = None
    """CARICO's parameters; None for kube-scheduler."""
    requests: Requests | None = None
    """Requests for every pod; None leaves those that the scenario has written."""

    def requests_of(self, job: JobSpec) -> Requests:
        """Return what the pods of a job request under this scheduler; CARICO needs no requests."""
        if self.variant is not None:
            return Requests()
        return job.requests if self.requests is None else self.requests

    def check_fits(self, scenario: Scenario, platform_millicpu: int = 0, platform_memory_bytes: int = 0) -> None:
        """Check that some node of the scenario can hold a pod with its requests beside the platform's own pods.

        Raises
        ------
        InvalidSpec
            If no node can: such a pod would stay Pending for ever.
        """
        free = [
            (round(1000 * pool.cores) - platform_millicpu, pool.memory_bytes - platform_memory_bytes)
            for pool in scenario.cluster.each_pool
        ]
        cpu, memory = max(free)
        for job in scenario.jobs:
            requests = self.requests_of(job)
            if all(requests.millicpu > cores or requests.memory_bytes > room for cores, room in free):
                raise InvalidSpec(
                    f"{self.text}: a pod of job {job.name} would request {requests.millicpu}m of CPU and "
                    f"{requests.memory_bytes / 2**20:.0f} MiB, a node has at most {cpu}m and "
                    f"{memory / 2**20:.0f} MiB for pods: request less, or it can never be scheduled"
                )


def parse_spec(text: str) -> SchedulerSpec:
    """Return the scheduler that `text` names.

    Raises
    ------
    InvalidSpec
        If there is none; the message says what is known.

    Examples
    --------
    >>> parse_spec("kube-scheduler:cpu=500m").requests.millicpu
    500
    >>> parse_spec("carico").variant.name
    'thesis-rebased'
    """
    name, colon, rest = text.partition(":")
    options: dict[str, str] = {}
    for option in rest.split(",") if colon else []:
        key, equals, value = option.partition("=")
        if not (key and equals and value) or key in options:
            raise InvalidSpec(f"{text!r}: options are written key=value, each once, got {option!r}")
        options[key] = value
    if name == "carico":
        try:
            variant = variant_named(options.pop("variant", DEFAULT_VARIANT.name))
            return SchedulerSpec(text, variant=_changed(text, variant, options))
        except (UnknownVariant, InvalidInput) as error:
            raise InvalidSpec(f"{text!r}: {error}") from error
    if name == "kube-scheduler":
        _only(text, options, "cpu", "memory")
        if not options:
            return SchedulerSpec(text)
        requests = Requests(cpu=options.get("cpu"), memory=options.get("memory"))
        try:
            _ = requests.millicpu, requests.memory_bytes
        except InvalidQuantity as error:
            raise InvalidSpec(f"{text!r}: {error}") from error
        return SchedulerSpec(text, requests=requests)
    raise InvalidSpec(
        f"no scheduler is named {name!r}; write carico, carico:variant=NAME, kube-scheduler or "
        f"kube-scheduler:cpu=100m,memory=750Mi"
    )


def _changed(text: str, variant: Variant | DemandVariant, changes: dict[str, str]) -> Variant | DemandVariant:
    """Return the variant with some parameters of its own, or of its Kalman filter, changed."""
    own = {
        name: kind
        for name, kind in get_type_hints(type(variant)).items()
        if name not in ("name", "description", "kalman")
    }
    kalman = variant.kalman if isinstance(variant, Variant) else None
    of_filter = get_type_hints(KalmanSettings) if kalman is not None else {}
    _only(text, changes, "variant", *own, *of_filter)
    values: dict[str, Any] = {}
    for name, written in changes.items():
        try:
            values[name] = msgspec.convert(written, (own | of_filter)[name], strict=False)
        except msgspec.ValidationError as error:
            raise InvalidSpec(f"{text!r}: {name}: {error}, got {written!r}") from error
    if kalman is not None:
        values["kalman"] = replace(kalman, **{name: values.pop(name) for name in list(values) if name in of_filter})
    name = "+".join([variant.name, *(f"{name}={written}" for name, written in changes.items())])
    return replace(variant, name=name, **values)


def _only(text: str, options: dict[str, str], *known: str) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidSpec(f"{text!r}: unknown option {', '.join(unknown)}; known: {', '.join(known)}")
