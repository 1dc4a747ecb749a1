"""The configuration of a kind cluster. Pure: a document from values."""

from __future__ import annotations

from typing import Any

import yaml

POD_SUBNET = "10.244.0.0/16"


def kind_config(workers: int, own_network: bool, cgroup_version: int) -> str:
    """Return kind's configuration as YAML.

    Parameters
    ----------
    workers : int
    own_network : bool
        Whether the node image brings its network for pods, as ours does, and cgroups that the kubelet manages itself.
    cgroup_version : int
        Of the machine.
    """
    kubelet: dict[str, Any] = {"kind": "KubeletConfiguration"}
    networking: dict[str, Any] = {"ipFamily": "ipv4", "podSubnet": POD_SUBNET}
    patches = [kubelet]
    if cgroup_version == 1:
        kubelet["failCgroupV1"] = False  # newer ones refuse to start there unless they are told not to
    if own_network:
        networking |= {"disableDefaultCNI": True, "kubeProxyMode": "nftables"}
        kubelet |= {"cgroupDriver": "cgroupfs", "cgroupRoot": "/"}
        controllers = {"extraArgs": {"allocate-node-cidrs": "false"}}
        patches.append({"kind": "ClusterConfiguration", "controllerManager": controllers})
    return yaml.safe_dump(
        {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "networking": networking,
            "kubeadmConfigPatches": [yaml.safe_dump(patch) for patch in patches],
            "nodes": [{"role": "control-plane"}, *[{"role": "worker"}] * workers],
        },
        sort_keys=False,
    )
