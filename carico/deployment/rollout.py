"""Waits until pods are ready and up to date, or until objects are gone; every wait has a deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from carico.clock import Clock
from carico.errors import KubeError, NotReady
from carico.kube.objects import KubeObject, KubeObjects, title

_LOOK_EVERY_S = 1.0
Tell = Callable[[str], None]
"""Called with every message for the user."""


def progress_of(thing: KubeObject) -> tuple[int, int, int]:
    """Return how many pods of a DaemonSet or a StatefulSet are desired, how many are up to date, and how many ready."""
    status = thing.get("status") or {}
    if thing["kind"] == "DaemonSet":
        names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady")
        wanted, updated, ready = (int(status.get(name) or 0) for name in names)
        return wanted, updated, ready
    replicas = int(thing["spec"].get("replicas") or 0)
    rolling = status.get("updateRevision") != status.get("currentRevision")
    updated = int(status.get("updatedReplicas") or 0) if rolling else replicas
    return replicas, updated, int(status.get("readyReplicas") or 0)


def rolled_out(thing: KubeObject) -> bool:
    """Whether all pods of a DaemonSet or a StatefulSet are up to date and ready."""
    wanted, updated, ready = progress_of(thing)
    return _observed(thing) and updated >= wanted and ready >= wanted


def _observed(thing: KubeObject) -> bool:
    """Whether the controller has seen the present spec; until then, the status describes an older spec."""
    seen = int((thing.get("status") or {}).get("observedGeneration") or 0)
    return seen >= int(thing["metadata"].get("generation") or 0)


def wait_rolled_out(kube: KubeObjects, things: Sequence[KubeObject], clock: Clock, within_s: float, tell: Tell) -> None:
    """Wait until all pods are up to date and ready, and report changes through `tell`.

    Raises
    ------
    NotReady
        If some pods are not ready after `within_s` seconds; the message gives the latest progress.
    KubeError
        If the API server refuses permanently. Errors that may pass are waited out.
    """

    def missing() -> list[str]:
        lines = []
        for thing in things:
            found = kube.read(thing)
            if found is None:
                lines.append(f"{title(thing)} is gone")
            elif not _observed(found):
                lines.append(f"{title(thing)}: roll-out not started")
            elif not rolled_out(found):
                wanted, updated, ready = progress_of(found)
                lines.append(f"{title(thing)}: {ready} of {wanted} pods ready, {updated} up to date")
        return lines

    _wait(
        missing,
        clock,
        within_s=within_s,
        tell=tell,
        remedy="`carico status` shows more, `kubectl describe pod` why a pod does not start",
    )


def wait_gone(kube: KubeObjects, things: Sequence[KubeObject], clock: Clock, within_s: float, tell: Tell) -> None:
    """Wait until objects are gone; raises as `wait_rolled_out` does."""

    def left() -> list[str]:
        return [f"{title(thing)} is being removed" for thing in things if kube.read(thing) is not None]

    _wait(left, clock, within_s=within_s, tell=tell, remedy="a finalizer may hold it")


def _wait(missing: Callable[[], list[str]], clock: Clock, within_s: float, tell: Tell, remedy: str) -> None:
    deadline = clock.now() + within_s
    previous: list[str] = []
    while lines := _answered(missing):
        for line in lines:
            if line not in previous:
                tell(line)
        previous = lines
        if clock.now() + _LOOK_EVERY_S > deadline:
            raise NotReady(f"not done within {within_s:g} s: {'; '.join(lines)}; {remedy}")
        clock.sleep_until(clock.now() + _LOOK_EVERY_S)


def _answered(missing: Callable[[], list[str]]) -> list[str]:
    try:
        return missing()
    except KubeError as error:
        if not error.may_pass:
            raise
        return [str(error)]
