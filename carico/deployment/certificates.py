"""The certificates of a deployment: made by `authority`, and kept as Secrets or in a folder that the user names.

There are two CAs. One signs servers, here; the user keeps its key. The other signs nodes, on the cluster, whenever one
of them asks for it (`carico.enrolment`); its key is a Secret that only the signer mounts. A certificate is reused while
it comes from the same CA, has the right names and more than a third of its time left.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from carico.deployment.authority import CA_NAME, NODES_CA_NAME, Authority
from carico.deployment.manifests import labelled
from carico.errors import InvalidInput

CA_CONFIG_MAP = "carico-ca"
CA_SECRET = "carico-ca"  # noqa: S105  a name
NODES_CA_SECRET = "carico-nodes-ca"  # noqa: S105  a name
KEYS_OF_NODES = "carico-agent-tls"
"""The Secret in which earlier versions kept the keys of all nodes."""
SERVERS = {
    "aggregator": "aggregator",
    "extender": "scheduler",
    "kube-scheduler": "scheduler",
    "signer": "scheduler",
}
"""The component that each server belongs to."""
CA_DAYS = 3650
_LEAST_DAYS = 30
EXPIRE = "carico.dev/certificates-expire"
"""Annotation of the ConfigMap with the CA: when the first certificate of the deployment, or the CA, expires."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


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
        "signer": ["localhost", *names["carico-scheduler"]],
    }


def is_certificate(name: str) -> bool:
    """Return whether a Secret of this name holds certificates of a deployment."""
    return name in {CA_SECRET, NODES_CA_SECRET, *(f"carico-{server}-tls" for server in SERVERS)}


def unpack(secrets: Mapping[str, Mapping[str, Any]], servers: Path, nodes: Path) -> None:
    """Write the certificates and keys of the cluster's Secrets into folders, with the file names of `carico certs`.

    Parameters
    ----------
    secrets : mapping of str to mapping
        By name.
    servers, nodes : Path
        The folder of the servers' CA and certificates, and that of the nodes' CA.

    Raises
    ------
    InvalidInput
        If a Secret does not hold a certificate and a key.
    """
    files = {CA_SECRET: servers / "ca", NODES_CA_SECRET: nodes / "ca"}
    for name, thing in secrets.items():
        file = files.get(name) or servers / f"server-{name.removeprefix('carico-').removesuffix('-tls')}"
        try:
            data = {key: base64.b64decode(value, validate=True) for key, value in (thing.get("data") or {}).items()}
            for kind in ("crt", "key"):
                file.with_name(f"{file.name}.{kind}").write_bytes(data[f"tls.{kind}"])
        except (KeyError, ValueError) as error:
            raise InvalidInput(
                f"secret/{name} must hold a certificate and a key ({error}): delete it and deploy again"
            ) from error


def make(authority: Authority | None, nodes: Authority, hosts: Mapping[str, list[str]], renew: bool = False) -> None:
    """Make the CAs and servers' certificates that the authorities' folders lack or that expire soon.

    Parameters
    ----------
    authority : Authority or None
        Signs servers; None if another CA does.
    nodes : Authority
        Signs nodes, on the cluster; only its CA is made here.
    hosts : mapping of str to list of str
        Host names, by server.
    renew : bool, optional
        Renew all certificates, also those that expire later, but not the CAs.

    Raises
    ------
    InvalidInput
        If the CA expires soon and cannot be renewed, because another CA has issued it.
    """
    _ensure_ca(nodes, NODES_CA_NAME)
    if authority is None:
        return
    left_days = _ensure_ca(authority, CA_NAME)
    authority = replace(authority, valid_days=min(authority.valid_days, left_days))  # nothing outlives its CA
    for server, names in hosts.items():
        if renew or not authority.keeps_server(server, names):
            authority.make_server(server, names)


def _ensure_ca(authority: Authority, name: str) -> int:
    """Make or renew a CA if necessary, and return for how many days it is valid."""
    ca = authority.folder / "ca.crt"
    if not ca.exists():
        replace(authority, valid_days=CA_DAYS).make_ca(name)
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
    return left_days


def pack(
    authority: Authority, nodes: Authority, servers: Collection[str], namespace: str, with_ca_key: bool
) -> list[dict[str, Any]]:
    """Return the folders' certificates and keys as Kubernetes objects.

    Parameters
    ----------
    authority, nodes : Authority
        See `make`.
    servers : collection of str
        Those of `SERVERS` that are deployed.
    namespace : str
    with_ca_key : bool
        Whether the cluster keeps the key of the servers' CA, in a Secret that no service account may read.
    """
    folder = authority.folder
    cas = {"ca.crt": folder / "ca.crt", "nodes-ca.crt": nodes.folder / "ca.crt"}
    data = {name: file.read_text(encoding="ascii") for name, file in cas.items()}
    packed = [labelled("ConfigMap", CA_CONFIG_MAP, namespace, "certificates", data=data)]
    if with_ca_key:
        packed.append(_tls(CA_SECRET, "certificates", namespace, folder / "ca"))
    packed.append(_tls(NODES_CA_SECRET, "scheduler", namespace, nodes.folder / "ca"))
    packed += [
        _tls(f"carico-{server}-tls", SERVERS[server], namespace, folder / f"server-{server}") for server in servers
    ]
    files = [*cas.values(), *(folder / f"server-{server}.crt" for server in servers)]
    earliest = min(authority.validity(file)[1] for file in files)
    packed[0]["metadata"]["annotations"] = {EXPIRE: earliest.strftime(_TIME)}
    return packed


def _tls(name: str, component: str, namespace: str, file: Path) -> dict[str, Any]:
    data = {
        f"tls.{kind}": base64.b64encode(file.with_name(f"{file.name}.{kind}").read_bytes()).decode()
        for kind in ("crt", "key")
    }
    return labelled("Secret", name, namespace, component, type="kubernetes.io/tls", data=data)
