"""A control plane of the user's own: whether guests can join it, and what it has of them afterwards."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from carico.clock import SystemClock
from carico.deployment.deploy import Deployment
from carico.deployment.manifests import NAMESPACE as CARICO
from carico.errors import CaricoError
from testbed.errors import ClusterError
from testbed.real.api import ClusterApi
from testbed.real.xen.description import ControlPlane
from testbed.real.xen.kubeadm import Join, read_join
from testbed.real.xen.provisioner import name_pattern

_UNDEPLOY_S = 120.0


def problems_with(plane: ControlPlane, connect: Callable[[Path], ClusterApi]) -> list[str]:
    """Return why guests could not join a control plane.

    Parameters
    ----------
    plane : ControlPlane
    connect : callable
        Returns the API that a kubeconfig leads to.
    """
    files = (plane.kubeconfig, plane.join)
    if missing := [file for file in files if not Path(file).is_file()]:
        return [f"there is no file {file}, which the description names (control_plane)" for file in missing]
    found, join = [], None
    try:
        join = read_join(text_of(plane.join), plane.join)
    except ClusterError as error:
        found.append(str(error))
    try:
        with closing(connect(Path(plane.kubeconfig))) as api:
            if join is not None and not _accepts(api, join):
                found.append(
                    f"the control plane does not know the token of {plane.join} any more: kubeadm token create "
                    f"--print-join-command prints a new one, which is valid for a day"
                )
            api.nodes()
    except CaricoError as error:
        found.append(f"the control plane of {plane.kubeconfig} cannot be used (control_plane): {error}")
    return found


def clear(name: str, kubeconfig: Path, connect: Callable[[Path], ClusterApi]) -> None:
    """Remove from a control plane what it has of a cluster: nodes, CARICO, and the testbed's namespaces.

    Raises
    ------
    ClusterError
        If it does not answer, or refuses.
    """
    try:
        with closing(connect(kubeconfig)) as api:
            ours = name_pattern(name)
            for node in api.nodes():
                if ours.fullmatch(node["metadata"]["name"]):
                    api.delete_node(node["metadata"]["name"])
            Deployment(api.objects, SystemClock(), lambda line: None).undeploy(CARICO, _UNDEPLOY_S)
            for namespace in api.namespaces():
                api.delete_namespace(namespace["metadata"]["name"])
    except CaricoError as error:
        raise ClusterError(f"the control plane still has something of {name}: {error}") from error


def text_of(file: str) -> str:
    """Return what a file of the user's contains; raises ClusterError if it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ClusterError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:  # the error would have the secrets that these files hold
        raise ClusterError(f"{file} is no text in UTF-8") from None


def _accepts(api: ClusterApi, join: Join) -> bool:
    """Whether a token is there and has not expired; with another one, kubeadm tries to join for half an hour."""
    place = {"name": f"bootstrap-token-{join.token.partition('.')[0]}", "namespace": "kube-system"}
    secret = api.objects.read({"apiVersion": "v1", "kind": "Secret", "metadata": place})
    if secret is None:
        return False
    expires = base64.b64decode((secret.get("data") or {}).get("expiration", "")).decode()
    return not expires or datetime.fromisoformat(expires).timestamp() > api.time()
