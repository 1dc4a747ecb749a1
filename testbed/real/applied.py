"""A scheduler's manifest on a real cluster: applied for a repetition, and removed after it, even after a crash.

Every object bears the run's label, and an annotation of the repetition's namespace lists them before the first is
applied: whoever removes that namespace (this run, or the next after a crash) removes them first
(`ClusterApi.delete_namespace`). What was on the cluster before is never touched. Definitions of custom resources come
first and go last, and their objects go while what looks after them is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from carico.clock import Clock
from carico.config import PlainLoader, yaml_problem
from carico.deployment.rollout import wait_rolled_out
from carico.errors import CaricoError, InvalidInput
from carico.kube.objects import KubeObject, KubeObjects, defined, is_custom, is_definition, placed, title
from testbed.errors import ClusterError, UsageError
from testbed.real.api import RUN_LABEL, ClusterApi
from testbed.real.waiting import wait_until

DEFINED_S = 60.0
READY_S = 180.0
GONE_S = 120.0
_WITH_PODS = ("Deployment", "StatefulSet", "DaemonSet")


def read_manifest(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a manifest, each in its namespace, definitions of custom resources first.

    Raises
    ------
    UsageError
        If it cannot be read, or has an object that cannot be applied.
    """
    try:
        things = objects_of(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise UsageError(f"the manifest {file}: {error}") from error
    if not things:
        raise UsageError(f"the manifest {file} has no objects")
    return things


def objects_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest's text, as `read_manifest` does; raises InvalidInput."""
    try:
        documents = list(yaml.load_all(text, Loader=PlainLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not YAML: {yaml_problem(error)}") from error
    things: list[object] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
        if not isinstance(items, list):
            raise InvalidInput(f"a List has items, got {str(items)[:60]!r}")
        things += [one for one in items if one is not None]
    definitions = [placed(one) for one in things if isinstance(one, dict) and is_definition(one)]
    custom = {kind: scoped for one in definitions for kind, scoped in defined(one).items()}
    found = [dict(placed(thing, custom)) for thing in things]
    return sorted(found, key=is_definition, reverse=True)


@contextmanager
def applied(api: ClusterApi, things: Sequence[KubeObject], namespace: str, run: str, clock: Clock) -> Iterator[None]:
    """Apply objects, wait until their pods are ready, and remove them when the context ends normally.

    After an error the removal of the repetition's namespace removes them.

    Parameters
    ----------
    api : ClusterApi
    things : sequence of KubeObject
        From `read_manifest`; nothing happens if there are none.
    namespace : str
        The repetition's own.
    run : str
        The run's id.
    clock : Clock

    Raises
    ------
    ClusterError
        If an object exists already, or pods are not ready or not gone in time.
    KubeError
        If the API server does not answer or refuses.
    """
    if not things:
        yield
        return
    kube = api.objects
    if there := [title(thing) for thing in things if kube.read(thing) is not None]:
        raise ClusterError(
            f"{', '.join(there)}: already on the cluster, and the testbed would remove what it applies: leave out "
            f"manifest= to test what is there, or remove it first"
        )
    api.note_applied(namespace, things)
    definitions, others = ([one for one in things if is_definition(one) is wanted] for wanted in (True, False))
    for thing in definitions:
        kube.apply(_labelled(thing, run))
    if definitions:
        wait_until("the custom resources of the scheduler's manifest are defined", _undefined(kube, things), DEFINED_S)
    for thing in others:
        kube.apply(_labelled(thing, run))
    with_pods = [thing for thing in things if thing["apiVersion"] == "apps/v1" and thing["kind"] in _WITH_PODS]
    try:
        wait_rolled_out(kube, with_pods, clock, within_s=READY_S, tell=lambda line: None)
    except CaricoError as error:
        raise ClusterError(f"the scheduler's manifest: {error}") from error
    yield
    # Their finalizers may be the work of the scheduler's own pods, which go next.
    custom = [thing for thing in things if is_custom(thing)]
    for thing in reversed(custom):
        kube.delete(thing)
    _wait_until_gone(lambda: [title(thing) for thing in custom if kube.read(thing) is not None])
    api.remove_applied(namespace)
    _wait_until_gone(
        lambda: [
            *(pod["metadata"]["name"] for thing in with_pods for pod in kube.list("v1", "Pod", *_selected(thing))),
            *(title(thing) for thing in definitions if kube.read(thing) is not None),
        ]
    )


def _wait_until_gone(left: Callable[[], list[str]]) -> None:
    def lacking() -> str:
        return f"there are still {', '.join(found)}" if (found := left()) else ""

    wait_until("the pods and custom resources of the scheduler's manifest are gone", lacking, GONE_S)


def _undefined(kube: KubeObjects, things: Sequence[KubeObject]) -> Callable[[], str]:
    """Return a function that says which custom resources the server does not know yet."""
    wanted = {kind for thing in things if is_definition(thing) for kind in defined(thing)}

    def lacking() -> str:
        unknown = sorted(f"{kind} of {version}" for version, kind in wanted if not kube.has_kind(version, kind))
        return f"the server does not know {', '.join(unknown)}" if unknown else ""

    return lacking


def _labelled(thing: KubeObject, run: str) -> dict[str, Any]:
    metadata = thing["metadata"]
    return {**thing, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), RUN_LABEL: run}}}


def _selected(thing: KubeObject) -> tuple[str, str]:
    """Return the namespace and the label selector of an object's pods."""
    labels = ((thing.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return thing["metadata"]["namespace"], ",".join(f"{name}={value}" for name, value in labels.items())
