"""Decisions on a pod, from the journals of all schedulers: each has those that it made while it was the leader."""

from __future__ import annotations

import msgspec

from carico.deployment.manifests import COMPONENT, SELECTOR
from carico.deployment.rollout import Tell
from carico.deployment.status import ask_status
from carico.errors import KubeError, NotReady
from carico.extender.journal import Entry
from carico.kube.objects import KubeObjects


class _Answer(msgspec.Struct):
    decisions: list[Entry]


def read_decisions(kube: KubeObjects, namespace: str, pod: str, tell: Tell) -> list[tuple[str, Entry]]:
    """Return the last decisions on a pod, the oldest first, each with the scheduler's pod that decided.

    Parameters
    ----------
    kube : KubeObjects
    namespace : str
        The namespace in which CARICO is deployed.
    pod : str
        NAME, NAMESPACE/NAME or the UID.
    tell : callable
        Called with a message about every scheduler that does not answer.

    Raises
    ------
    NotReady
        If CARICO is not deployed there, or no scheduler answers.
    KubeError
        If the API server does not answer, or refuses.
    """
    schedulers = [
        each["metadata"]["name"] for each in kube.list("v1", "Pod", namespace, f"{SELECTOR},{COMPONENT}=scheduler")
    ]
    if not schedulers:
        raise NotReady(f"no scheduler of CARICO runs in the namespace {namespace}: see `carico status`")
    found: list[tuple[str, Entry]] = []
    silent = []
    for scheduler in schedulers:
        try:
            answer = ask_status(kube, namespace, scheduler, f"decisions/{pod}")
            found += [(scheduler, entry) for entry in msgspec.convert(answer, _Answer).decisions]
        except (KubeError, msgspec.ValidationError) as error:
            silent.append(scheduler)
            tell(f"{scheduler} does not say what it decided: {error}")
    if len(silent) == len(schedulers):
        raise NotReady(f"no scheduler of CARICO says what it decided, asked: {', '.join(silent)}")
    return sorted(found, key=lambda each: each[1].at)
