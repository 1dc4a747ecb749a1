"""The certificates of a deployment: made by `authority`, and kept as Secrets or in a folder that the user names.

A certificate is reused while it comes from the same CA, has the right names and more than a third of its time left.
One Secret holds the keys of all nodes, because all pods of a DaemonSet have the same volumes; an agent sees only its
own node's key (see the manifests). A Secret holds 1 MiB, which is enough for about a thousand nodes.
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

CA_CONFIG_MAP = "carico-ca"
CA_SECRET = "carico-ca"  # noqa: S105  a name
NODES_SECRET = "carico-agent-tls"  # noqa: S105  a name
SERVERS = {"aggregator": "aggregator", "extender": "scheduler", "kube-scheduler": "scheduler"}
"""The component that each server belongs to."""
CA_DAYS = 3650
_LEAST_DAYS = 30
EXPIRE = "carico.dev/certificates-expire"
"""Annotation of the ConfigMap with the CA: when the first certificate of the deployment, or the CA, expires."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_SECRET_BYTES = 1 << 20
_KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"


def hosts_of(objects: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return each server's host names, from the StatefulSets: the name of the service and the name of every replica."""
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
    aggregator = {"aggregator": names["carico-aggregator"]} if "carico-aggregator" in names else {}
    return aggregator | {
        "extender": ["localhost", *names["carico-scheduler"]],
        "kube-scheduler": ["localhost"],
    }


def is_certificate(name: str) -> bool:
    """Return whether a Secret of this name holds certificates of a deployment."""
    return name in {CA_SECRET, NODES_SECRET, *(f"carico-{server}-tls" for server in SERVERS)}


def unpack(secrets: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write the certificates and keys of the cluster's Secrets into a folder, with the file names of `carico certs`.

    Raises
    ------
    InvalidInput
        If a Secret does not hold a certificate and a key.
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
                f"secret/{name} must hold a certificate and a key ({error}): delete it and deploy again"
            ) from error


def make(authority: Authority, hosts: Mapping[str, list[str]], nodes: Collection[str], renew: bool = False) -> None:
    """Make certificates that the authority's folder lacks or that expire soon; renew all nodes' certificates together.

    Parameters
    ----------
    authority : Authority
    hosts : mapping of str to list of str
        Host names, by server.
    nodes : collection of str
    renew : bool, optional
        Renew all certificates, also those that expire later, but not the CA.

    Raises
    ------
    InvalidInput
        If the CA expires soon and cannot be renewed, because another CA has issued it.
    """
    ca = authority.folder / "ca.crt"
    if not ca.exists():
        replace(authority, valid_days=CA_DAYS).make_ca()
    elif not authority.keeps_ca() and authority.may_renew_ca():
        begins, ends = authority.validity(ca)
        replace(authority, valid_days=max((ends - begins).days, 1)).renew(ca)
    ends = authority.validity(ca)[1]
    left_days = (ends - authority.now).days
    if left_days < _LEAST_DAYS:
        raise InvalidInput(
            f"the CA is valid until {ends:%Y-%m-%d}, at least {_LEAST_DAYS} days are needed: renew it where it was "
            f"issued, or replace it and all certificates with `carico deploy --new-ca`"
        )
    authority = replace(authority, valid_days=min(authority.valid_days, left_days))  # nothing outlives its CA
    for server, names in hosts.items():
        if renew or not authority.keeps_server(server, names):
            authority.make_server(server, names)
    existing = [node for node in nodes if (authority.folder / f"node-{node}.crt").exists()]
    renew_all = renew or not all(authority.keeps_node(node) for node in existing)
    for node in nodes if renew_all else set(nodes).difference(existing):
        authority.make_node(node)


def pack(
    authority: Authority, servers: Collection[str], nodes: Collection[str], namespace: str, with_ca_key: bool
) -> list[dict[str, Any]]:
    """Return the folder's certificates and keys as Kubernetes objects.

    Parameters
    ----------
    authority : Authority
    servers : collection of str
        Those of `SERVERS` that are deployed.
    nodes : collection of str
    namespace : str
    with_ca_key : bool
        Whether the cluster keeps the CA's key, in a Secret that no service account may read.

    Raises
    ------
    InvalidInput
        If there are too many nodes for a Secret.
    """
    folder = authority.folder
    ca = (folder / "ca.crt").read_text(encoding="ascii")
    packed = [labelled("ConfigMap", CA_CONFIG_MAP, namespace, "certificates", data={"ca.crt": ca})]
    if with_ca_key:
        packed.append(_tls(CA_SECRET, "certificates", namespace, folder / "ca"))
    packed += [
        _tls(f"carico-{server}-tls", SERVERS[server], namespace, folder / f"server-{server}") for server in servers
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
    names = ["ca", *(f"server-{server}" for server in servers), *(f"node-{node}" for node in nodes)]
    earliest = min(authority.validity(folder / f"{name}.crt")[1] for name in names)
    packed[0]["metadata"]["annotations"] = {EXPIRE: earliest.strftime(_TIME)}
    data = {node: base64.b64encode(content).decode() for node, content in keys.items()}
    packed.append(labelled("Secret", NODES_SECRET, namespace, "agent", type="Opaque", data=data))
    return packed


def issued(authority: Authority, names: Iterable[str]) -> str:
    """Return when the oldest of these certificates was made.

    Agents are annotated with this time, because they read their certificate only when their pod starts. They are
    therefore rolled once all certificates have been renewed, and when the node with the oldest certificate leaves the
    cluster.
    """
    moments = [authority.validity(authority.folder / f"{name}.crt")[0] for name in names]
    return min(moments).strftime(_TIME) if moments else ""


def _tls(name: str, component: str, namespace: str, file: Path) -> dict[str, Any]:
    data = {
        f"tls.{kind}": base64.b64encode(file.with_name(f"{file.name}.{kind}").read_bytes()).decode()
        for kind in ("crt", "key")
    }
    return labelled("Secret", name, namespace, component, type="kubernetes.io/tls", data=data)


def _write(file: Path, certificate: bytes, key: bytes) -> None:
    file.with_name(f"{file.name}.crt").write_bytes(certificate)
    file.with_name(f"{file.name}.key").write_bytes(key)
