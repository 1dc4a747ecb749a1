"""The certificates of a deployment: made by `authority` and kept as Secrets, or in a folder that the user names.

A certificate is kept as long as it is of the same CA, says what it should and has more than a third of its time left.
All nodes' keys are in one Secret, for pods of a DaemonSet have the same volumes; an agent is shown its own node's only
(see the manifests). A Secret holds 1 MiB, which is about a thousand nodes.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from carico.deployment.authority import Authority
from carico.deployment.manifests import labelled
from carico.errors import InvalidInput

CA_SECRET = "carico-ca"  # noqa: S105  a name
NODES_SECRET = "carico-agent-tls"  # noqa: S105  a name
SERVERS = {"aggregator": "aggregator", "extender": "scheduler", "kube-scheduler": "scheduler"}
"""Servers, and the component that each is of."""
CA_DAYS = 3650
_LEAST_DAYS = 30
_SECRET_BYTES = 1 << 20
_KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"


def hosts_of(objects: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return by what names each server is called, from the StatefulSets: the service, and every replica by its own."""
    names = {
        thing["metadata"]["name"]: [
            thing["spec"]["serviceName"],
            *(
                f"{thing['metadata']['name']}-{index}.{thing['spec']['serviceName']}"
                for index in range(thing["spec"]["replicas"])
            ),
        ]
        for thing in objects
        if thing["kind"] == "StatefulSet"
    }
    return {
        "aggregator": names["carico-aggregator"],
        "extender": ["localhost", *names["carico-scheduler"]],
        "kube-scheduler": ["localhost"],
    }


def unpack(secrets: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write what the cluster's Secrets hold into a folder, as `carico certs` names it.

    Raises
    ------
    InvalidInput
        If a Secret holds something else.
    """
    for name, thing in secrets.items():
        try:
            data = {key: base64.b64decode(value, validate=True) for key, value in (thing.get("data") or {}).items()}
            if name == NODES_SECRET:
                for node, content in data.items():
                    certificate, _, key = content.partition(_KEY_BEGINS)
                    _write(folder / f"node-{node}", certificate, _KEY_BEGINS + key)
            else:
                file = "ca" if name == CA_SECRET else f"server-{name.removeprefix('carico-').removesuffix('-tls')}"
                _write(folder / file, data["tls.crt"], data["tls.key"])
        except (KeyError, ValueError) as error:
            raise InvalidInput(
                f"secret/{name} holds no certificate and key ({error}): delete it, and it is made anew"
            ) from error


def make(authority: Authority, hosts: Mapping[str, list[str]], nodes: Collection[str]) -> None:
    """Make what is missing in the authority's folder, or near its end: the nodes' certificates all at once.

    Raises
    ------
    InvalidInput
        If the CA is near its end.
    """
    ca = authority.folder / "ca.crt"
    if not ca.exists():
        replace(authority, valid_days=CA_DAYS).make_ca()
    ends = authority.validity(ca)[1]
    left_days = (ends - authority.now).days
    if left_days < _LEAST_DAYS:
        raise InvalidInput(
            f"the CA is valid until {ends:%Y-%m-%d}, {_LEAST_DAYS} days more are needed: make a new one (delete "
            f"secret/{CA_SECRET}, or give another --certificates), and all certificates are made anew"
        )
    authority = replace(authority, valid_days=min(authority.valid_days, left_days))  # nothing outlives its CA
    for server, names in hosts.items():
        if not authority.keeps_server(server, names):
            authority.make_server(server, names)
    there = [node for node in nodes if (authority.folder / f"node-{node}.crt").exists()]
    all_anew = not all(authority.keeps_node(node) for node in there)
    for node in nodes if all_anew else set(nodes).difference(there):
        authority.make_node(node)


def pack(authority: Authority, nodes: Collection[str], namespace: str, with_ca_key: bool) -> list[dict[str, Any]]:
    """Return the folder's content as objects.

    Parameters
    ----------
    authority : Authority
    nodes : collection of str
    namespace : str
    with_ca_key : bool
        Whether the CA's key is kept on the cluster, where nobody's service account may read it.

    Raises
    ------
    InvalidInput
        If there are more nodes than a Secret holds.
    """
    folder = authority.folder
    ca = (folder / "ca.crt").read_text(encoding="ascii")
    packed = [labelled("ConfigMap", "carico-ca", namespace, "certificates", data={"ca.crt": ca})]
    if with_ca_key:
        packed.append(_tls(CA_SECRET, "certificates", namespace, folder / "ca"))
    packed += [
        _tls(f"carico-{server}-tls", component, namespace, folder / f"server-{server}")
        for server, component in SERVERS.items()
    ]
    keys = {
        node: b"".join((folder / f"node-{node}.{kind}").read_bytes() for kind in ("crt", "key"))
        for node in sorted(nodes)
    }
    if (size := sum(map(len, keys.values()))) > _SECRET_BYTES:
        raise InvalidInput(
            f"the certificates of {len(nodes)} nodes are {size} bytes, a Secret holds {_SECRET_BYTES}: give nodes "
            f"their certificates by other means, for instance a CSI driver (see docs/how-to/deploy.md)"
        )
    data = {node: base64.b64encode(content).decode() for node, content in keys.items()}
    packed.append(labelled("Secret", NODES_SECRET, namespace, "agent", type="Opaque", data=data))
    return packed


def issued(authority: Authority, names: Iterable[str]) -> str:
    """Return when the oldest of some certificates was made.

    Pods that show it are rolled once all have been renewed, and when the node with the oldest is there no more.
    """
    moments = [authority.validity(authority.folder / f"{name}.crt")[0] for name in names]
    return min(moments).strftime("%Y-%m-%dT%H:%M:%SZ") if moments else ""


def _tls(name: str, component: str, namespace: str, file: Path) -> dict[str, Any]:
    data = {
        f"tls.{kind}": base64.b64encode(file.with_name(f"{file.name}.{kind}").read_bytes()).decode()
        for kind in ("crt", "key")
    }
    return labelled("Secret", name, namespace, component, type="kubernetes.io/tls", data=data)


def _write(file: Path, certificate: bytes, key: bytes) -> None:
    file.with_name(f"{file.name}.crt").write_bytes(certificate)
    file.with_name(f"{file.name}.key").write_bytes(key)
