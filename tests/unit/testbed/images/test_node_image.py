"""The node image: holds the control plane's images, which its containerd must load."""

import tarfile

import pytest

from testbed.errors import BuildFailed
from testbed.images.control_plane import ControlPlane
from testbed.images.node_image import node_image
from testbed.images.programs import PROGRAM_SETS


def test_the_control_planes_images_are_built_and_loaded(docker, programs, debian, place):
    image = node_image(ControlPlane(docker, programs, debian))
    told = []
    assert image.ensure(docker, told.append) == image.tag
    calls = place.joinpath("calls").read_text().splitlines()
    assert place.joinpath("imported").read_text().split()[2:] == [
        "registry.k8s.io/kube-proxy:v1.34.4",
        "registry.k8s.io/coredns/coredns:v1.12.1",
        "registry.k8s.io/pause:3.10.1",
    ]
    with tarfile.open(place / "images" / "registry.k8s.io_coredns_coredns:v1.12.1") as context:
        assert context.extractfile("program").read() == b"coredns"
    with tarfile.open(place / "removed" / f"{image.tag}-bare".replace("/", "_")) as context:
        assert {"kubelet", "kubeadm", "kubectl", "files/usr/local/bin/node-entrypoint", "node/prepare"} <= set(
            context.getnames()
        )
        assert context.getmember("files/usr/local/bin/node-entrypoint").mode & 0o111
    assert any("PAUSE_IMAGE=registry.k8s.io/pause:3.10.1" in call for call in calls)
    # The intermediate container and image are removed.
    assert any(call.startswith("rm --force --volumes carico-images-") for call in calls)
    assert any(call.startswith(f"rmi --no-prune {image.tag}-bare") for call in calls)
    assert "control plane: registry.k8s.io/kube-proxy:v1.34.4" in told


def test_an_image_that_containerd_has_not_loaded_is_an_error_and_nothing_is_left(make_docker, programs, debian, place):
    docker = make_docker()
    command = place.parent / "fake-docker"
    command.write_text(command.read_text().replace("s/^images save //", "s/^images save [^ ]* //"))
    with pytest.raises(BuildFailed, match=r"did not load registry.k8s.io/kube-proxy:v1.34.4; it has .*pause:3.10.1"):
        node_image(ControlPlane(docker, programs, debian)).ensure(docker, print)
    calls = place.joinpath("calls").read_text()
    assert "rm --force --volumes carico-images-" in calls
    assert "commit" not in calls


def test_a_kubeadm_that_hangs_is_ended(docker, programs, debian, monkeypatch):
    monkeypatch.setattr("testbed.images.control_plane.STEP_S", 0.2)
    kubeadm = programs.place(next(one for one in PROGRAM_SETS if one.name == "kubernetes")) / "kubeadm"
    kubeadm.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(
        BuildFailed, match=r"kubeadm does not list the images that it needs: .*timed out after 0.2 seconds"
    ):
        node_image(ControlPlane(docker, programs, debian)).ensure(docker, print)


def test_another_program_is_another_image(docker, programs, debian, tmp_path):
    before = node_image(ControlPlane(docker, programs, debian)).tag
    tmp_path.joinpath("go").write_text("#!/bin/sh\necho go1.27\n")
    assert node_image(ControlPlane(docker, programs, debian)).tag != before
