"""Keeps what workloads cost in a ConfigMap, so that a new pod of the scheduler knows what the one before had learned.

All replicas read the ConfigMap when they start; only the leader writes it, at its end, and before that at most once a
minute, if `differs` says that the next pod would know something else: most minutes bring no news. What is found there
is joined with what was learned here, and only the version that was read last is ever changed: a replica that could not
read writes nothing, and none undoes what another one wrote.

Nothing depends on the ConfigMap: if it cannot be read or written, that is logged once, and tried again a minute later.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

from carico.checkpoint import as_text, from_text
from carico.errors import InvalidState, KubeError, KubeRefused

_log = logging.getLogger(__name__)

KEEP_EVERY_S = 60.0
START_S = 5.0
"""How long the first answer waits for the ConfigMap to be read."""
END_S = 3.0
"""How long the process waits at its end for the ConfigMap to be written."""
KEY = "costs.json"
MOST_BYTES = 900 << 10
"""The limit of the text: a ConfigMap holds at most 1 MiB, which is enough for some 4,000 workloads."""
OWNER = "extender"
"""The owner of the text; what an extender remembers holds on all nodes, so any extender may continue from it."""
_DIGITS = 4
CHANGE = 0.05
"""A mean or a weight that has changed by more than this share is news."""
READS = 0.02
"""A mean number of reads that has changed by no more than this is no news: most pods read next to nothing."""
DOUBT = 2.0
"""A variance that has changed by more than this factor is news."""
RAN_S = 3600.0
"""That a workload still runs is news after this time; it changes what is remembered of the workload by 0.6 %."""
_REMEDIES = {
    403: "run `carico deploy` again, it grants the right",
    404: "run `carico deploy` again, it makes the ConfigMap",
    409: "somebody else writes it, too: `carico status` shows which replica leads",
}


class Api(Protocol):
    """The part of the Kubernetes API that is needed (`carico.kube.client.KubeClient`)."""

    def config_map(self, namespace: str, name: str) -> tuple[dict[str, str], str]:
        """Return the data of a ConfigMap, and its resource version."""
        ...

    def set_in_config_map(self, namespace: str, name: str, data: Mapping[str, str], version: str) -> str:
        """Set entries of a ConfigMap that nobody has changed since `version`, and return its new resource version."""
        ...

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """Return who holds a lease, and when it was renewed."""
        ...


class Costs(Protocol):
    """What is kept (`carico.extender.demand_extender.DemandExtender`)."""

    def state(self) -> Mapping[str, Any]:
        """Return what is remembered of workloads."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned, as far as less is known here; raises InvalidState if it is damaged."""
        ...


class Leadership:
    """Which replica writes: the one whose kube-scheduler leads, or the first one if no kube-scheduler does.

    Parameters
    ----------
    api : Api
    namespace : str
    lease : str or None
        The lock of the replicas; None if there is one replica only.
    replica : str
        This replica's pod.
    """

    def __init__(self, api: Api, namespace: str, lease: str | None, replica: str) -> None:
        self._api = api
        self._namespace = namespace
        self._lease = lease
        self._replica = replica
        self._renewed = ""

    def leads(self) -> bool:
        """Return whether this replica writes; raises KubeError if the API server does not answer.

        A lease that was not renewed since the last call is held by nobody. No two clocks are compared.
        """
        if self._lease is None:
            return True
        try:
            holder, renewed = self._api.lease(self._namespace, self._lease)
        except KubeRefused as error:
            if error.status != 404:
                raise
            holder = renewed = ""
        held = bool(holder) and renewed != self._renewed
        self._renewed = renewed
        return holder.partition("_")[0] == self._replica if held else self._replica.endswith("-0")


class KeptCosts:
    """Reads the ConfigMap at the start, and writes it from then on, in a thread that is the caller's.

    Parameters
    ----------
    api : Api
    namespace, config_map : str
    costs : Costs
    variant : str
        What learns the costs.
    leadership : Leadership
    """

    def __init__(
        self, api: Api, namespace: str, config_map: str, costs: Costs, variant: str, leadership: Leadership
    ) -> None:
        self._api = api
        self._where = namespace, config_map
        self._costs = costs
        self._variant = variant
        self._leadership = leadership
        self._version = ""
        """The version that was read or written last; empty if none could be read yet."""
        self._kept: Mapping[str, Any] | None = None
        """The state in this version, if there is one that can be used."""
        self._led = False
        self._told = False
        self.has_read = threading.Event()
        """Whether the first attempt to read has ended, successfully or not."""

    def run(self, stop: threading.Event) -> None:
        """Read, then write what is new every minute until `stop` is set, and everything once more."""
        self._attempt(self._read)
        self.has_read.set()
        while not stop.wait(KEEP_EVERY_S):
            self._attempt(self.keep)
        self._attempt(partial(self.keep, at_end=True))

    def keep(self, at_end: bool = False) -> None:
        """Read the ConfigMap if that has not succeeded yet, and write it if this replica leads, or led until its end.

        Before its end, a replica writes only if there is something new.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        if not self._version:
            self._read()
        self._led = (at_end and self._led) or self._leadership.leads()
        if self._led:
            self._write(at_end)
        if self._told:
            self._told = False
            _log.info("the ConfigMap %s/%s can be used again", *self._where)

    def _attempt(self, what: Callable[[], None]) -> None:
        """Do something that may fail; of failures in a row, the first one is logged."""
        try:
            what()
        except KubeError as error:
            remedy = _REMEDIES.get(error.status, "") if isinstance(error, KubeRefused) else ""
            if not self._told:
                _log.warning(
                    "a new pod would not know what workloads cost, because the ConfigMap %s/%s cannot be used: %s%s; "
                    "it is tried again every minute",
                    *self._where,
                    error,
                    remedy and f"; {remedy}",
                )
            self._told = True

    def _read(self) -> None:
        data, version = self._api.config_map(*self._where)
        text = data.get(KEY)
        if text is not None:
            name = "{}/{} of the ConfigMap {}".format(*self._where, KEY)
            self._kept = None
            try:
                state = from_text(text, name, self._variant, owner=OWNER)
                self._costs.restore(state)
                self._kept = state
            except InvalidState as error:
                _log.warning("starting without the costs in a ConfigMap, which the leader will replace: %s", error)
        self._version = version

    def _write(self, at_end: bool) -> None:
        if not self._version:
            self._read()
        for again in (True, False):
            state = fitting(self._costs.state(), MOST_BYTES)
            if not at_end and self._kept is not None and not differs(self._kept, state):
                return
            text = as_text(self._variant, state, owner=OWNER)
            try:
                self._version = self._api.set_in_config_map(*self._where, {KEY: text}, self._version)
                self._kept = state
                return
            except KubeRefused as error:
                if error.status != 409 or not again:
                    raise
                self._read()


def differs(kept: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Return whether a pod that reads a state would know something else than one that reads the state that was kept.

    Parameters
    ----------
    kept, state : mapping
        See `DemandExtender.state`; both can be restored.

    Examples
    --------
    >>> kept = {"cpu": {"pi": [0.5, 0.01, 20.0, 0.0]}, "memory": {}, "at_unix_s": 0.0}
    >>> idle, runs = {"pi": [0.51, 0.011, 20.0, 60.0]}, {"pi": [0.51, 0.011, 20.0, 0.0]}
    >>> [differs(kept, kept | {"cpu": cpu, "at_unix_s": 60.0}) for cpu in (idle, runs, {})]
    [False, False, True]
    >>> differs(kept, kept | {"cpu": runs, "at_unix_s": 7200.0})
    True
    >>> few, fewer, many = ({"pi": [reads, 0.01, 20.0, 0.0]} for reads in (0.002, 0.001, 0.5))
    >>> [differs(kept | {"reads": few}, kept | {"reads": reads}) for reads in (fewer, many)]
    [False, True]
    """
    elapsed_s = state["at_unix_s"] - kept["at_unix_s"]
    least = {"cpu": 0.0, "memory": 0.0, "reads": READS}
    parts = [(kept.get(part, {}), state.get(part, {}), each) for part, each in least.items()]
    return any(
        before.keys() != after.keys()
        or any(_is_news(before[workload], now, elapsed_s, each) for workload, now in after.items())
        for before, after, each in parts
    ) or any(kept.get(part) != state.get(part) for part in (kept.keys() | state.keys()) - {"at_unix_s", *least})


def _is_news(before: Sequence[float], now: Sequence[float], elapsed_s: float, least: float) -> bool:
    """Whether what is remembered of a workload has changed: mean, variance, weight, and how long it has been idle."""
    (mean, variance, weight, idle_s), (mean_now, variance_now, weight_now, idle_now_s) = before, now
    return (
        abs(mean_now - mean) > max(CHANGE * max(mean, mean_now), least)
        or abs(weight_now - weight) > CHANGE * max(weight, weight_now)
        or max(variance, variance_now) > DOUBT * min(variance, variance_now)
        or abs(idle_s + elapsed_s - idle_now_s) > RAN_S
    )


def fitting(state: Mapping[str, Any], most_bytes: int) -> dict[str, Any]:
    """Return what extenders remember, with short numbers; if it is too large, what has not run for longest is left out.

    Parameters
    ----------
    state : mapping
        See `DemandExtender.state`.
    most_bytes : int
        The limit of the state as JSON.

    Examples
    --------
    >>> learned = {"new": [0.51234567, 0.01, 20.0, 0.0], "old": [0.5, 0.01, 20.0, 3600.0]}
    >>> fitting({"cpu": learned, "memory": {}}, most_bytes=80)
    {'cpu': {'new': [0.5123, 0.01, 20.0, 0.0]}, 'memory': {}}
    """
    parts = {
        name: {workload: [_short(value) for value in values] for workload, values in part.items()}
        for name, part in state.items()
        if isinstance(part, Mapping)
    }
    rest = {name: value for name, value in state.items() if name not in parts}
    idle_s: dict[str, float] = {}
    for part in (state["cpu"], state["memory"], state.get("reads", {})):
        for workload, values in part.items():
            idle_s[workload] = min(values[-1], idle_s.get(workload, values[-1]))
    recent = sorted(idle_s, key=lambda workload: idle_s[workload])
    sizes = (
        sum(len(json.dumps({workload: part[workload]})) for part in parts.values() if workload in part)
        for workload in recent
    )
    left = most_bytes - len(json.dumps(rest | {name: {} for name in parts}))
    kept = set(recent[: sum(size <= left for size in accumulate(sizes))])
    return {
        name: {workload: values for workload, values in part.items() if workload in kept}
        for name, part in parts.items()
    } | rest


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
