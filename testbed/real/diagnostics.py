"""What may tell why a run on a real cluster failed, collected into a folder before it is gone.

Collecting never hides what went wrong first. It does not wait long for what cannot be had, which is noted in the
folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from carico.deployment.manifests import NAMESPACE as CARICO
from carico.errors import CaricoError, KubeUnreachable
from testbed.errors import TestbedError
from testbed.real.api import ClusterApi, Json
from testbed.results.files import make_folder


def collect(api: ClusterApi, namespace: str, into: Path, logs: Callable[[Path], None]) -> None:
    """Write events and pods that have not succeeded, of the repetition and of CARICO; Jobs, nodes; and copy logs.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        Of the repetition.
    into : Path
        The folder; is created.
    logs : callable
        Copies the cluster's logs into a folder.
    """
    questions: dict[str, Callable[[], Sequence[Json]]] = {
        "events": lambda: api.events(namespace),
        "events-carico": lambda: api.events(CARICO),
        "pods": lambda: _unfinished(api, namespace),
        "pods-carico": lambda: _unfinished(api, CARICO),
        "jobs": lambda: api.jobs(namespace),
        "nodes": lambda: [
            {"name": node["metadata"]["name"], "status": node["status"].get("conditions")} for node in api.nodes()
        ],
    }
    lacking = []
    try:
        make_folder(into)
        for name, ask in questions.items():
            try:
                (into / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(ask())))
            except KubeUnreachable as error:
                lacking.append(f"{name}, and whatever else the API would tell: {error}")
                break  # every question more would wait as long
            except Exception as error:
                lacking.append(f"{name}: {_said(error)}")
        try:
            logs(into)
        except Exception as error:
            lacking.append(f"logs: {_said(error)}")
        if lacking:
            (into / "lacking.txt").write_text("\n".join(lacking) + "\n", encoding="utf-8")
    except OSError:
        return  # a full disk, for instance: what went wrong first is what is told


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, (CaricoError, TestbedError)) else repr(error)


def _unfinished(api: ClusterApi, namespace: str) -> list[Json]:
    """Return the pods that have not succeeded: without a node if none was found, and with the reasons for that."""
    return [
        {"name": pod["metadata"]["name"], "node": pod["spec"].get("nodeName"), "status": pod["status"]}
        for pod in api.pods_in(namespace).list()[0]
        if pod["status"].get("phase") != "Succeeded"
    ]
