"""kind's configuration."""

import yaml

from testbed.real.kind.config import kind_config


def patches(document):
    return {patch["kind"]: patch for patch in map(yaml.safe_load, document["kubeadmConfigPatches"])}


def test_a_published_image_keeps_its_own_network():
    document = yaml.safe_load(kind_config(3, own_network=False, cgroup_version=2))
    assert [node["role"] for node in document["nodes"]] == ["control-plane", "worker", "worker", "worker"]
    assert "disableDefaultCNI" not in document["networking"]
    assert patches(document) == {"KubeletConfiguration": {"kind": "KubeletConfiguration"}}


def test_our_image_has_its_own_network_and_control_groups():
    document = yaml.safe_load(kind_config(1, own_network=True, cgroup_version=1))
    assert document["networking"]["disableDefaultCNI"] is True
    kubelet = patches(document)["KubeletConfiguration"]
    assert (kubelet["cgroupDriver"], kubelet["cgroupRoot"], kubelet["failCgroupV1"]) == ("cgroupfs", "/", False)
    assert patches(document)["ClusterConfiguration"]["controllerManager"]["extraArgs"]["allocate-node-cidrs"] == "false"
