"""Diagnostics of a failed run on a real cluster, collected into a folder before the cluster or namespace is removed.

Collecting never raises, so that the run's own error is reported. It does not wait long for anything that is
unavailable, and lists it in `lacking.txt`.
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
    """Write events and unfinished pods of the repetition and of CARICO, the Jobs and the nodes; then copy logs.

    Parameters
    ----------
    api : ClusterApi
    namespace : str
        The repetition's namespace.
    into : Path
        The folder, which is created.
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
                lacking.append(f"{name}, and everything else from the API: {error}")
                break  # every other call would wait as long
            except Exception as error:
                lacking.append(f"{name}: {_message(error)}")
        try:
            logs(into)
        except Exception as error:
            lacking.append(f"logs: {_message(error)}")
        if lacking:
            (into / "lacking.txt").write_text("\n".join(lacking) + "\n", encoding="utf-8")
    except OSError:
        return  # for example a full disk: the run's own error matters more


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, (CaricoError, TestbedError)) else repr(error)


def _unfinished(api: ClusterApi, namespace: str) -> list[Json]:
    """Return the pods that have not succeeded, each with its node, if any, and its status, which has the reasons."""
    return [
        {"name": pod["metadata"]["name"], "node": pod["spec"].get("nodeName"), "status": pod["status"]}
        for pod in api.pods_in(namespace).list()[0]
        if pod["status"].get("phase") != "Succeeded"
    ]
