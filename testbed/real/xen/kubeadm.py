"""Configurations for kubeadm: pure functions from values to YAML. They go into files that only root can read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from testbed.errors import ClusterError
from testbed.images.node_image import POD_SUBNET
from testbed.real.xen.description import Guests
from testbed.real.xen.provisioner import Guest

API_PORT = 6443
_API = "kubeadm.k8s.io/v1beta4"
_UNCHECKED = ("Mem", "NumCPU", "SystemVerification")
"""Checks that refuse guests as small as a test's."""
_LIMIT = "30m"
"""The longest that a step of kubeadm may take on a slow machine; the testbed's own limit is shorter or the same."""
_JOIN = re.compile(
    r"kubeadm join (?P<endpoint>[A-Za-z0-9.:\[\]-]+)\s.*?"
    r"--token[ =](?P<token>[a-z0-9]{6}\.[a-z0-9]{16})\s.*?"
    r"--discovery-token-ca-cert-hash[ =](?P<authority>sha256:[0-9a-f]{64})",
    re.DOTALL,
)


@dataclass(frozen=True)
class Join:
    """What a machine needs to join a cluster."""

    endpoint: str
    """Address and port of the API server."""
    token: str
    """A secret."""
    authority: str
    """The digest of the authority's public key, by which the API server is known."""

    def __repr__(self) -> str:
        return f"Join({self.endpoint!r})"


def read_join(text: str, where: str) -> Join:
    """Return what a command `kubeadm join` says; raises ClusterError, without the text, if it is none."""
    found = _JOIN.search(text.replace("\\\n", " ") + " ")
    if found is None:
        raise ClusterError(
            f"{where} has no command kubeadm join with an endpoint, a token and a digest of the authority's key: "
            f"kubeadm token create --print-join-command prints one"
        )
    return Join(found["endpoint"], found["token"], found["authority"])


def init_config(guest: Guest, guests: Guests, version: str) -> str:
    """Return the configuration with which a guest becomes the control plane."""
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": _API,
                "kind": "InitConfiguration",
                "nodeRegistration": _registration(guest, guests),
                "localAPIEndpoint": {"advertiseAddress": guest.address, "bindPort": API_PORT},
                "timeouts": _timeouts(),
            },
            {
                "apiVersion": _API,
                "kind": "ClusterConfiguration",
                "kubernetesVersion": version,
                "controlPlaneEndpoint": f"{guest.address}:{API_PORT}",
                "networking": {"podSubnet": POD_SUBNET},
                "controllerManager": {"extraArgs": [{"name": "allocate-node-cidrs", "value": "false"}]},
            },
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd"},
            {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables"},
        ],
        sort_keys=False,
    )


def join_config(guest: Guest, guests: Guests, join: Join) -> str:
    """Return the configuration with which a guest joins a cluster."""
    discovery = {"apiServerEndpoint": join.endpoint, "token": join.token, "caCertHashes": [join.authority]}
    return yaml.safe_dump(
        {
            "apiVersion": _API,
            "kind": "JoinConfiguration",
            "nodeRegistration": _registration(guest, guests),
            "discovery": {"bootstrapToken": discovery, "tlsBootstrapToken": join.token},
            "timeouts": _timeouts() | {"discovery": _LIMIT},
        },
        sort_keys=False,
    )


def _registration(guest: Guest, guests: Guests) -> dict[str, Any]:
    reserved = f"cpu={guests.reserved.cpu},memory={guests.reserved.memory}"
    arguments = {"node-ip": guest.address, "system-reserved": reserved}
    return {
        "name": guest.name,
        "criSocket": "unix:///run/containerd/containerd.sock",
        "imagePullPolicy": "Never",
        "ignorePreflightErrors": list(_UNCHECKED),
        "kubeletExtraArgs": [{"name": name, "value": value} for name, value in arguments.items()],
    }


def _timeouts() -> dict[str, str]:
    steps = ("controlPlaneComponentHealthCheck", "kubeletHealthCheck", "kubernetesAPICall", "tlsBootstrap")
    return dict.fromkeys(steps, _LIMIT)
