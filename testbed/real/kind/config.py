"""The configuration of a kind cluster: a pure function from values to a document."""

from __future__ import annotations

from typing import Any

import yaml

from testbed.images.node_image import POD_SUBNET


def kind_config(workers: int, own_network: bool, cgroup_version: int) -> str:
    """Return kind's configuration as YAML.

    Parameters
    ----------
    workers : int
    own_network : bool
        Whether the node image, as ours does, brings its own pod network and lets the kubelet manage cgroups itself.
    cgroup_version : int
        The machine's version of control groups.
    """
    kubelet: dict[str, Any] = {"kind": "KubeletConfiguration"}
    networking: dict[str, Any] = {"ipFamily": "ipv4", "podSubnet": POD_SUBNET}
    patches = [kubelet]
    if cgroup_version == 1:
        kubelet["failCgroupV1"] = False  # by default newer kubelets refuse to start there
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
