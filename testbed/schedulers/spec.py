"""How a scheduler under test is named.

``carico``, ``carico:variant=NAME``, ``kube-scheduler`` or ``kube-scheduler:cpu=100m,memory=750Mi``. CARICO's parameters
can be changed one by one: ``carico:hold_off_s=2``. One's own: ``package.module:Class,key=value`` or the
name of an entry point, ``NAME:key=value``, on the simulated cluster; ``schedulerName=NAME,manifest=FILE`` on real ones.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from carico import __version__
from carico.demand.settings import DemandVariant
from carico.errors import InvalidInput
from carico.model.estimators import KalmanSettings
from carico.model.variants import DEFAULT_VARIANT, Variant
from carico.variants import VARIANTS
from testbed.errors import InvalidSpec, suggested
from testbed.schedulers.interface import Scheduler
from testbed.schedulers.own import (
    check_options,
    checked,
    class_meant,
    converted,
    installed,
    load_class,
    load_entry_point,
    parameters_of,
    path_of,
    source_sha256,
    version_of,
)
from workloads.errors import InvalidQuantity, Misfit
from workloads.fitting import fitted
from workloads.scenario import JobSpec, Requests, Scenario

KUBE_SCHEDULER = "default-scheduler"
"""The `schedulerName` of a cluster's own scheduler."""
CARICO = "carico"
"""The `schedulerName` of CARICO."""
WITHIN_S = 60.0
"""Time in which a named scheduler must have bound or refused a first pod."""
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(?:,.*)?", re.DOTALL)
_BUILT_IN = ("carico", "kube-scheduler")
_NAMED = "schedulerName"
_SCHEDULER_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Provenance:
    """What a scheduler was, for the record of a run."""

    name: str
    """``module:Class`` for one's own."""
    version: str | None = None
    source_sha256: str | None = None
    """Of the file that defines it, or of its manifest."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """All in force, with defaults."""


@dataclass(frozen=True)
class SchedulerSpec:
    """A scheduler under test; each kind of scheduler is a subclass."""

    text: str
    """The spec as typed."""

    @property
    def provenance(self) -> Provenance:
        """What the scheduler is."""
        raise NotImplementedError

    @property
    def scheduler_name(self) -> str | None:
        """The `schedulerName` of its pods on a real cluster; None if it runs on none."""
        return None

    @property
    def agents(self) -> Variant | DemandVariant | None:
        """The variant of CARICO's agents on which it depends; None if it depends on none."""
        return None

    @property
    def manifest(self) -> Path | None:
        """What the testbed applies to a real cluster before a repetition, and removes after it."""
        return None

    @property
    def within_s(self) -> float | None:
        """Seconds in which it must have bound or refused a first pod, or it counts as absent; None: any time."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """What a comparison needs to know of it beside its text: equal texts may name different schedulers."""
        return {}

    def requests_of(self, job: JobSpec) -> Requests:
        """Return what the pods of a job request under this scheduler."""
        return job.requests

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


@dataclass(frozen=True)
class CaricoSpec(SchedulerSpec):
    """CARICO, which needs no requests."""

    variant: Variant | DemandVariant = DEFAULT_VARIANT

    @property
    def provenance(self) -> Provenance:
        """See `SchedulerSpec`."""
        return Provenance(CARICO, __version__, parameters=msgspec.to_builtins(self.variant))

    @property
    def scheduler_name(self) -> str:
        """See `SchedulerSpec`."""
        return CARICO

    @property
    def agents(self) -> Variant | DemandVariant:
        """See `SchedulerSpec`."""
        return self.variant

    def requests_of(self, job: JobSpec) -> Requests:
        """Return no requests, whatever the scenario has written."""
        return Requests()


@dataclass(frozen=True)
class RequestingSpec(SchedulerSpec):
    """A scheduler that goes by requests."""

    requests: Requests | None = None
    """Requests for every pod; None leaves those that the scenario has written."""

    def requests_of(self, job: JobSpec) -> Requests:
        """See `SchedulerSpec`."""
        return job.requests if self.requests is None else self.requests


@dataclass(frozen=True)
class KubeSchedulerSpec(RequestingSpec):
    """kube-scheduler: emulated on the simulated cluster, the cluster's own on a real one."""

    @property
    def provenance(self) -> Provenance:
        """See `SchedulerSpec`; its version is that of Kubernetes, which the run records."""
        return Provenance("kube-scheduler", parameters=_written(self.requests))

    @property
    def scheduler_name(self) -> str:
        """See `SchedulerSpec`."""
        return KUBE_SCHEDULER


@dataclass(frozen=True)
class OwnSpec(RequestingSpec):
    """A scheduler of one's own on the simulated cluster."""

    kind: type[Scheduler] = Scheduler
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those that were given."""

    @property
    def provenance(self) -> Provenance:
        """See `SchedulerSpec`."""
        parameters = parameters_of(self.kind, self.parameters) | _written(self.requests)
        return Provenance(path_of(self.kind), version_of(self.kind), source_sha256(self.kind), parameters)

    @property
    def settings(self) -> dict[str, Any]:
        """Name the class: an entry point or a hook may have given its name to another one."""
        return {"scheduler": path_of(self.kind)}

    def requests_of(self, job: JobSpec) -> Requests:
        """Return no requests if the scheduler uses none."""
        return super().requests_of(job) if self.kind.uses_requests else Requests()

    def make(self) -> Scheduler:
        """Return a new scheduler for a repetition."""
        return self.kind(**self.parameters)


@dataclass(frozen=True)
class NamedSpec(RequestingSpec):
    """Any scheduler of a real cluster, by its `schedulerName`."""

    name: str = KUBE_SCHEDULER
    manifest: Path | None = None
    within_s: float = WITHIN_S

    @property
    def provenance(self) -> Provenance:
        """See `SchedulerSpec`."""
        content = b"" if self.manifest is None or not self.manifest.is_file() else self.manifest.read_bytes()
        return Provenance(
            self.name,
            source_sha256=hashlib.sha256(content).hexdigest() if content else None,
            parameters=_written(self.requests),
        )

    @property
    def scheduler_name(self) -> str:
        """See `SchedulerSpec`."""
        return self.name


def parse_spec(text: str, own: Mapping[str, type[Scheduler]] | None = None) -> SchedulerSpec:
    """Return the scheduler that `text` names.

    Parameters
    ----------
    text : str
    own : mapping of str to type, optional
        Schedulers by name, beside those that installed packages name by entry points.

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
    if not text.isprintable():  # results files keep it as it is typed, and what reads them prints it
        raise InvalidSpec(f"{text!r}: a scheduler is named in printable characters: leave out the others")
    if text.partition("=")[0] == _NAMED:
        return _named(text)
    name, colon, rest = text.partition(":")
    if _OWN.fullmatch(text) and name not in _BUILT_IN:
        path, comma, rest = text.partition(",")
        return _own(text, load_class(path), _options(text, rest) if comma else {})
    options = _options(text, rest) if colon else {}
    if name == "carico":
        wanted = options.pop("variant", DEFAULT_VARIANT.name)
        if wanted not in VARIANTS:
            raise InvalidSpec(f"{text!r}: no variant is named {wanted!r}{suggested(wanted, VARIANTS)}")
        try:
            variant = VARIANTS[wanted]
            return CaricoSpec(text, _changed(text, variant, options))
        except InvalidInput as error:
            raise InvalidSpec(f"{text!r}: {error}") from error
    if name == "kube-scheduler":
        check_options(text, options, "cpu", "memory")
        return KubeSchedulerSpec(text, _requests(text, options))
    if name in (own := own or {}):
        return _own(text, checked(name, own[name]), options)
    points = installed()
    if name in points:
        return _own(text, load_entry_point(points[name]), options)
    names = (*_BUILT_IN, *own, *points)
    of_module = class_meant(name.partition(",")[0])
    rest = (
        "write carico, carico:variant=NAME, kube-scheduler, kube-scheduler:cpu=100m,memory=750Mi, "
        + "".join(f"{one}, " for one in names[2:])
        + "one of your own as module:Class,key=value, or on a real cluster schedulerName=NAME,manifest=FILE"
    )
    # What is before an equals sign was meant as a name, too: schedulerNam=my
    meant = (
        suggested(name.partition("=")[0], (*names, _NAMED), rest)
        if of_module is None
        else suggested(of_module, [of_module], rest)
    )
    raise InvalidSpec(f"no scheduler is named {name!r}{meant}")


def _options(text: str, written: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for option in written.split(","):
        key, equals, value = option.partition("=")
        if not (key and equals and value) or key in options:
            raise InvalidSpec(f"{text!r}: options are written key=value, each once, got {option!r}")
        options[key] = value
    return options


def _own(text: str, kind: type[Scheduler], options: dict[str, str]) -> OwnSpec:
    written: dict[str, str] = {name: options.pop(name) for name in ("cpu", "memory") if name in options}
    if written and not kind.uses_requests:
        raise InvalidSpec(f"{text!r}: {kind.__name__} uses no requests: leave out {', '.join(written)}")
    return OwnSpec(text, _requests(text, written), kind, converted(text, kind, options))


def _named(text: str) -> NamedSpec:
    options = _options(text, text)
    name = options.pop(_NAMED)
    if not _SCHEDULER_NAME.fullmatch(name):
        raise InvalidSpec(f"{text!r}: a schedulerName has lower-case letters, digits, dots and hyphens, got {name!r}")
    check_options(text, options, "manifest", "within_s", "cpu", "memory")
    manifest = Path(options.pop("manifest")).expanduser() if "manifest" in options else None
    if manifest is not None and not manifest.is_file():
        raise InvalidSpec(f"{text!r}: there is no file {manifest}")
    try:
        within_s = float(options.pop("within_s", WITHIN_S))
    except ValueError:
        within_s = 0.0
    if not 0 < within_s < float("inf"):
        raise InvalidSpec(f"{text!r}: within_s needs a number of seconds, more than 0")
    return NamedSpec(text, _requests(text, options), name, manifest, within_s)


def _requests(text: str, options: Mapping[str, str]) -> Requests | None:
    """Return the requests of every pod; None if none are given."""
    if not options:
        return None
    requests = Requests(cpu=options.get("cpu"), memory=options.get("memory"))
    try:
        _ = requests.millicpu, requests.memory_bytes
    except InvalidQuantity as error:
        raise InvalidSpec(f"{text!r}: {error}") from error
    return requests


def _written(requests: Requests | None) -> dict[str, Any]:
    return {} if requests is None else dict(msgspec.to_builtins(requests))


def _changed(text: str, variant: Variant | DemandVariant, changes: dict[str, str]) -> Variant | DemandVariant:
    """Return the variant with some parameters of its own, or of its Kalman filter, changed."""
    own = {
        name: kind
        for name, kind in get_type_hints(type(variant)).items()
        if name not in ("name", "description", "kalman")
    }
    kalman = variant.kalman if isinstance(variant, Variant) else None
    of_filter = get_type_hints(KalmanSettings) if kalman is not None else {}
    check_options(text, changes, "variant", *own, *of_filter)
    values: dict[str, Any] = {}
    for name, written in changes.items():
        try:
            values[name] = fitted(written, (own | of_filter)[name], strict=False)
        except Misfit as error:
            raise InvalidSpec(f"{text!r}: {name}: {error}") from error
    if kalman is not None:
        values["kalman"] = replace(kalman, **{name: values.pop(name) for name in list(values) if name in of_filter})
    name = "+".join([variant.name, *(f"{name}={written}" for name, written in changes.items())])
    return replace(variant, name=name, **values)
